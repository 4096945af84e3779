// Encoders of texts, sets and images: padding, order, segments, patches, options, gradients.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nn/check_gradients.h"
#include "nn/models/set_encoder.h"
#include "nn/models/text_encoder.h"
#include "nn/models/vision_transformer.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

TextEncoderOptions tiny(const std::string& mixer = "standard") {
  return {.vocabulary = 7,
          .segments = 2,
          .stack = {.block = {.mixer = {.width = 8, .heads = 2, .context = 6, .name = mixer}, .hidden = 6},
                    .layers = 2}};
}

/// In float64 and evaluation mode, with weights that are large enough for differences to show.
template <class Model>
void enliven(Model& model) {
  model.to(DType::float64);
  uint64_t seed = 0;
  for (Parameter& p : model.parameters()) {
    if (p.shape().rank() == 1) continue;
    Generator g(++seed);
    p.assign(randn(p.shape(), DType::float64, Device::cpu, 0, 0.5, g));
  }
  model.eval();
}

Tensor random_ids(const Shape& shape, int64_t below, uint64_t seed) {
  Generator g(seed);
  return randint(0, below, shape, Device::cpu, g);
}

Tensor random_items(const Shape& shape, uint64_t seed) {
  Generator g(seed);
  return randn(shape, DType::float64, Device::cpu, 0, 1, g);
}

}  // namespace

TEST_CASE("a text encoder sees the whole text, and its padding changes nothing") {
  for (const char* name : {"standard", "rotary", "laser+t5", "linear", "gru"}) {
    INFO(std::string(name));
    TextEncoder model(tiny(name));
    enliven(model);
    const Tensor ids = random_ids({3, 6}, 7, 1);
    const Tensor whole = model.features(ids);
    CHECK(whole.shape() == Shape{3, 6, 8});
    for (const int64_t changed : {0, 5}) {
      std::vector<double> other = ids.values();
      other[static_cast<size_t>(changed)] = other[static_cast<size_t>(changed)] == 0 ? 1 : 0;
      const Tensor now = model.features(cast(tensor(other, {3, 6}), DType::int64));
      for (const int64_t t : {0, 3, 5})
        CHECK(test::largest_difference(slice(slice(now, 0, 0, 1), 1, t, t + 1),
                                       slice(slice(whole, 0, 0, 1), 1, t, t + 1)) > 1e-6);
      // The other rows
      CHECK(test::largest_difference(slice(now, 0, 1, 3), slice(whole, 0, 1, 3)) <= 1e-14);
    }
    const std::vector<int64_t> lengths = {2, 6, 4};
    const Tensor padded = model.features(ids, {.lengths = index_tensor(lengths, {3})});
    for (int64_t b = 0; b < 3; ++b) {
      const int64_t own = lengths[static_cast<size_t>(b)];
      const Tensor alone = model.features(slice(slice(ids, 0, b, b + 1), 1, 0, own));
      CHECK(test::largest_difference(slice(slice(padded, 0, b, b + 1), 1, 0, own), alone) <= 1e-12);
    }
  }
}

TEST_CASE("segments, kinds of positions and the tied output layer of a text encoder have an effect") {
  const Tensor ids = random_ids({2, 5}, 7, 2), kinds = random_ids({2, 5}, 2, 3);
  std::vector<Tensor> results;
  for (const Positions positions : {Positions::learned, Positions::sinusoidal, Positions::none}) {
    TextEncoderOptions options = tiny();
    options.positions = positions;
    TextEncoder model(options);
    enliven(model);
    const Tensor x = model.features(ids);
    CHECK(test::largest_difference(model.features(ids, {}, kinds), x) > 1e-3);
    CHECK(test::largest_difference(model.features(ids, {}, zeros_like(ids)), x) == 0);
    // Without positions, the encoder is equivariant: the reversed text has the reversed features.
    const double moved = test::largest_difference(flip(model.features(flip(ids, {1})), {1}), x);
    CHECK((positions == Positions::none ? moved <= 1e-12 : moved > 1e-3));
    CHECK(model.logits(x).shape() == Shape{2, 5, 7});
    const Tensor product = sum(unsqueeze(x, 2) * model.tokens.weight.value(), {-1});
    CHECK(test::largest_difference(model.logits(x), product) <= 1e-12);
    CHECK(model.clone().features(ids).values() == x.values());
    results.push_back(x);
  }
  TextEncoderOptions rotary = tiny("rotary");
  CHECK_FALSE(TextEncoder(rotary).positions.defined());
}

