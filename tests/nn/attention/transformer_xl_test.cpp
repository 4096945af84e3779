// Mixers with a state of their own kind: Transformer-XL and latent attention.
#include "nn/attention/transformer_xl.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/gradcheck/check_gradients.h"
#include "core/random.h"
#include "nn/attention/latent.h"
#include "nn/attention/multi_head.h"
#include "nn/check_gradients.h"
#include "nn/transformer/mixers.h"
#include "nn/transformer/stack.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

void randomize(Module& module) {
  uint64_t seed = 20;
  for (Parameter& p : module.parameters()) p.assign(test::normal(p.shape(), seed++, DType::float64, 0.5));
}

const MixerOptions kOptions{.width = 8, .heads = 2, .key_heads = 1, .context = 12};

TransformerXl made_xl(int64_t memory = 0) {
  TransformerXl mixer(kOptions, memory);
  mixer.to(DType::float64);
  randomize(mixer);
  return mixer;
}

LatentAttention made_latent(const LatentSizes& sizes = {}) {
  LatentAttention mixer(kOptions, sizes);
  mixer.to(DType::float64);
  randomize(mixer);
  return mixer;
}

const MixerCall kCausal{.mask = {.causal = true}};

/// The outputs of steps of these lengths, with a state.
Tensor in_steps(const Mixer& mixer, const Tensor& x, const std::vector<int64_t>& lengths,
                MixerCall call = kCausal) {
  const auto state = mixer.make_state(x.size(0), x.size(1));
  call.state = state.get();
  std::vector<Tensor> all;
  int64_t begin = 0;
  const Tensor allowed = call.mask.allowed;
  for (const int64_t length : lengths) {
    if (allowed.defined()) call.mask.allowed = slice(allowed, -1, 0, begin + length);
    all.push_back(mixer.forward(slice(x, 1, begin, begin + length), call));
    begin += length;
  }
  CHECK(state->length() == begin);
  return concat(all, 1);
}

}  // namespace

TEST_CASE("relative attention is the formula pair by pair, with later keys, grouped heads and a bias") {
  const Tensor q = test::normal({2, 2, 3, 4}, 1), k = test::normal({2, 1, 5, 4}, 2),
               v = test::normal({2, 1, 5, 3}, 3), r = test::normal({2, 7, 4}, 4), u = test::normal({2, 4}, 5),
               w = test::normal({2, 4}, 6), bias = test::normal({3, 5}, 7);
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < 3; ++i) {
    std::vector<Tensor> scores;
    for (int64_t j = 0; j < 5; ++j) {
      const int64_t distance = i + 2 - j;  // row 0 of r is the distance 4
      const Tensor content = (select(q, 2, i) + u) * select(k, 2, j),
                   position = (select(q, 2, i) + w) * select(r, 1, 4 - distance);
      scores.push_back(sum(content + position, {-1}) / 2.0 + select(select(bias, 0, i), 0, j));
    }
    rows.push_back(stack(scores, -1));
  }
  MixerTrace trace;
  const ComposedAttention read({}, 2, 4, 5);
  const Tensor want = softmax(stack(rows, 2));
  const Tensor y = relative_attention(read, q, k, v, r, u, w, {.bias = bias}, &trace);
  CHECK(test::distance(trace.weights, want) < 1e-14);
  CHECK(test::distance(y, matmul(want, v)) < 1e-14);
  for (const bool causal : {false, true}) {
    const auto report = check_gradients(
        [&](const std::vector<Tensor>& x) {
          return relative_attention(read, x[0], x[1], x[2], x[3], x[4], x[5], {.causal = causal});
        },
        {q, k, v, r, u, w});
    CHECK_MESSAGE(report.passed, to_string(report));
  }
  AttentionMask none;
  none.allowed = zeros({1, 5}, DType::boolean);
  CHECK(max(abs(relative_attention(read, q, k, v, r, u, w, none))).item() == 0);
  CHECK_THROWS_WITH_AS(relative_attention(ComposedAttention({}, 2, 6, 5), q, k, v, r, u, w, {}),
                       doctest::Contains("is made for heads of 6 channels, and q has 4"), Error);
  CHECK_THROWS_WITH_AS(
      relative_attention(ComposedAttention(parse_attention("alibi"), 2, 4, 5), q, k, v, r, u, w, {}),
      doctest::Contains("no part can change its scores"), Error);
  CHECK_THROWS_WITH_AS(relative_attention(read, q, k, v, slice(r, 1, 0, 6), u, w, {}),
                       doctest::Contains("wanted [2, 7, 4]"), Error);
}

