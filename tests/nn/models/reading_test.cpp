// Models that read words: hierarchical attention, ESIM and BiDAF. Padding, options, gradients, and
// the vectors of whole sequences that they use.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "nn/check_gradients.h"
#include "nn/generation/spans.h"
#include "nn/layers/over_time.h"
#include "nn/layers/zero_padding.h"
#include "nn/models/bidaf.h"
#include "nn/models/esim.h"
#include "nn/models/hierarchical_attention.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/view.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

WordEncoderOptions tiny_words(const std::string& mixer) {
  return {.vocabulary = 7, .width = 4, .heads = 2, .context = 8, .mixer = mixer};
}

/// In float64 and evaluation mode, with weights that are large enough for differences to show.
template <class Model>
void enliven_words(Model& model) {
  model.to(DType::float64);
  uint64_t seed = 0;
  for (Parameter& p : model.parameters()) {
    Generator g(++seed);
    p.assign(randn(p.shape(), DType::float64, Device::cpu, 0, 0.6, g));
  }
  model.eval();
}

Tensor word_ids(const Shape& shape, uint64_t seed, int64_t below = 7) {
  Generator g(seed);
  return randint(0, below, shape, Device::cpu, g);
}

Tensor numbers(const std::vector<int64_t>& all, const Shape& shape) { return index_tensor(all, shape); }
Tensor row(const Tensor& x, int64_t b) { return slice(x, 0, b, b + 1); }
double apart(const Tensor& x, const Tensor& y) { return max(abs(x - y)).item(); }

}  // namespace

TEST_CASE("mean and maximum over time leave padding out, and rows without positions are 0") {
  const Tensor x = tensor({-3, -1, NAN, -2, -5, -4, NAN, NAN, NAN}, {3, 3, 1}, DType::float64);
  const Tensor lengths = numbers({2, 3, 0}, {3});
  CHECK(mean_over_time(x, lengths).values() == std::vector<double>{-2, -11.0 / 3, 0});
  // A length beyond the last position
  CHECK(mean_over_time(ones({1, 2, 1}), numbers({4}, {1})).item() == 1);
  CHECK(max_over_time(x, lengths).values() == std::vector<double>{-1, -2, 0});
  CHECK(max_over_time(slice(x, 0, 1, 2)).item() == -2);
  CHECK(visible_positions(lengths, 3).values() == std::vector<double>{1, 1, 0, 1, 1, 1, 0, 0, 0});
  CHECK_FALSE(visible_positions({}, 3).defined());
  CHECK_THROWS_WITH_AS(visible_positions(x, 3), doctest::Contains("wanted int64 [B]"), Error);
  const GradientReport report = check_gradients(
      [&](const std::vector<Tensor>& y) {
        return concat({mean_over_time(y[0], lengths), max_over_time(y[0], lengths)}, -1);
      },
      {tensor({3, 1, 2, 5, 4, 9, 8, 7, 6}, {3, 3, 1}, DType::float64)});
  CHECK_MESSAGE(report.passed, to_string(report));
}

TEST_CASE("the best span is that of the largest sum, in order and not too long") {
  const Tensor first = tensor({0, 3, 1, 2}, {1, 4}), last = tensor({4, 0, 1, 3}, {1, 4});
  CHECK(best_spans(first, last).values() == std::vector<double>{1, 3});  // not 1 to 0
  CHECK(best_spans(first, last, 2).values() == std::vector<double>{3, 3});
  CHECK(best_spans(first, last, INT64_MAX).values() == best_spans(first, last).values());
  const Tensor hidden = tensor({0, 3, -INFINITY, NAN}, {1, 4});
  CHECK(best_spans(hidden, hidden).values() == std::vector<double>{1, 1});
  CHECK(best_spans(full({2, 3}, -INFINITY), full({2, 3}, 0.0)).values() == std::vector<double>{0, 0, 0, 0});
  CHECK(best_spans(full({1, 3}, 1.0), full({1, 3}, 1.0)).values() == std::vector<double>{0, 0});
  CHECK_THROWS_WITH_AS(best_spans(first, row(hidden, 1)), doctest::Contains("wanted [B, T] twice"), Error);
  CHECK_THROWS_WITH_AS(best_spans(first, last, -1), doctest::Contains("wanted at least 0"), Error);
}

