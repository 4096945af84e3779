#include "nn/text/word_piece.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "nn/text/characters.h"
#include "nn/text/utf8.h"

namespace vitrine::nn {
namespace {

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

/// Removes the blank that decoding puts before punctuation and shortened words.
std::string without_blank(std::string text) {
  for (const char* joined : {" .", " ?", " !", " ,", " n't", " 'm", " 's", " 've", " 're"})
    for (size_t at = 0; (at = text.find(joined, at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

}  // namespace

WordPiece::WordPiece(VocabularyTable vocabulary, WordPieceOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {
  for (const std::string& token : vocabulary_.tokens()) {
    check(utf8_valid_length(token, 0) == token.size(), "WordPiece: the token \"{}\" is not valid UTF-8",
          token);
    longest_token_ = std::max(longest_token_, token.size());
  }
  const auto unknown = vocabulary_.find(options_.unknown);
  check(unknown.has_value(), "WordPiece: the vocabulary has no token {} for unknown words", options_.unknown);
  check(options_.longest_word >= 0, "WordPiece: longest_word is {}, wanted at least 0",
        options_.longest_word);
  unknown_ = *unknown;
}

void WordPiece::append_ids(std::string_view word, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  const auto give_up = [&] {
    ids.resize(before);
    ids.push_back(unknown_);
  };
  if (count_characters(word) > options_.longest_word) return give_up();
  for (size_t begin = 0; begin < word.size();) {
    std::optional<int32_t> id;
    size_t end = std::min(word.size(), begin + longest_token_);
    for (; end > begin; --end) {
      if (end < word.size() && !begins_character(word[end])) continue;
      const std::string_view part = word.substr(begin, end - begin);
      id = begin == 0 ? vocabulary_.find(part) : vocabulary_.find(options_.prefix + std::string(part));
      if (id) break;
    }
    if (!id) return give_up();
    ids.push_back(*id);
    begin = end;
  }
}

std::string WordPiece::piece(const std::string& token, bool first) const {
  std::string text = token;
  if (!first) text = token.starts_with(options_.prefix) ? token.substr(options_.prefix.size()) : " " + token;
  return options_.clean_up ? without_blank(std::move(text)) : text;
}

void WordPiece::write(nlohmann::ordered_json& file) const {
  nlohmann::ordered_json vocabulary = nlohmann::ordered_json::object();
  auto& members = vocabulary.get_ref<nlohmann::ordered_json::object_t&>();
  for (int64_t id = 0; id < vocabulary_.size(); ++id)
    members.emplace_back(vocabulary_[id], static_cast<int32_t>(id));
  file["decoder"] = {{"type", "WordPiece"}, {"prefix", options_.prefix}, {"cleanup", options_.clean_up}};
  file["model"] = {{"type", "WordPiece"},
                   {"unk_token", options_.unknown},
                   {"continuing_subword_prefix", options_.prefix},
                   {"max_input_chars_per_word", options_.longest_word},
                   {"vocab", std::move(vocabulary)}};
}

Normalizer bert_normalizer(bool lowercase) {
  return Normalizer(
      {{.kind = Normalization::Kind::bert, .strip_accents = lowercase, .lowercase = lowercase}});
}

Splitter bert_splitter() {
  return Splitter(
      {{Pattern(R"(\s+)"), Remains::between}, {Pattern(R"([\p{P}!-/:-@\[-`{-~])"), Remains::all}});
}

PipelineTokenizer bert_tokenizer(const std::vector<std::string>& tokens, bool lowercase) {
  Pipeline stages;
  stages.normalizer = bert_normalizer(lowercase);
  stages.splitter = bert_splitter();
  stages.model = std::make_shared<WordPiece>(VocabularyTable(tokens));
  for (const char* special : kBertTokens)
    if (const auto id = stages.model->vocabulary().find(special))
      stages.added.push_back({.id = *id, .text = special});
  const auto begin = stages.model->vocabulary().find("[CLS]"), end = stages.model->vocabulary().find("[SEP]");
  if (begin && end) stages.front = {*begin}, stages.back = {*end};
  return PipelineTokenizer(std::move(stages));
}

}  // namespace vitrine::nn