TEST_CASE("Transformer-XL: segments give the full pass, and the gradient stops between them") {
  const TransformerXl mixer = made_xl();
  const Tensor x = test::normal({2, 9, 8}, 1), whole = mixer.forward(x, kCausal);
  CHECK(test::distance(in_steps(mixer, x, {4, 5}), whole) < 1e-13);
  CHECK(test::distance(in_steps(mixer, x, {1, 1, 1, 1, 1, 1, 1, 1, 1}), whole) < 1e-13);
  const Tensor first = slice(x, 1, 0, 4), second = slice(x, 1, 4, 9);
  const auto state = mixer.make_state(2, 9);
  MixerCall call = kCausal;
  call.state = state.get();
  Tape tape;
  tape.watch(first), tape.watch(second);
  const Tensor y1 = mixer.forward(first, call), y2 = mixer.forward(second, call);
  CHECK(test::distance(y2, slice(whole, 1, 4, 9)) < 1e-13);
  const auto gradients = tape.gradient(sum(square(y2)), {first, second, mixer.key_value.weight}, Keep::yes);
  CHECK(max(abs(gradients[0])).item() == 0);
  CHECK(max(abs(gradients[1])).item() > 0.01);
  CHECK(max(abs(tape.gradient(sum(square(y1)), {first})[0])).item() > 0.01);
  // The projections of the memory are part of the segment's gradient: it is that of the full pass,
  // with the first positions constant.
  Tape again;
  again.watch(second);
  const Tensor y = slice(mixer.forward(concat({detach(first), second}, 1), kCausal), 1, 4, 9);
  const auto want = again.gradient(sum(square(y)), {second, mixer.key_value.weight});
  CHECK(test::distance(gradients[1], want[0]) < 1e-12);
  CHECK(test::distance(gradients[2], want[1]) < 1e-12);
}

TEST_CASE("Transformer-XL: a memory of two positions, a stack that is read in segments, and states") {
  const TransformerXl mixer = made_xl(2);
  const Tensor x = test::normal({1, 6, 8}, 1);
  const auto last = [&](const Tensor& text) { return slice(in_steps(mixer, text, {2, 2, 1, 1}), 1, 5); };
  const auto changed = [&](int64_t at) {
    return concat({slice(x, 1, 0, at), test::normal({1, 1, 8}, 9), slice(x, 1, at + 1)}, 1);
  };
  CHECK(test::distance(last(changed(4)), last(x)) > 1e-3);
  CHECK(test::distance(last(changed(3)), last(x)) > 1e-3);
  CHECK(test::distance(last(changed(2)), last(x)) == 0);  // forgotten
  // The first key of the mask is forgotten too. The oldest that the state holds does not take its
  // place.
  const auto in_window = [&](int64_t first) {
    return slice(in_steps(mixer, x, {2, 2, 1, 1}, {.mask = {.causal = true, .left = 0, .first = first}}), 1,
                 5);
  };
  CHECK(test::distance(in_window(1), in_window(0)) == 0);
  CHECK(test::distance(in_window(4), in_window(0)) > 1e-3);
  // In a stack the second layer remembers what the first made of an earlier segment.
  StackOptions options{.block = {.mixer = kOptions}, .layers = 2};
  options.block.mixer.name = "transformer_xl";
  Decoder decoder(options);
  decoder.to(DType::float64);
  randomize(decoder);
  const auto state = decoder.make_state(1, 6);
  const Tensor whole = decoder.forward(x);
  for (const int64_t begin : {0, 3})
    CHECK(test::distance(decoder.forward(slice(x, 1, begin, begin + 3), {.state = state.get()}),
                         slice(whole, 1, begin, begin + 3)) < 1e-12);
  CHECK(state->bytes() == 2 * 6 * 8 * 8);  // the inputs of two layers
  const auto copy = state->clone();
  copy->reorder(index_tensor(std::vector<int64_t>{0, 0}, {2}));
  CHECK(copy->bytes() == 2 * state->bytes());
  TransformerXl plain = made_xl();
  CHECK(test::distance(plain.clone().forward(x, kCausal), plain.forward(x, kCausal)) == 0);
  CHECK_THROWS_WITH_AS(plain.forward(x, {.source = x}),
                       doctest::Contains("no meaning between x and a source"), Error);
  CHECK_THROWS_WITH_AS(plain.forward(x, {.state = state.get()}), doctest::Contains("the state is not one of"),
                       Error);
  CHECK_THROWS_WITH_AS(TransformerXl({.width = 6, .heads = 2}),
                       doctest::Contains("an even number of channels"), Error);
}

TEST_CASE("both: gradients of inputs and parameters; padding and lengths are as if they were not there") {
  TransformerXl xl = made_xl();
  LatentAttention latent = made_latent();
  for (Mixer* const mixer : {static_cast<Mixer*>(&xl), static_cast<Mixer*>(&latent)}) {
    INFO(mixer->explain());
    const Tensor x = test::normal({2, 6, 8}, 1), short_row = slice(slice(x, 0, 1, 2), 1, 2, 6);
    const auto report =
        check_gradients(*mixer, [&](const std::vector<Tensor>& t) { return mixer->forward(t[0], kCausal); },
                        {slice(x, 1, 0, 3)});
    CHECK_MESSAGE(report.passed, to_string(report));
    MixerCall padded = kCausal;  // row 1 begins with two positions of padding
    std::vector<double> seen(12, 1);
    seen[6] = seen[7] = 0;
    padded.mask.allowed = tensor(seen, {2, 1, 1, 6}, DType::boolean);
    const Tensor alone = mixer->forward(short_row, kCausal);
    CHECK(test::distance(slice(slice(mixer->forward(x, padded), 0, 1, 2), 1, 2, 6), alone) < 1e-13);
    CHECK(test::distance(slice(slice(in_steps(*mixer, x, {3, 1, 2}, padded), 0, 1, 2), 1, 2, 6), alone) <
          1e-13);
    MixerCall lengths = kCausal;
    lengths.lengths = index_tensor(std::vector<int64_t>{6, 4}, {2});
    lengths.mask.causal = false;
    const Tensor first = slice(slice(x, 0, 1, 2), 1, 0, 4);
    CHECK(test::distance(slice(slice(mixer->forward(x, lengths), 0, 1, 2), 1, 0, 4), mixer->forward(first)) <
          1e-13);
    // Positions matter: the last query of a text in another order.
    const Tensor swapped = concat({slice(x, 1, 1, 2), slice(x, 1, 0, 1), slice(x, 1, 2)}, 1);
    CHECK(test::distance(slice(mixer->forward(swapped, kCausal), 1, 5),
                         slice(mixer->forward(x, kCausal), 1, 5)) > 1e-3);
  }
}