TEST_CASE("hierarchical attention: a document in a batch is the document alone, for any mixer") {
  const Tensor x = word_ids({2, 3, 4}, 1), words = numbers({4, 2, 0, 3, 1, 4}, {2, 3}),
               sentences = numbers({2, 3}, {2});
  for (const char* name : {"gru", "lstm", "rotary+laser"}) {
    INFO(std::string(name));
    HierarchicalAttention model({.words = tiny_words(name), .classes = 3});
    enliven_words(model);
    const auto whole = model.forward(x, words, sentences);
    CHECK(whole.logits.shape() == Shape{2, 3});
    // The first document has two sentences, of four and of two words.
    const auto alone = model.forward(slice(row(x, 0), 1, 0, 2), slice(row(words, 0), 1, 0, 2));
    CHECK(apart(row(whole.logits, 0), alone.logits) <= 1e-12);
    CHECK(apart(slice(row(whole.word_weights, 0), 1, 0, 2), alone.word_weights) <= 1e-12);
    CHECK(apart(sum(whole.sentence_weights, {1}), full({2}, 1.0, DType::float64)) <= 1e-12);
    CHECK(sum(abs(slice(select(select(whole.word_weights, 0, 0), 0, 1), 0, 2, 4))).item() == 0);
    CHECK(select(select(whole.sentence_weights, 0, 0), 0, 2).item() == 0);
    const Tensor other =
        where(visible_positions(reshape(words, {6}), 4), reshape(x, {6, 4}), word_ids({6, 4}, 2));
    CHECK(apart(model.forward(reshape(other, {2, 3, 4}), words, sentences).logits, whole.logits) == 0);
    // Every word has an effect, and only on its own document.
    for (int64_t t = 0; t < 4; ++t) {
      auto changed = x.values();
      changed[static_cast<size_t>(t)] = changed[static_cast<size_t>(t)] == 0 ? 1 : 0;
      const Tensor now =
          model.forward(cast(tensor(changed, {2, 3, 4}), DType::int64), words, sentences).logits;
      CHECK(apart(row(now, 0), row(whole.logits, 0)) > 1e-9);
      CHECK(apart(row(now, 1), row(whole.logits, 1)) <= 1e-14);
    }
    CHECK(apart(model.clone().forward(x, words, sentences).logits, whole.logits) == 0);
  }
}