TEST_CASE("the heads of a text encoder: a norm of embeddings, a transform, a pooler, classes") {
  TextEncoderOptions options = tiny();
  options.embedding_norm = options.output_transform = options.pooler = true;
  options.classes = 3;
  options.stack.block.activation = Activation::relu;
  TextEncoder model(options);
  enliven(model);
  const Tensor ids = random_ids({2, 4}, 7, 1), x = model.features(ids);
  const Tensor h = model.transform_norm->forward(relu(model.transform->forward(x)));
  const Tensor expected =
      sum(unsqueeze(h, 2) * model.tokens.weight.value(), {-1}) + model.output_bias.value();
  CHECK(test::largest_difference(model.logits(x), expected) <= 1e-12);
  const Tensor pooled = tanh(model.pooler->forward(select(x, 1, 0)));
  CHECK(test::largest_difference(model.pooled(x), pooled) <= 1e-14);
  CHECK(test::largest_difference(model.classify(x), model.classes->forward(pooled)) <= 1e-14);
  CHECK(model.classify(x).shape() == Shape{2, 3});
  CHECK(model.clone().classify(x).values() == model.classify(x).values());
  TextEncoderOptions mean_options = options;
  mean_options.mean_pooling = true;
  TextEncoder mean_model(mean_options);
  enliven(mean_model);
  mean_model.load_state_dict(model.state_dict());
  const Tensor lengths = index_tensor(std::vector<int64_t>{4, 2}, {2});
  const Tensor means = stack({mean(select(x, 0, 0), {0}), mean(slice(select(x, 0, 1), 0, 0, 2), {0})}, 0);
  CHECK(test::largest_difference(mean_model.pooled(x, lengths), tanh(model.pooler->forward(means))) <= 1e-14);
  CHECK(test::largest_difference(mean_model.classify(x, lengths),
                                 model.classes->forward(mean_model.pooled(x, lengths))) <= 1e-14);
  CHECK(test::largest_difference(mean_model.pooled(x), tanh(model.pooler->forward(mean(x, {1})))) <= 1e-14);
  const Tensor wanted = random_ids({2}, 3, 2);
  const GradientReport report = check_gradients(model,
                                                [&](const std::vector<Tensor>&) {
                                                  const Tensor features = model.features(ids);
                                                  return cross_entropy(model.classify(features), wanted) +
                                                         sum(square(model.logits(features))) * 0.1;
                                                },
                                                {});
  CHECK_MESSAGE(report.passed, to_string(report));

  TextEncoder plain(tiny());
  CHECK_THROWS_WITH_AS(plain.pooled(x), doctest::Contains("there is no pooler"), Error);
  CHECK_THROWS_WITH_AS(plain.classify(x), doctest::Contains("there are no classes"), Error);
  options.mean_pooling = true, options.pooler = false, options.classes = 0;
  CHECK_THROWS_WITH_AS(TextEncoder{options}, doctest::Contains("mean pooling without a pooler"), Error);
  options.mean_pooling = false, options.classes = 3;
  CHECK_THROWS_WITH_AS(TextEncoder{options}, doctest::Contains("at least 1 with a pooler"), Error);
  options = tiny(), options.output_transform = true;
  options.stack.block.activation = Activation::swiglu;
  CHECK_THROWS_WITH_AS(TextEncoder{options}, doctest::Contains("wanted one without a gate"), Error);
}