TEST_CASE(
    "latent attention: absorbed decoding gives the full pass from a state smaller than keys and values") {
  for (const LatentSizes& sizes : {LatentSizes{}, LatentSizes{.rank = 3, .rotary = 4}}) {
    LatentAttention mixer = made_latent(sizes);
    const Tensor x = test::normal({2, 9, 8}, 1), whole = mixer.forward(x, kCausal);
    CHECK(test::distance(in_steps(mixer, x, {1, 1, 1, 1, 1, 1, 1, 1, 1}), whole) < 1e-12);
    CHECK(test::distance(in_steps(mixer, x, {4, 3, 2}), whole) < 1e-12);
    CHECK(test::distance(mixer.clone().forward(x, kCausal), whole) == 0);
  }
  // By hand: the formula, for position 0, which sees only itself, y = Wo·(Wv·c).
  const LatentAttention mixer = made_latent();
  const Tensor x = test::normal({1, 1, 8}, 2);
  const Tensor c = mixer.norm.forward(slice(mixer.down.forward(x), -1, 0, mixer.up_value.shape()[2]));
  const Tensor v = matmul(reshape(mixer.up_value.value(), {8, -1}), reshape(c, {-1, 1}));
  CHECK(test::distance(mixer.forward(x, kCausal), mixer.out.forward(reshape(v, {1, 1, 8}))) < 1e-14);
}

TEST_CASE("latent attention: bytes of a state, a trace, and errors") {
  const MixerOptions options{.width = 64, .heads = 8, .context = 32};
  const LatentAttention latent(options);
  MultiHeadAttention full(options);
  const Tensor x = cast(test::normal({1, 10, 64}, 1), DType::float32);
  const auto bytes = [&](const Mixer& mixer) {
    const auto state = mixer.make_state(1, 10);
    MixerCall call = kCausal;
    call.state = state.get();
    mixer.forward(x, call);
    return state->bytes();
  };
  CHECK(bytes(latent) == 10 * (32 + 4) * 4);  // min(4·8, 64/2) channels of c, 4 of the rotary key
  CHECK(bytes(full) == 10 * 2 * 64 * 4);
  MixerTrace trace;
  MixerCall call = kCausal;
  call.trace = &trace;
  latent.forward(x, call);
  CHECK(trace.weights.shape() == Shape{1, 8, 10, 10});
  CHECK(trace.scale == doctest::Approx(1 / std::sqrt(12.0)));
  CHECK(latent.explain().starts_with("latent: a state stores 32 + 4 numbers per position; fused"));
  CHECK_THROWS_WITH_AS(LatentAttention(options, {.rotary = 3}), doctest::Contains("the second even"), Error);
  CHECK_THROWS_WITH_AS(LatentAttention({.width = 7, .heads = 2}),
                       doctest::Contains("no multiple of the 2 heads"), Error);
  CHECK_THROWS_WITH_AS(latent.forward(x, {.source = x}),
                       doctest::Contains("no meaning between x and a source"), Error);
}

TEST_CASE(
    "Transformer-XL: patterns count positions from the first one, also after the memory has dropped it") {
  for (const char* name : {"laser", "window=2", "strided=3", "fixed=stride=4",
                           "blocks=size=2:window=1:global=1", "global=tokens=1:window=2"}) {
    INFO(name);
    const auto mixer = make_mixer({.width = 8,
                                   .heads = 2,
                                   .context = 5,
                                   .name = "transformer_xl+" + std::string(name),
                                   .causal = true});
    mixer->to(DType::float64);
    randomize(*mixer);
    const Tensor x = test::normal({2, 14, 8}, 1);
    // A memory of 5 positions: the same keys as in a window of the whole sequence
    const Tensor whole = mixer->forward(x, {.mask = {.causal = true, .left = 5}});
    const auto state = mixer->make_state(2, 14);
    MixerCall call = kCausal;
    call.state = state.get();
    for (int64_t t = 0; t < 14; ++t)
      CHECK(test::distance(mixer->forward(slice(x, 1, t, t + 1), call), slice(whole, 1, t, t + 1)) < 1e-12);
  }
}