TEST_CASE("aggregation is one level; LASER, dropout and classes have an effect; gradients of both levels") {
  const Tensor x = word_ids({2, 3, 4}, 1), words = numbers({4, 2, 0, 3, 1, 4}, {2, 3}),
               sentences = numbers({2, 3}, {2}), wanted = word_ids({2}, 5, 3);
  std::vector<Tensor> results;
  for (const bool laser : {false, true})
    for (const int64_t levels : {1, 2}) {
      HierarchicalAttention model(
          {.words = tiny_words("gru"), .classes = 3, .levels = levels, .laser = laser});
      enliven_words(model);
      CHECK((model.sentence_mixer == nullptr) == (levels == 1));
      const auto loss = [&](const std::vector<Tensor>&) {
        return levels == 2
                   ? cross_entropy(model.forward(x, words, sentences).logits, wanted)
                   : cross_entropy(model.forward(slice(x, 1, 0, 1), slice(words, 1, 0, 1)).logits, wanted);
      };
      const GradientReport report = check_gradients(model, loss, {});
      CHECK_MESSAGE(report.passed, to_string(report));
      for (const Tensor& other : results) CHECK(apart(loss({}), other) > 1e-6);
      results.push_back(loss({}));
      if (levels == 1)
        CHECK_THROWS_WITH_AS(model.forward(x, words),
                             doctest::Contains("one sentence, as there is one level"), Error);
    }
  WordEncoderOptions dropped = tiny_words("gru");
  dropped.dropout = 0.5;
  HierarchicalAttention model({.words = dropped});
  enliven_words(model);
  const Tensor quiet = model.forward(x).logits;
  CHECK(quiet.shape() == Shape{2, 2});
  CHECK(apart(model.forward(x).logits, quiet) == 0);
  model.train();
  CHECK(apart(model.forward(x).logits, quiet) > 1e-3);

  CHECK_THROWS_WITH_AS(model.forward(word_ids({2, 3}, 1)),
                       doctest::Contains("wanted [B, S, W] with a sentence"), Error);
  CHECK_THROWS_WITH_AS(model.forward(x, sentences), doctest::Contains("wanted int64 [2, 3]"), Error);
  CHECK_THROWS_WITH_AS(model.forward(x, words, words),
                       doctest::Contains("numbers of sentences are int64[2, 3] on cpu, wanted int64 [2]"),
                       Error);
  CHECK_THROWS_WITH_AS(HierarchicalAttention({.levels = 3}), doctest::Contains("levels is 3"), Error);
  CHECK_THROWS_WITH_AS(HierarchicalAttention({.classes = 0}), doctest::Contains("classes is 0"), Error);
  CHECK_THROWS_WITH_AS(WordEncoder({.vocabulary = 0}), doctest::Contains("vocabulary is 0"), Error);
  CHECK_THROWS_WITH_AS(WordEncoder({.width = 5}), doctest::Contains("the width 5 is odd"), Error);
  CHECK_THROWS_WITH_AS(WordEncoder({.dropout = 1}), doctest::Contains("dropout is 1"), Error);
  CHECK_THROWS_WITH_AS(WordEncoder(tiny_words("gru")).forward(word_ids({2}, 1)),
                       doctest::Contains("wanted [B, T]"), Error);
}

TEST_CASE("word vectors start with the deviation of the options: 1 where a model compares words") {
  const auto deviation = [](const WordEncoder& encoder) {
    return std::sqrt(var(encoder.words.weight.master()).item());
  };
  manual_seed(1);
  CHECK(deviation(Esim(EsimOptions{}).words) == doctest::Approx(1).epsilon(0.02));
  CHECK(deviation(BiDaf(BiDafOptions{}).words) == doctest::Approx(1).epsilon(0.02));
  CHECK(deviation(HierarchicalAttention(HierarchicalAttentionOptions{}).words) ==
        doctest::Approx(0.125).epsilon(0.02));
  CHECK(deviation(WordEncoder(WordEncoderOptions{.word_deviation = 0.5})) ==
        doctest::Approx(0.5).epsilon(0.02));
}

