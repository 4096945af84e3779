#include "nn/text/train_word_piece.h"

#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "nn/text/characters.h"
#include "nn/text/train_bpe.h"
#include "nn/text/word_piece.h"

namespace vitrine::nn {

PipelineTokenizer train_word_piece(std::string_view text, const WordPieceTraining& options) {
  check(options.least_count >= 1, "train_word_piece: least_count is {}, wanted at least 1",
        options.least_count);
  const std::string prefix = WordPieceOptions().prefix;
  const auto words = count_words(bert_normalizer(options.lowercase)(text), bert_splitter());
  check(!words.empty(), "train_word_piece: the text has no words");
  std::set<std::string> all, continuing;
  for (const auto& word : words) {
    const std::vector<std::string> characters = split_characters(word.first);
    all.insert(characters.begin(), characters.end());
    for (size_t i = 1; i < characters.size(); ++i) continuing.insert(prefix + characters[i]);
  }
  VocabularyTable vocabulary({kBertTokens.begin(), kBertTokens.end()});
  for (const auto* some : {&all, &continuing})
    for (const std::string& character : *some) vocabulary.add(character);
  check(vocabulary.size() <= options.vocabulary && options.vocabulary <= INT32_MAX,
        "train_word_piece: vocabulary is {}, wanted at least {}, for {} special tokens and the characters, "
        "and less than 2^31",
        options.vocabulary, vocabulary.size(), kBertTokens.size());
  std::vector<SpelledWord> spelled;
  for (const auto& [word, count] : words) {
    spelled.push_back({{}, count});
    for (const std::string& character : split_characters(word))
      spelled.back().tokens.push_back(
          *vocabulary.find(spelled.back().tokens.empty() ? character : prefix + character));
  }
  learn_merges(std::move(spelled), vocabulary, options.vocabulary, options.least_count, prefix);
  return bert_tokenizer(vocabulary.tokens(), options.lowercase);
}

}  // namespace vitrine::nn
