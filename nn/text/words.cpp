#include "nn/text/words.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "nn/text/train_bpe.h"
#include "nn/text/utf8.h"

namespace vitrine::nn {
namespace {

std::string token_of_byte(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

/// The byte of a token <0x0A>, or −1.
int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int byte = 0;
  for (const char digit : token.substr(3, 2)) {
    const size_t value = std::string_view("0123456789ABCDEF").find(digit);
    if (value == std::string_view::npos) return -1;
    byte = 16 * byte + static_cast<int>(value);
  }
  return byte;
}

}  // namespace

Words::Words(VocabularyTable vocabulary, WordsOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {
  for (const std::string& token : vocabulary_.tokens())
    check(utf8_valid_length(token, 0) == token.size(), "Words: the token \"{}\" is not valid UTF-8", token);
  check(!options_.byte_fallback || !options_.blanks,
        "Words: blanks between the bytes of a word would not give the word back");
  for (int byte = 0; byte < 256 && options_.byte_fallback; ++byte) {
    const std::string token = token_of_byte(static_cast<unsigned char>(byte));
    const auto id = vocabulary_.find(token);
    check(id.has_value(), "Words: the vocabulary has no token {} for a byte", token);
    ids_of_bytes_.push_back(*id);
  }
}

void Words::append_ids(std::string_view word, std::vector<int32_t>& ids) const {
  // A word that looks like the token of a byte is not that byte.
  const bool looks_like_byte = options_.byte_fallback && byte_of_token(word) >= 0;
  if (const auto id = vocabulary_.find(word); id && !looks_like_byte) return ids.push_back(*id);
  if (options_.byte_fallback) {
    for (const char byte : word) ids.push_back(ids_of_bytes_[static_cast<unsigned char>(byte)]);
    return;
  }
  const auto unknown = vocabulary_.find(options_.unknown);
  check(unknown.has_value(), "encode: the word \"{}\" is not in the vocabulary, and neither is {}", word,
        options_.unknown);
  ids.push_back(*unknown);
}

std::string Words::piece(const std::string& token, bool first) const {
  const int byte = options_.byte_fallback ? byte_of_token(token) : -1;
  const std::string text = byte >= 0 ? std::string(1, static_cast<char>(byte)) : token;
  return options_.blanks && !first ? " " + text : text;
}

void Words::write(nlohmann::ordered_json& file) const {
  nlohmann::ordered_json vocabulary = nlohmann::ordered_json::object();
  auto& members = vocabulary.get_ref<nlohmann::ordered_json::object_t&>();
  for (int64_t id = 0; id < vocabulary_.size(); ++id)
    members.emplace_back(vocabulary_[id], static_cast<int32_t>(id));
  auto steps = nlohmann::ordered_json::array();
  if (options_.byte_fallback) steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  file["decoder"] = nullptr;  // a blank between words
  if (!options_.blanks) file["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(steps)}};
  file["model"] = {{"type", "WordLevel"}, {"vocab", std::move(vocabulary)}, {"unk_token", options_.unknown}};
}

PipelineTokenizer train_words(std::string_view text, int64_t vocabulary, const std::string& pattern) {
  check(vocabulary >= 256, "train_words: vocabulary is {}, wanted at least the 256 bytes", vocabulary);
  const Splitter splitter({{Pattern(pattern), Remains::all}});
  auto words = count_words(text, splitter);  // sorted, which the stable sort keeps for equal counts
  std::stable_sort(words.begin(), words.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  VocabularyTable table;
  for (int byte = 0; byte < 256; ++byte) table.add(token_of_byte(static_cast<unsigned char>(byte)));
  for (const auto& word : words) {
    if (table.size() == vocabulary) break;
    if (utf8_valid_length(word.first, 0) == word.first.size()) table.add(word.first);
  }
  const WordsOptions options{.byte_fallback = true, .blanks = false};
  return PipelineTokenizer(
      {.splitter = splitter, .model = std::make_shared<Words>(std::move(table), options)});
}

PipelineTokenizer whole_words(const std::vector<std::string>& texts, int64_t least) {
  check(least >= 1, "whole_words: least is {}, wanted at least 1", least);
  const Splitter splitter({{Pattern("\\S+"), Remains::matches}});
  std::string all;
  for (const std::string& text : texts) all += text + '\n';
  const WordsOptions options;
  VocabularyTable table({options.unknown});
  for (const auto& [word, count] : count_words(all, splitter))
    if (count >= least) table.add(word);
  return PipelineTokenizer(
      {.splitter = splitter, .model = std::make_shared<Words>(std::move(table), options)});
}

}  // namespace vitrine::nn
