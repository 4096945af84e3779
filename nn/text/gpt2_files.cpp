#include "nn/text/gpt2_files.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/files/file.h"
#include "nn/text/bpe.h"
#include "nn/text/byte_alphabet.h"
#include "nn/text/json_reader.h"
#include "nn/text/read_text.h"
#include "nn/text/tokenizer_json.h"

namespace vitrine::nn {
namespace {

constexpr const char* kEndOfText = "<|endoftext|>";

/// Follows merges in their order.
class MergeOrder {
 public:
  explicit MergeOrder(const VocabularyTable& vocabulary)
      : vocabulary_(vocabulary), made_(static_cast<size_t>(vocabulary.size())) {}
  /// The part of the next merge that is neither a byte nor made by an earlier merge, as the files
  /// spell it.
  std::optional<std::string> missing_part(const Merge& next) {
    for (const int32_t part : {next.left, next.right})
      if (vocabulary_[part].size() > 1 && !made_[static_cast<size_t>(part)])
        return spell_bytes(vocabulary_[part]);
    made_[static_cast<size_t>(next.merged)] = true;
    return std::nullopt;
  }

 private:
  const VocabularyTable& vocabulary_;
  std::vector<bool> made_;
};

std::vector<Merge> read_merges(const std::string& path, const VocabularyTable& vocabulary) {
  std::istringstream lines(read_text(path));
  std::vector<Merge> merges;
  MergeOrder order(vocabulary);
  std::string line;
  for (int64_t number = 1; std::getline(lines, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if ((number == 1 && line.starts_with("#version")) || line.empty()) continue;
    const size_t blank = line.find(' ');
    check(blank != line.npos && line.find(' ', blank + 1) == line.npos,
          "{}, line {}: \"{}\" is no merge, wanted two parts with a blank between them", path, number, line);
    const auto id_of = [&](const std::string& spelling) {
      const auto bytes = unspell_bytes(spelling);
      const auto id = bytes ? vocabulary.find(*bytes) : std::nullopt;
      check(id.has_value(), "{}, line {}: \"{}\" is not in the vocabulary", path, number, spelling);
      return *id;
    };
    const std::string left = line.substr(0, blank), right = line.substr(blank + 1);
    const Merge merge{id_of(left), id_of(right), id_of(left + right)};
    if (const auto missing = order.missing_part(merge))
      fail("{}, line {}: the merges are out of order: \"{}\" is not made by an earlier line", path, number,
           *missing);
    merges.push_back(merge);
  }
  return merges;
}

/// Errors, unless the stages are those of load_gpt2_tokenizer.
void check_is_gpt2(const Pipeline& stages, const Bpe& bpe) {
  const auto& steps = stages.splitter.steps();
  const bool splits =
      steps.size() == 1 && steps[0].remains == Remains::all && steps[0].pattern.text() == kGpt2Pattern;
  const auto is_end = [](const AddedToken& token) {
    return token.text == kEndOfText && token.special && !token.normalized && !token.strip_left &&
           !token.strip_right;
  };
  const bool only_end = std::all_of(stages.added.begin(), stages.added.end(), is_end);
  const bool learned_end = stages.added.empty() && bpe.vocabulary().find(kEndOfText).has_value();
  for (const auto& [same, difference] :
       {std::pair{stages.normalizer.steps().empty() && !stages.blank_first,
                  "changes a text before it is split"},
        {splits, "splits a text by another pattern"},
        {!bpe.whole_words(), "takes whole words that are tokens before it merges"},
        {only_end && !learned_end, "has other special tokens than <|endoftext|>"},
        {stages.front.empty() && stages.back.empty(), "puts tokens around a text"}})
    check(same, "save_gpt2_tokenizer: unlike GPT-2's, the tokenizer {}, which these files cannot say",
          difference);
  MergeOrder order(bpe.vocabulary());
  for (const Merge& merge : bpe.merges())
    if (const auto missing = order.missing_part(merge))
      fail("save_gpt2_tokenizer: the merges are out of order: \"{}\" is not made by an earlier one",
           *missing);
}

}  // namespace

PipelineTokenizer load_gpt2_tokenizer(const std::string& encoder_json, const std::string& vocab_bpe) {
  const JsonReader encoder(read_text(encoder_json), encoder_json);
  VocabularyTable vocabulary = read_vocabulary(encoder, true);
  std::vector<Merge> merges = read_merges(vocab_bpe, vocabulary);
  Pipeline stages;
  stages.splitter = Splitter({{Pattern(kGpt2Pattern), Remains::all}});
  if (const auto id = vocabulary.find(kEndOfText)) stages.added = {{.id = *id, .text = kEndOfText}};
  try {
    stages.model = std::make_shared<Bpe>(std::move(vocabulary), std::move(merges));
  } catch (const Error& error) {
    fail("{}: {}", vocab_bpe, error.what());
  }
  return PipelineTokenizer(std::move(stages));
}

void save_gpt2_tokenizer(const PipelineTokenizer& tokenizer, const std::string& encoder_json,
                         const std::string& vocab_bpe) {
  const Pipeline& stages = tokenizer.stages();
  const auto* bpe = dynamic_cast<const Bpe*>(stages.model.get());
  check(bpe != nullptr, "save_gpt2_tokenizer: wanted byte-level BPE, got {}", tokenizer.kind());
  check_is_gpt2(stages, *bpe);
  check(encoder_json != vocab_bpe, "save_gpt2_tokenizer: both files are {}", encoder_json);
  nlohmann::ordered_json ids = nlohmann::ordered_json::object();
  auto& members = ids.get_ref<nlohmann::ordered_json::object_t&>();
  for (int64_t id = 0; id < tokenizer.size(); ++id)
    members.emplace_back(id < bpe->vocabulary().size() ? spell_bytes(bpe->vocabulary()[id]) : kEndOfText, id);
  std::string merges = "#version: 0.2\n";
  for (const Merge& m : bpe->merges())
    merges += spell_bytes(bpe->vocabulary()[m.left]) + " " + spell_bytes(bpe->vocabulary()[m.right]) + "\n";
  const std::string json = ids.dump();
  write_file("save_gpt2_tokenizer", encoder_json, std::array<std::string_view, 1>{json});
  write_file("save_gpt2_tokenizer", vocab_bpe, std::array<std::string_view, 1>{merges});
}

}  // namespace vitrine::nn
