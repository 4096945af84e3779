// The Conformer: padding, lengths, order, gradients, and that it learns with CTC.
#include "nn/models/conformer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "nn/check_gradients.h"
#include "nn/layers/zero_padding.h"
#include "ops/activation.h"
#include "ops/ctc.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/reduce.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

Conformer lively(const ConformerOptions& options) {
  Conformer model(options);
  model.to(DType::float64);
  uint64_t seed = 0;
  for (Parameter& p : model.parameters()) {
    ++seed;
    if (p.shape().rank() > 1) p.assign(test::normal(p.shape(), seed) * 0.4);
  }
  model.eval();
  return model;
}

const ConformerOptions kTinyConformer = {.features = 3,
                                         .classes = 4,
                                         .layers = 2,
                                         .kernel = 3,
                                         .hidden = 5,
                                         .mixer = {.width = 4, .heads = 1, .name = "rotary"}};

}  // namespace

TEST_CASE("padding, NaN too, changes no logits of a row's own frames, and four frames become one") {
  for (const char* name : {"rotary", "standard", "laser", "gru"}) {
    INFO(std::string(name));
    ConformerOptions options = kTinyConformer;
    options.mixer.name = name;
    Conformer model = lively(options);
    const std::vector<int64_t> lengths = {5, 13, 8};
    Tensor frames = test::normal({3, 13, 3}, 1);
    const auto whole = model.forward(frames, index_tensor(lengths, {3}));
    CHECK(whole.logits.shape() == Shape{3, 4, 4});
    CHECK(whole.lengths.values() == std::vector<double>{2, 4, 2});
    for (int64_t b = 0; b < 3; ++b) {
      const int64_t own = lengths[static_cast<size_t>(b)];
      const Tensor row = slice(frames, 0, b, b + 1);
      const auto alone = model.forward(slice(row, 1, 0, own));
      CHECK(alone.lengths.item() == std::ceil(static_cast<double>(own) / 4));
      CHECK(test::largest_difference(slice(slice(whole.logits, 0, b, b + 1), 1, 0, alone.logits.size(1)),
                                     alone.logits) <= 1e-12);
      const Tensor nothing = full({1, 13 - own, 3}, std::nan(""), DType::float64);
      const Tensor broken = own < 13 ? concat({slice(row, 1, 0, own), nothing}, 1) : row;
      const auto padded = model.forward(broken, index_tensor(std::vector<int64_t>{own}, {1}));
      CHECK(test::largest_difference(slice(padded.logits, 1, 0, alone.logits.size(1)), alone.logits) <=
            1e-12);
    }
  }
}

TEST_CASE("the first frame reaches the last logits, and each part of a block has an effect") {
  Conformer model = lively(kTinyConformer);
  const Tensor frames = test::normal({1, 40, 3}, 2);
  const Tensor logits = model.forward(frames).logits;
  Tensor other = contiguous(frames * 1.0);
  other.data<double>()[0] += 1;
  CHECK(test::largest_difference(slice(model.forward(other).logits, 1, 9, 10), slice(logits, 1, 9, 10)) >
        1e-9);
  for (const char* part :
       {"first.down.weight", "attention.out.weight", "convolution.out.weight", "second.down.weight"}) {
    Conformer without = model.clone();
    without.eval();
    for (Parameter& p : without.parameters())
      if (p.name() == std::string("blocks.0.") + part) p.assign(zeros(p.shape(), DType::float64));
    INFO(std::string(part));
    CHECK(test::largest_difference(without.forward(frames).logits, logits) > 1e-3);
  }
}

TEST_CASE("a block is its formula, and a clone gives the same") {
  Conformer model = lively(kTinyConformer);
  const ConformerBlock& block = *model.blocks[0];
  const Tensor x = test::normal({2, 6, 4}, 3);
  const Tensor half = x + block.first.forward(block.first_norm.forward(x)) * 0.5;
  const Tensor mixed = half + block.mixer->forward(block.mixer_norm.forward(half));
  const Tensor convolved = mixed + block.convolution.forward(mixed);
  const Tensor y =
      block.final_norm.forward(convolved + block.second.forward(block.second_norm.forward(convolved)) * 0.5);
  CHECK(test::largest_difference(block.forward(x), y) <= 1e-14);
  const Tensor up = block.first.up.forward(block.first_norm.forward(x));
  CHECK(test::largest_difference(block.first.forward(block.first_norm.forward(x)),
                                 block.first.down.forward(silu(up))) <= 1e-13);
  Conformer twin = model.clone();
  twin.eval();
  const Tensor frames = test::normal({1, 9, 3}, 4);
  CHECK(twin.forward(frames).logits.values() == model.forward(frames).logits.values());
}

TEST_CASE("the gradients of a Conformer with CTC agree with differences") {
  ConformerOptions small = kTinyConformer;
  small.layers = 1;
  Conformer model = lively(small);
  const Tensor frames = test::normal({2, 12, 3}, 5), lengths = index_tensor(std::vector<int64_t>{12, 9}, {2});
  const Tensor labels = index_tensor(std::vector<int64_t>{1, 3, 2, 0}, {2, 2});
  const Tensor counts = index_tensor(std::vector<int64_t>{2, 1}, {2});
  const GradientReport report = check_gradients(
      model,
      [&](const std::vector<Tensor>& x) {
        const auto heard = model.forward(x[0], lengths);
        return ctc_loss(heard.logits, labels, {.input_lengths = heard.lengths, .target_lengths = counts});
      },
      {frames});
  CHECK_MESSAGE(report.passed, to_string(report));
}

TEST_CASE("zero_padding clears what follows each length, and its gradient") {
  Tensor x = test::normal({2, 3, 2}, 6);
  Tape tape;
  x = tape.watch(x);
  const Tensor y = zero_padding(x, index_tensor(std::vector<int64_t>{1, 3}, {2}));
  const std::vector<double> clear = y.values(), all = x.values();
  for (size_t i = 0; i < all.size(); ++i) CHECK(clear[i] == (i >= 2 && i < 6 ? 0 : all[i]));
  const std::vector<double> slope = tape.gradient(sum(y), {x})[0].values();
  for (size_t i = 0; i < all.size(); ++i) CHECK(slope[i] == (i >= 2 && i < 6 ? 0 : 1));
  CHECK_THROWS_WITH_AS(zero_padding(x, full({3}, 1, DType::int64)),
                       doctest::Contains("wanted [B, T, ...] and int64 [B]"), Error);
  CHECK_THROWS_WITH_AS(zero_padding(x, ones({2})), doctest::Contains("the lengths are float32[2] on cpu"),
                       Error);
  CHECK(zero_padding(x, {}).is_same(x));
}

TEST_CASE("what a Conformer cannot do is refused with a reason") {
  ConformerOptions bad = kTinyConformer;
  bad.kernel = 4;
  CHECK_THROWS_WITH_AS(Conformer{bad}, doctest::Contains("wanted an odd number"), Error);
  bad = kTinyConformer, bad.layers = 0;
  CHECK_THROWS_WITH_AS(Conformer{bad}, doctest::Contains("0 layers"), Error);
  CHECK_THROWS_WITH_AS(lively(kTinyConformer).forward(test::normal({1, 5, 2}, 7)),
                       doctest::Contains("wanted [B, T, 3]"), Error);
}