TEST_CASE("ESIM: a pair in a batch is the pair alone; both sentences count, in order; gradients") {
  const Tensor a = word_ids({2, 4}, 1), b = word_ids({2, 3}, 2);
  const Tensor a_lengths = numbers({2, 4}, {2}), b_lengths = numbers({3, 1}, {2}),
               wanted = word_ids({2}, 5, 3);
  for (const char* name : {"lstm", "gru", "rotary"}) {
    INFO(std::string(name));
    Esim model({.words = tiny_words(name)});
    enliven_words(model);
    const auto both = model.forward(a, b, a_lengths, b_lengths);
    CHECK(both.logits.shape() == Shape{2, 3});
    CHECK(both.a_weights.shape() == Shape{2, 4, 3});
    CHECK(both.b_weights.shape() == Shape{2, 3, 4});
    const auto first = model.forward(slice(row(a, 0), 1, 0, 2), row(b, 0));
    CHECK(apart(row(both.logits, 0), first.logits) <= 1e-12);
    CHECK(apart(slice(row(both.b_weights, 0), 2, 0, 2), first.b_weights) <= 1e-12);
    CHECK(apart(row(both.logits, 1), model.forward(row(a, 1), slice(row(b, 1), 1, 0, 1)).logits) <= 1e-12);
    CHECK(sum(abs(slice(row(both.a_weights, 1), 2, 1, 3))).item() == 0);
    CHECK(apart(model.forward(b, a, b_lengths, a_lengths).logits, both.logits) > 1e-6);
    for (const Tensor& read : {both.a_weights, both.b_weights})
      CHECK(apart(sum(read, {2}), full({2, read.size(1)}, 1.0, DType::float64)) <= 1e-12);
    CHECK(apart(model.clone().forward(a, b, a_lengths, b_lengths).logits, both.logits) == 0);
  }
  Esim model({.words = tiny_words("lstm")});
  enliven_words(model);
  const GradientReport report =
      check_gradients(model,
                      [&](const std::vector<Tensor>&) {
                        return cross_entropy(model.forward(a, b, a_lengths, b_lengths).logits, wanted);
                      },
                      {});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK_THROWS_WITH_AS(model.forward(a, row(b, 0)), doctest::Contains("wanted [B, T, C] and [B, S, C]"),
                       Error);
  CHECK_THROWS_WITH_AS(Esim({.classes = 0}), doctest::Contains("classes is 0"), Error);
}

TEST_CASE("BiDAF: a question in a batch is the question alone; story and question count; gradients") {
  const Tensor story = word_ids({2, 5}, 1), question = word_ids({2, 3}, 2);
  const Tensor lengths = numbers({3, 5}, {2}), asked = numbers({3, 2}, {2});
  for (const char* name : {"lstm", "rotary"}) {
    INFO(std::string(name));
    BiDaf model({.words = tiny_words(name), .layers = 2});
    enliven_words(model);
    CHECK(model.modelling.size() == 2);
    const auto both = model.forward(story, question, lengths, asked);
    const auto first = model.forward(slice(row(story, 0), 1, 0, 3), row(question, 0));
    const auto second = model.forward(row(story, 1), slice(row(question, 1), 1, 0, 2));
    for (const auto member : {&BiDaf::Result::first, &BiDaf::Result::last, &BiDaf::Result::context_weights}) {
      CHECK(apart(slice(row(both.*member, 0), 1, 0, 3), first.*member) <= 1e-12);
      CHECK(apart(row(both.*member, 1), second.*member) <= 1e-12);
    }
    for (const int64_t t : {3, 4}) CHECK(select(select(both.first, 0, 0), 0, t).item() == -INFINITY);
    CHECK(apart(slice(row(both.query_weights, 1), 2, 0, 2), second.query_weights) <= 1e-12);
    CHECK(apart(both.first, both.last) != 0);
    const auto other = model.forward(story, word_ids({2, 3}, 3), lengths, asked);
    CHECK(apart(row(other.first, 1), row(both.first, 1)) > 1e-6);
    CHECK(apart(row(other.last, 1), row(both.last, 1)) > 1e-6);
    CHECK(apart(row(model.clone().forward(story, question, lengths, asked).last, 1), row(both.last, 1)) == 0);
  }
  BiDaf model({.words = tiny_words("lstm"), .layers = 1});
  enliven_words(model);
  const Tensor begin = numbers({0, 3}, {2}), end = numbers({2, 4}, {2});
  const GradientReport report =
      check_gradients(model,
                      [&](const std::vector<Tensor>&) {
                        const auto found = model.forward(story, question, lengths, asked);
                        return cross_entropy(found.first, begin) + cross_entropy(found.last, end);
                      },
                      {});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK_THROWS_WITH_AS(BiDaf({.layers = 0}), doctest::Contains("layers is 0"), Error);
}
