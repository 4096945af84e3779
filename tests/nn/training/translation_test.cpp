// The batches of the translation task.
#include "nn/training/tasks/translation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nn/models/encoder_decoder.h"
#include "nn/text/characters.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::training;

namespace {

const EncoderDecoderOptions kTinyTranslator{.source_vocabulary = 3,
                                            .vocabulary = 3,
                                            .width = 4,
                                            .encoder_layers = 1,
                                            .decoder_layers = 1,
                                            .heads = 1};

/// Sources of 1 to 40 characters, and targets of half as many.
std::vector<SentencePair> pairs_of_all_lengths() {
  std::vector<SentencePair> pairs;
  for (int i = 0; i < 200; ++i) {
    const auto length = static_cast<size_t>(1 + i * 7 % 40);
    pairs.push_back({std::string(length, 'a'), std::string(length / 2 + 1, 'b')});
  }
  return pairs;
}

}  // namespace

TEST_CASE("batches of a translation are bounded by tokens, have similar lengths, and lack the longest") {
  const CharacterVocabulary characters("\nab");
  EncoderDecoder model(kTinyTranslator);
  const std::vector<SentencePair> pairs = pairs_of_all_lengths();
  const auto largest_of = [&](const TranslationOptions& options) {
    const Task task = translation(model, characters, pairs, pairs, options);
    struct Largest {
      int64_t tokens = 0, source = 0, rows = 0, padding = 0;
    } largest;
    for (int64_t i = 0; i < 40; ++i) {
      const Batch batch = task.batch(i);
      const int64_t rows = batch.tensors[0].size(0), source = batch.tensors[0].size(1);
      largest.tokens = std::max(largest.tokens, rows * (source + batch.tensors[2].size(1)));
      largest.source = std::max(largest.source, source);
      largest.rows = std::max(largest.rows, rows);
      for (const double length : batch.tensors[1].values())
        largest.padding += source - static_cast<int64_t>(length);
    }
    return largest;
  };
  const auto random = largest_of({.batch = 16}), bounded = largest_of({.batch = 16, .tokens = 300}),
             short_ones = largest_of({.batch = 16, .remove_longest = 0.5});
  CHECK(random.source == 40);
  CHECK(random.tokens > 300);
  CHECK(bounded.source == 40);
  CHECK(bounded.tokens <= 300);
  CHECK(bounded.rows == 16);
  CHECK(10 * bounded.padding < random.padding);
  CHECK(short_ones.source == 20);
  CHECK(short_ones.rows == 16);
}

TEST_CASE("batches that a thread makes ahead are those of a task without it") {
  const CharacterVocabulary characters("\nab");
  EncoderDecoder model(kTinyTranslator);
  const std::vector<SentencePair> pairs = pairs_of_all_lengths();
  const Task ahead = translation(model, characters, pairs, pairs, {.batch = 8, .prefetch = 3}),
             alone = translation(model, characters, pairs, pairs, {.batch = 8, .prefetch = 0});
  for (int64_t i = 0; i < 30; ++i)
    for (size_t j = 0; j < 4; ++j)
      CHECK(ahead.batch(i).tensors[j].values() == alone.batch(i).tensors[j].values());
}