TEST_CASE("a prompt comes before the text: all tokens see it, and padding still changes nothing") {
  for (const char* name : {"standard", "rotary"}) {
    INFO(std::string(name));
    TextEncoderOptions options = tiny(name);
    options.prompt = 2;
    TextEncoder model(options);
    enliven(model);
    const Tensor ids = random_ids({2, 6}, 7, 1), x = model.features(ids);  // the context is 6
    CHECK(x.shape() == Shape{2, 6, 8});
    TextEncoder without(tiny(name));
    auto state = model.state_dict();
    CHECK(state.at("prompt.tokens").shape() == Shape{2, 8});
    state.erase("prompt.tokens");
    without.to(DType::float64);
    without.load_state_dict(state);
    without.eval();
    for (const int64_t t : {0, 5})
      CHECK(test::largest_difference(slice(x, 1, t, t + 1), slice(without.features(ids), 1, t, t + 1)) >
            1e-3);
    if (name == std::string("standard")) {
      const Tensor text = without.tokens.forward(ids) + without.positions.value() +
                          without.segments->forward(zeros_like(ids));
      const Tensor joined = concat({expand(model.prompt->tokens.value(), {2, 2, 8}), text}, 1);
      CHECK(test::largest_difference(x, slice(without.encoder.forward(joined), 1, 2)) <= 1e-14);
    }
    const Tensor lengths = index_tensor(std::vector<int64_t>{3, 6}, {2});
    const Tensor padded = model.features(ids, {.lengths = lengths});
    const Tensor alone = model.features(slice(slice(ids, 0, 0, 1), 1, 0, 3));
    CHECK(test::largest_difference(slice(slice(padded, 0, 0, 1), 1, 0, 3), alone) <= 1e-12);
    const AttentionMask hidden{.allowed =
                                   less(random_ids({6, 6}, 3, 4), tensor(std::vector<int64_t>{1}, {1}))};
    CHECK(test::largest_difference(model.features(ids, {.mask = hidden}), x) > 1e-3);
    CHECK(model.clone().features(ids).values() == x.values());
    const GradientReport report = check_gradients(
        model, [&](const std::vector<Tensor>&) { return sum(square(model.features(ids))); }, {});
    CHECK_MESSAGE(report.passed, to_string(report));
    CHECK_THROWS_WITH_AS(model.features(ids, {.padding = lengths}),
                         doctest::Contains("a prompt and padding before the text"), Error);
  }
  TextEncoderOptions options = tiny();
  options.prompt = 2, options.stack.block.mixer.name = "linformer";
  CHECK(TextEncoder(options).features(random_ids({1, 4}, 7, 1)).size(1) == 4);
  CHECK_THROWS_WITH_AS(TextEncoder(options).features(random_ids({1, 6}, 7, 1)),
                       doctest::Contains("wanted [B, Hkv, T, D] with T at most the context, 6"), Error);
  // The weights are those of a model without a prompt.
  for (const char* name : {"learned_mask", "linformer", "optimal"}) {
    options.stack.block.mixer.name = name;
    TextEncoder with(options);
    options.prompt = 0;
    auto state = TextEncoder(options).state_dict();
    options.prompt = 2;
    state["prompt.tokens"] = with.prompt->tokens.value();
    CHECK_NOTHROW(with.load_state_dict(state));
  }
  options = tiny();
  options.prompt = -1;
  CHECK_THROWS_WITH_AS(TextEncoder{options}, doctest::Contains("the prompt has -1 vectors"), Error);
}

TEST_CASE("padding before a text moves its positions, and a causal mask hides what follows") {
  for (const Positions positions : {Positions::learned, Positions::sinusoidal}) {
    TextEncoderOptions options = tiny();
    options.positions = positions;
    TextEncoder model(options);
    model.to(DType::float64);
    model.eval();
    const Tensor ids = random_ids({1, 3}, 7, 1);
    const Tensor later = concat({zeros({1, 2}, DType::int64), ids}, 1);
    const Tensor padded = model.features(later, {.padding = tensor(std::vector<int64_t>{2}, {1})});
    CHECK(test::largest_difference(slice(padded, 1, 2, 5), model.features(ids)) <= 1e-12);
    const StackCall causal{.mask = {.causal = true}};
    CHECK(test::largest_difference(slice(model.features(ids, causal), 1, 0, 2),
                                   model.features(slice(ids, 1, 0, 2), causal)) <= 1e-12);
  }
}

