// Reads tokenizer.json.
#include "nn/text/tokenizer_json.h"

#include <algorithm>

#include "core/error.h"
#include "nn/text/bpe.h"
#include "nn/text/byte_alphabet.h"
#include "nn/text/characters.h"
#include "nn/text/word_piece.h"
#include "nn/text/words.h"

namespace vitrine::nn {
namespace {

/// Calls f. An error of f becomes an error of the place that `reader` is at.
template <class F>
auto at(const JsonReader& reader, F f) {
  try {
    return f();
  } catch (const Error& error) {
    reader.fail(fmt::format("is refused: {}", error.what()));
  }
}

/// Calls f with the elements of a Sequence, or with the value itself; not at all for null.
template <class F>
void for_each_stage(const JsonReader& file, const char* stage, const char* elements, F f) {
  if (!file.has(stage)) return;
  const JsonReader reader = file[stage];
  if (reader["type"].text() != "Sequence") return f(reader, reader["type"].text());
  reader.only({"type", elements});
  reader[elements].for_each_element(
      [&](size_t, const JsonReader& element) { f(element, element["type"].text()); });
}

Normalization read_bert_normalizer(const JsonReader& reader) {
  reader.only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  const bool lowercase = reader.flag("lowercase", true);
  return {.kind = Normalization::Kind::bert,
          .clean_text = reader.flag("clean_text", true),
          .spaces_around_chinese = reader.flag("handle_chinese_chars", true),
          .strip_accents = reader.flag("strip_accents", lowercase),
          .lowercase = lowercase};
}

/// A regular expression that matches the text alone.
std::string quoted(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    const bool is_mark = c > ' ' && c < 0x7F && std::isalnum(static_cast<unsigned char>(c)) == 0;
    pattern += is_mark ? std::string("\\") + c : std::string(1, c);
  }
  return pattern;
}

Splitter::Step read_split(const JsonReader& reader) {
  reader.only({"type", "pattern", "behavior", "invert"});
  const JsonReader pattern = reader["pattern"];
  pattern.only({"Regex", "String"});
  const bool is_regex = pattern.has("Regex");
  const JsonReader text = pattern[is_regex ? "Regex" : "String"];
  const std::string behavior = reader["behavior"].text();
  if (behavior != "Isolated" && behavior != "Removed")
    reader["behavior"].fail("is " + behavior + ", wanted Isolated or Removed");
  const Remains remains = behavior == "Isolated"         ? Remains::all
                          : reader.flag("invert", false) ? Remains::matches
                                                         : Remains::between;
  return at(text, [&] {
    return Splitter::Step{Pattern(is_regex ? text.text() : quoted(text.text())), remains};
  });
}

/// The two parts of a merge: ["a", "b"] or "a b".
std::pair<std::string, std::string> read_parts(const JsonReader& merge) {
  std::vector<std::string> parts;
  if (merge.is_list()) {
    merge.for_each_element([&](size_t, const JsonReader& part) { parts.push_back(part.text()); });
  } else {
    const std::string text = merge.text();
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(' ', begin), text.size());
      parts.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  if (parts.size() != 2) merge.fail(fmt::format("has {} parts, wanted 2", parts.size()));
  return {parts[0], parts[1]};
}

Merge read_merge(const JsonReader& merge, const VocabularyTable& vocabulary) {
  const auto parts = read_parts(merge);
  const auto id_of = [&](const std::string& spelling) {
    const auto bytes = unspell_bytes(spelling);
    const auto id = bytes ? vocabulary.find(*bytes) : std::nullopt;
    if (!id)
      merge.fail(fmt::format("joins \"{}\" and \"{}\": \"{}\" is not in the vocabulary", parts.first,
                             parts.second, spelling));
    return *id;
  };
  return {id_of(parts.first), id_of(parts.second), id_of(parts.first + parts.second)};
}

std::shared_ptr<const TokenModel> read_bpe(const JsonReader& model, const JsonReader& file) {
  model.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
              "byte_fallback", "ignore_merges", "vocab", "merges"});
  for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                          "fuse_unk", "byte_fallback"})
    model.not_set(key);
  const JsonReader decoder = file["decoder"]["type"];
  if (decoder.text() != "ByteLevel")
    decoder.fail("is " + decoder.text() + ", wanted ByteLevel for a BPE model");
  VocabularyTable vocabulary = read_vocabulary(model["vocab"], true);
  std::vector<Merge> merges;
  model["merges"].for_each_element(
      [&](size_t, const JsonReader& merge) { merges.push_back(read_merge(merge, vocabulary)); });
  return at(model["merges"], [&] {
    return std::make_shared<Bpe>(std::move(vocabulary), std::move(merges),
                                 model.flag("ignore_merges", false));
  });
}