TEST_CASE("the gradients of encoders agree with differences") {
  TextEncoderOptions small = tiny();
  small.stack.layers = 1;
  TextEncoder model(small);
  enliven(model);
  const Tensor ids = random_ids({2, 4}, 7, 4), kinds = random_ids({2, 4}, 2, 5),
               wanted = random_ids({2, 4}, 7, 6);
  const Tensor lengths = index_tensor(std::vector<int64_t>{4, 2}, {2});
  const GradientReport of_text = check_gradients(
      model,
      [&](const std::vector<Tensor>&) {
        return cross_entropy(model.logits(model.features(ids, {.lengths = lengths}, kinds)), wanted);
      },
      {});
  CHECK_MESSAGE(of_text.passed, to_string(of_text));

  SetEncoder sets(3, {.block = {.mixer = {.width = 4, .heads = 2}, .hidden = 3}, .layers = 1});
  enliven(sets);
  const GradientReport of_sets =
      check_gradients(sets,
                      [&](const std::vector<Tensor>& x) {
                        const Tensor features = sets.features(x[0], {.lengths = lengths});
                        return sum(sets.scores(slice(features, 1, 0, 2))) +
                               sum(sets.summary(features, lengths) * features.size(2));
                      },
                      {random_items({2, 4, 3}, 7)});
  CHECK_MESSAGE(of_sets.passed, to_string(of_sets));
}

TEST_CASE("features of a set are equivariant, and its summary is invariant, under any order") {
  for (const char* name : {"standard", "laser", "cosine", "linear", "entmax"}) {
    INFO(std::string(name));
    SetEncoder model(3, {.block = {.mixer = {.width = 8, .heads = 2, .name = name}}, .layers = 2});
    enliven(model);
    const Tensor items = random_items({2, 6, 3}, 8);
    const Tensor features = model.features(items), scores = model.scores(features);
    const Tensor order = index_tensor(std::vector<int64_t>{3, 0, 5, 1, 4, 2}, {6});
    const Tensor moved = model.features(index_select(items, 1, order));
    CHECK(test::largest_difference(moved, index_select(features, 1, order)) <= 1e-12);
    CHECK(test::largest_difference(model.scores(moved), index_select(scores, 1, order)) <= 1e-12);
    CHECK(test::largest_difference(model.summary(moved), model.summary(features)) <= 1e-12);
    CHECK(test::largest_difference(moved, features) > 1e-3);

    // Padding is no part of the set.
    const Tensor lengths = index_tensor(std::vector<int64_t>{4, 6}, {2});
    const Tensor padded = model.features(items, {.lengths = lengths});
    const Tensor alone = model.features(slice(slice(items, 0, 0, 1), 1, 0, 4));
    CHECK(test::largest_difference(slice(slice(padded, 0, 0, 1), 1, 0, 4), alone) <= 1e-12);
    CHECK(test::largest_difference(slice(model.summary(padded, lengths), 0, 0, 1), model.summary(alone)) <=
          1e-12);
    CHECK(model.clone().features(items).values() == features.values());
  }
}

TEST_CASE("a summary of no items is 0") {
  SetEncoder model(3, {.block = {.mixer = {.width = 8, .heads = 2}}, .layers = 1});
  const Tensor features = full({1, 2, 8}, 3.0), none = index_tensor(std::vector<int64_t>{0}, {1});
  CHECK(sum(abs(model.summary(features, none))).item() == 0);
}

TEST_CASE("patches of an image are its squares, row by row") {
  std::vector<double> numbers(2 * 4 * 6);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  const Tensor image = tensor(numbers, {1, 2, 4, 6}, DType::float64);
  const Tensor patches = image_patches(image, 2);
  CHECK(patches.shape() == Shape{1, 6, 8});
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t column = 0; column < 3; ++column) {
      const Tensor square = slice(slice(image, 2, 2 * row, 2 * row + 2), 3, 2 * column, 2 * column + 2);
      CHECK(select(select(patches, 0, 0), 0, 3 * row + column).values() == contiguous(square).values());
    }
}

TEST_CASE(
    "a vision Transformer sees all patches and their places, and its gradients agree with differences") {
  VisionTransformer model(
      {.height = 4,
       .width = 6,
       .patch = 2,
       .classes = 3,
       .stack = {.block = {.mixer = {.width = 4, .heads = 2}, .hidden = 3}, .layers = 1}});
  enliven(model);
  CHECK(model.encoder.blocks.size() == 1);
  const Tensor images = random_items({2, 4, 6}, 9);
  const Tensor logits = model.forward(images);
  CHECK(logits.shape() == Shape{2, 3});
  CHECK(model.features(images).shape() == Shape{2, 7, 4});
  CHECK(model.forward(unsqueeze(images, 1)).values() == logits.values());
  for (int64_t pixel = 0; pixel < 24; ++pixel) {
    std::vector<double> other = images.values();
    other[static_cast<size_t>(pixel)] += 1;
    const Tensor now = model.forward(tensor(other, {2, 4, 6}, DType::float64));
    CHECK(test::largest_difference(slice(now, 0, 0, 1), slice(logits, 0, 0, 1)) > 1e-8);
    CHECK(test::largest_difference(slice(now, 0, 1, 2), slice(logits, 0, 1, 2)) <= 1e-14);
  }
  // The same patches at other places
  const Tensor moved = concat({slice(images, 2, 2, 6), slice(images, 2, 0, 2)}, 2);
  CHECK(test::largest_difference(model.forward(moved), logits) > 1e-4);
  CHECK(model.clone().forward(images).values() == logits.values());
  const Tensor wanted = random_ids({2}, 3, 10);
  const GradientReport report = check_gradients(
      model, [&](const std::vector<Tensor>& x) { return cross_entropy(model.forward(x[0]), wanted); },
      {images});
  CHECK_MESSAGE(report.passed, to_string(report));
}

TEST_CASE("what encoders cannot do is refused with a reason") {
  TextEncoder model(tiny());
  CHECK_THROWS_WITH_AS(model.features(random_ids({1, 7}, 7, 1)), doctest::Contains("with at most 6 tokens"),
                       Error);
  CHECK_THROWS_WITH_AS(model.features(random_ids({1, 3}, 7, 1), {}, random_ids({1, 2}, 2, 1)),
                       doctest::Contains("the segments are [1, 2], wanted [1, 3]"), Error);
  TextEncoderOptions plain = tiny();
  plain.segments = 0;
  CHECK_THROWS_WITH_AS(TextEncoder(plain).features(random_ids({1, 3}, 7, 1), {}, random_ids({1, 3}, 2, 1)),
                       "TextEncoder: there are no segments", Error);
  plain.vocabulary = 0;
  CHECK_THROWS_WITH_AS(TextEncoder{plain}, doctest::Contains("the vocabulary is 0"), Error);
  for (const char* name : {"rotary", "gru", "window=2", "learned_mask", "linformer", "lsh"})
    CHECK_THROWS_WITH_AS(SetEncoder(3, {.block = {.mixer = {.name = name}}}),
                         doctest::Contains("depends on the order of the items"), Error);
  CHECK_THROWS_WITH_AS(VisionTransformer({.height = 28, .width = 28, .patch = 5}),
                       "VisionTransformer: patches of 5 pixels do not cover an image of 28 x 28", Error);
  CHECK_THROWS_WITH_AS(VisionTransformer({.classes = 0}), doctest::Contains("a size is 0"), Error);
  CHECK_THROWS_WITH_AS(VisionTransformer({}).forward(full({2, 28, 27}, 1.0)),
                       doctest::Contains("wanted [B, 1, 28, 28]"), Error);
  SetEncoder sets(3, {.block = {.mixer = {.width = 8, .heads = 2}}});
  CHECK_THROWS_WITH_AS(sets.features(full({2, 3}, 1.0)), doctest::Contains("wanted [B, N, channels]"), Error);
}