std::shared_ptr<const TokenModel> read_word_piece(const JsonReader& model, const JsonReader& file) {
  model.only({"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  const JsonReader decoder = file["decoder"];
  if (decoder["type"].text() != "WordPiece")
    decoder["type"].fail("is " + decoder["type"].text() + ", wanted WordPiece for a WordPiece model");
  decoder.only({"type", "prefix", "cleanup"});
  WordPieceOptions options;
  options.unknown = model.text("unk_token", options.unknown);
  options.prefix = model.text("continuing_subword_prefix", options.prefix);
  if (model.has("max_input_chars_per_word"))
    options.longest_word = model["max_input_chars_per_word"].number();
  options.clean_up = decoder.flag("cleanup", true);
  if (decoder.text("prefix", "##") != options.prefix)
    decoder["prefix"].fail("differs from the continuing_subword_prefix " + options.prefix);
  VocabularyTable vocabulary = read_vocabulary(model["vocab"], false);
  return at(model, [&] { return std::make_shared<WordPiece>(std::move(vocabulary), options); });
}

std::shared_ptr<const TokenModel> read_words(const JsonReader& model, const JsonReader& file) {
  model.only({"type", "unk_token", "vocab"});
  WordsOptions options;
  options.unknown = model.text("unk_token", options.unknown);
  for_each_stage(file, "decoder", "decoders", [&](const JsonReader& decoder, const std::string& type) {
    if (type != "ByteFallback" && type != "Fuse")
      decoder["type"].fail("is " + type + ", wanted ByteFallback or Fuse for a WordLevel model");
    options.blanks = false;
    if (type == "ByteFallback") options.byte_fallback = true;
  });
  VocabularyTable vocabulary = read_vocabulary(model["vocab"], false);
  return at(model, [&] { return std::make_shared<Words>(std::move(vocabulary), options); });
}

/// Files of the years before 2022 have no "type"; their members say what they are.
std::string type_of_model(const JsonReader& model) {
  if (model.has("type")) return model["type"].text();
  if (model.has("merges")) return "BPE";
  return model.has("continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

}  // namespace

VocabularyTable read_vocabulary(const JsonReader& vocab, bool byte_level) {
  std::vector<std::string> tokens(vocab.count());
  std::vector<bool> seen(tokens.size());
  vocab.for_each_member([&](const std::string& spelling, const JsonReader& value) {
    const auto id = static_cast<size_t>(value.number());
    if (id >= tokens.size())
      value.fail(fmt::format("is {}, wanted an id below the number of tokens, {}", id, tokens.size()));
    if (seen[id]) value.fail(fmt::format("is {}, the id of \"{}\" as well", id, tokens[id]));
    seen[id] = true;
    const auto bytes = byte_level ? unspell_bytes(spelling) : spelling;
    if (!bytes) value.fail("has a key with a character that spells no byte (GPT-2's alphabet)");
    tokens[id] = *bytes;
  });
  return at(vocab, [&] { return VocabularyTable(std::move(tokens)); });
}

const std::vector<NamedNormalization>& named_normalizations() {
  using Kind = Normalization::Kind;
  static const std::vector<NamedNormalization> all = {{"NFC", Kind::nfc},
                                                      {"NFD", Kind::nfd},
                                                      {"NFKC", Kind::nfkc},
                                                      {"NFKD", Kind::nfkd},
                                                      {"Lowercase", Kind::lowercase},
                                                      {"StripAccents", Kind::strip_accents}};
  return all;
}

const std::vector<NamedSplitter>& named_splitters() {
  static const std::vector<NamedSplitter> all = {
      {"BertPreTokenizer", bert_splitter().steps()},
      {"WhitespaceSplit", {{Pattern(R"(\s+)"), Remains::between}}},
      {"Whitespace",
       {{Pattern(
             R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}\s]+)"),
         Remains::matches}}}};
  return all;
}

Normalizer read_normalizer(const JsonReader& file) {
  std::vector<Normalization> steps;
  for_each_stage(file, "normalizer", "normalizers", [&](const JsonReader& reader, const std::string& type) {
    if (type == "BertNormalizer") return steps.push_back(read_bert_normalizer(reader));
    for (const NamedNormalization& named : named_normalizations())
      if (type == named.name) {
        reader.only({"type"});
        return steps.push_back({.kind = named.kind});
      }
    reader["type"].fail("is " + type + ", which is no normalizer that is supported");
  });
  return Normalizer(std::move(steps));
}

bool read_pre_tokenizer(const JsonReader& file, Pipeline& stages) {
  std::vector<Splitter::Step> steps;
  bool byte_level = false;
  for_each_stage(file, "pre_tokenizer", "pretokenizers",
                 [&](const JsonReader& reader, const std::string& type) {
                   if (byte_level) reader.fail("follows ByteLevel, which must be the last");
                   if (type == "Split") return steps.push_back(read_split(reader));
                   if (type == "ByteLevel") {
                     reader.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
                     byte_level = true;
                     stages.blank_first = reader.flag("add_prefix_space", true);
                     if (stages.blank_first && !steps.empty())
                       reader["add_prefix_space"].fail("is true after another split, which is not supported");
                     if (reader.flag("use_regex", true))
                       steps.push_back({Pattern(kGpt2Pattern), Remains::all});
                     return;
                   }
                   for (const NamedSplitter& named : named_splitters())
                     if (type == named.name) {
                       reader.only({"type"});
                       steps.insert(steps.end(), named.steps.begin(), named.steps.end());
                       return;
                     }
                   reader["type"].fail("is " + type + ", which is no pre-tokenizer that is supported");
                 });
  stages.splitter = Splitter(std::move(steps));
  return byte_level;
}

std::shared_ptr<const TokenModel> read_model(const JsonReader& file, bool byte_level) {
  const JsonReader model = file["model"];
  const std::string type = type_of_model(model);
  if (type == "BPE" && !byte_level)
    model.fail("is a BPE model without ByteLevel as pre-tokenizer, which is not supported");
  if (type == "BPE") return read_bpe(model, file);
  if (byte_level) model.fail("is " + type + " after ByteLevel, wanted BPE");
  if (type == "WordPiece") return read_word_piece(model, file);
  if (type == "WordLevel") return read_words(model, file);
  model["type"].fail("is " + type + ", wanted BPE, WordPiece or WordLevel");
}

std::vector<AddedToken> read_added_tokens(const JsonReader& file) {
  std::vector<AddedToken> tokens;
  if (!file.has("added_tokens")) return tokens;
  file["added_tokens"].for_each_element([&](size_t, const JsonReader& reader) {
    reader.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    reader.not_set("single_word");
    const bool special = reader.flag("special", false);
    tokens.push_back({.id = reader["id"].number(),
                      .text = reader["content"].text(),
                      .special = special,
                      .normalized = reader.flag("normalized", !special),
                      .strip_left = reader.flag("lstrip", false),
                      .strip_right = reader.flag("rstrip", false)});
  });
  return tokens;
}

std::unique_ptr<Tokenizer> tokenizer_from_json(const std::string& json, const std::string& what) {
  const JsonReader file(json, what);
  if (file.is_list()) return std::make_unique<CharacterVocabulary>(CharacterVocabulary::from_json(json));
  file.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
             "post_processor", "decoder", "model"});
  if (file.text("version", "1.0") != "1.0")
    file["version"].fail("is not 1.0, the only version that is known");
  file.not_set("truncation");
  file.not_set("padding");
  Pipeline stages;
  stages.normalizer = read_normalizer(file);
  const bool byte_level = read_pre_tokenizer(file, stages);
  stages.model = read_model(file, byte_level);
  stages.added = read_added_tokens(file);
  read_post_processor(file, stages);
  return at(file, [&] { return std::make_unique<PipelineTokenizer>(std::move(stages)); });
}

}  // namespace vitrine::nn
