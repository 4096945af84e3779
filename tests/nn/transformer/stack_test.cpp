// Encoder and decoder: masks, lengths, a source, step-by-step decoding, and a bias per projection.
#include "nn/transformer/stack.h"

#include <doctest/doctest.h>

#include "core/creation.h"
#include "core/random.h"
#include "nn/check_gradients.h"
#include "nn/transformer/mixers.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/nn/transformer/seeded.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

StackOptions stack_options(const char* mixer, bool cross, Residual residual = Residual::pre) {
  return {.block = {.mixer = {.width = 8, .heads = 2, .context = 16, .name = mixer, .out_deviation = 0.3},
                    .cross = cross,
                    .residual = residual},
          .layers = 2};
}

}  // namespace

TEST_CASE(
    "a decoder reads its source in steps as in a full pass, with every base and either place of norms") {
  for (const char* mixer : {"standard", "rotary+laser", "lstm", "gru", "differential", "linear+laser",
                            "performer=9+rotary", "retention", "gated_linear", "delta=gated"})
    for (const Residual residual : {Residual::pre, Residual::post, Residual::admin}) {
      INFO(std::string(mixer), name_of(residual));
      const Decoder decoder = test::seeded<Decoder>(stack_options(mixer, true, residual));
      const Tensor x = test::normal({2, 5, 8}, 8), source = test::normal({2, 4, 8}, 9);
      StackCall call{.source = source, .source_lengths = index_tensor(std::vector<int64_t>{4, 2}, {2})};
      const Tensor whole = decoder.forward(x, call);
      const auto state = decoder.make_state(2, 5);
      call.state = state.get();
      for (int64_t t = 0; t < 5; ++t)
        CHECK(test::distance(decoder.forward(slice(x, 1, t, t + 1), call), slice(whole, 1, t, t + 1)) <
              1e-12);
      CHECK(state->length() == 5);
      // Positions after the length of a row of the source have no effect.
      call.state = nullptr;
      call.source = concat({slice(source, 1, 0, 2), test::normal({2, 2, 8}, 11)}, 1);
      const Tensor changed = decoder.forward(x, call);
      CHECK(test::distance(select(changed, 0, 1), select(whole, 0, 1)) < 1e-14);
      CHECK(test::distance(select(changed, 0, 0), select(whole, 0, 0)) > 1e-6);
    }
}

TEST_CASE("an encoder sees both sides, within the length of each row and what a mask allows") {
  for (const char* mixer :
       {"standard", "alibi", "lstm", "linear", "performer=9+laser", "linformer=3+laser"}) {
    INFO(std::string(mixer));
    const Encoder encoder = test::seeded<Encoder>(stack_options(mixer, false));
    const Tensor x = test::normal({2, 5, 8}, 8);
    const Tensor y = encoder.forward(x, {.lengths = index_tensor(std::vector<int64_t>{5, 3}, {2})});
    const Tensor alone = encoder.forward(slice(slice(x, 0, 1, 2), 1, 0, 3));
    CHECK(test::distance(slice(slice(y, 0, 1, 2), 1, 0, 3), alone) < 1e-13);
    const Tensor other = concat({slice(x, 1, 0, 4), test::normal({2, 1, 8}, 3)}, 1);
    CHECK(test::distance(slice(encoder.forward(other), 1, 0, 1), slice(encoder.forward(x), 1, 0, 1)) > 1e-6);
  }
  const Encoder encoder = test::seeded<Encoder>(stack_options("standard", false));
  const Tensor x = test::normal({1, 4, 8}, 8);
  AttentionMask own;  // each position sees only itself
  own.allowed = cast(eye(4), DType::boolean);
  const Tensor y = encoder.forward(x, {.mask = own});
  for (int64_t t = 0; t < 4; ++t)
    CHECK(test::distance(slice(y, 1, t, t + 1), encoder.forward(slice(x, 1, t, t + 1))) < 1e-13);
}

TEST_CASE("gradients of a decoder with a source, of its parameters, its input and the source") {
  Decoder decoder = test::seeded<Decoder>(stack_options("laser", true));
  const Tensor weight = test::normal({1, 3, 8}, 2);
  const auto report = check_gradients(
      [&](const std::vector<Tensor>& t) { return sum(decoder.forward(t[0], {.source = t[1]}) * weight); },
      {test::normal({1, 3, 8}, 8), test::normal({1, 2, 8}, 9)});
  CHECK_MESSAGE(report.passed, to_string(report));
}

TEST_CASE("channel mixing reads the position before: steps, lengths, gradients, and what it excludes") {
  for (const FeedForwardKind kind : {FeedForwardKind::rwkv4, FeedForwardKind::rwkv7})
    for (const bool cross : {false, true}) {
      INFO(name_of(kind), cross);
      StackOptions o = stack_options("rwkv4", cross);
      o.block.feed_forward = kind;
      Decoder decoder = test::seeded<Decoder>(o);
      const Tensor x = test::normal({2, 4, 8}, 8), source = cross ? test::normal({2, 3, 8}, 9) : Tensor();
      const Tensor whole = decoder.forward(x, {.source = source});
      const auto state = decoder.make_state(2, 4);
      for (int64_t t = 0; t < 4; ++t)
        CHECK(test::distance(decoder.forward(slice(x, 1, t, t + 1), {.source = source, .state = state.get()}),
                             slice(whole, 1, t, t + 1)) < 1e-12);
      CHECK(test::distance(decoder.clone().forward(x, {.source = source}), whole) == 0);
      const Tensor lengths = index_tensor(std::vector<int64_t>{4, 2}, {2});
      const Tensor shorter = decoder.forward(x, {.lengths = lengths, .source = source});
      CHECK(test::distance(slice(select(shorter, 0, 1), 0, 0, 2), slice(select(whole, 0, 1), 0, 0, 2)) <
            1e-13);
      if (cross) continue;
      const TransformerBlock& block = *decoder.blocks[0];
      const Tensor own = block.channel_mix->forward(x, {.mask = {.causal = true}});
      const Tensor moved = concat({test::normal({2, 1, 8}, 3), slice(x, 1, 1)}, 1);
      const Tensor other = block.channel_mix->forward(moved, {.mask = {.causal = true}});
      CHECK(test::distance(slice(own, 1, 1, 2), slice(other, 1, 1, 2)) > 1e-6);
      CHECK(test::distance(slice(own, 1, 2), slice(other, 1, 2)) == 0);
      // Of the part alone, which takes a small share of a decoder's time.
      const auto report =
          check_gradients(*block.channel_mix,
                          [&](const std::vector<Tensor>& t) {
                            return block.channel_mix->forward(t[0], {.mask = {.causal = true}});
                          },
                          {slice(x, 0, 0, 1)});
      CHECK_MESSAGE(report.passed, to_string(report));
      CHECK_THROWS_WITH_AS(Encoder{o}, doctest::Contains("later ones cannot be seen"), Error);
      o.block.residual = Residual::deepnet;
      CHECK_THROWS_WITH_AS(Decoder{o}, doctest::Contains("deepnet has no initial weights"), Error);
      o.block.residual = Residual::pre, o.block.experts.count = 2;
      CHECK_THROWS_WITH_AS(Decoder{o}, doctest::Contains("and there are 2 experts"), Error);
    }
}

TEST_CASE("each projection has a bias of its own or none") {
  const auto attention = [](ProjectionBias bias) {
    manual_seed(2);
    MultiHeadAttention m({.width = 8, .heads = 2, .key_heads = 1, .bias = bias});
    m.to(DType::float64);
    return m;
  };
  MultiHeadAttention mixed = attention({Bias::yes, Bias::no, Bias::yes, Bias::no}),
                     all = attention(Bias::yes);
  CHECK(mixed.query_key_value.bias.shape() == Shape{8 + 4});
  CHECK(!mixed.out.bias.defined());
  const Tensor query = test::normal({8}, 1), value = test::normal({4}, 2), x = test::normal({1, 3, 8}, 8);
  mixed.query_key_value.bias.assign(concat({query, value}, 0));
  all.query_key_value.bias.assign(concat({query, zeros({4}, DType::float64), value}, 0));
  CHECK(test::distance(mixed.forward(x), all.forward(x)) < 1e-15);
  CHECK(test::distance(mixed.forward(x, {.source = x}), all.forward(x)) < 1e-13);
  CHECK(test::distance(mixed.clone().forward(x), mixed.forward(x)) == 0);
}

TEST_CASE("a cross-attention has the parts of the mixer that need no positions") {
  for (const auto& [mixer, cross] : {std::pair{"rotary+laser", "laser"},
                                     {"alibi+window=3", "standard"},
                                     {"qk_norm+softcap=3+laser", "qk_norm+softcap=3+laser"},
                                     {"gru", "standard"}})
    CHECK(cross_attention_of({.width = 8, .heads = 2, .name = mixer}) == cross);
  const MultiHeadAttention rotary({.width = 8, .heads = 2, .name = "rotary"});
  CHECK_THROWS_WITH_AS(rotary.make_source_state(), doctest::Contains("which rotary needs"), Error);
}

TEST_CASE("heads of keys are those of the cross-attention where the mixer has none") {
  StackOptions options = stack_options("lstm", true);
  options.block.mixer.key_heads = 1;
  Decoder decoder(options);
  CHECK(decoder.blocks[0]->cross->query_key_value.weight.shape() == Shape{16, 8});  // 8 + 2 * 4
  options.block.cross = false;
  CHECK_THROWS_WITH_AS(Decoder{options}, doctest::Contains("lstm has none of its own"), Error);
}

TEST_CASE("a stack refuses a state that is not its own, and an encoder a source") {
  const Decoder decoder = test::seeded<Decoder>(stack_options("standard", true));
  KeyValueCache cache;
  const Tensor x = test::normal({1, 2, 8}, 8);
  CHECK_THROWS_WITH_AS(decoder.forward(x, {.source = x, .state = &cache}),
                       doctest::Contains("the state is not one of 2 blocks"), Error);
  CHECK_THROWS_WITH_AS(decoder.forward(x), doctest::Contains("there is no source to read"), Error);
  CHECK_THROWS_WITH_AS(Encoder(stack_options("standard", true)),
                       doctest::Contains("an encoder has no source"), Error);
}

TEST_CASE("padding takes no place in the experts of a stack, and no part in the auxiliary losses") {
  const Tensor lengths = index_tensor(std::vector<int64_t>{2, 5}, {2}),
               before = index_tensor(std::vector<int64_t>{3, 0}, {2});
  const Tensor x = test::normal({2, 5, 8}, 1), other = test::normal({2, 5, 8}, 2);
  const Tensor place = arange(0, 5, 1, DType::int64);
  const auto compare = [&](const Encoder& stack, StackCall call, const Tensor& real) {
    const auto run = [&](const Tensor& input) {
      std::vector<Routing> routing;
      Halted halted;
      call.routing = &routing, call.halted = &halted;
      const Tensor y = where(unsqueeze(real, -1), stack.forward(input, call), 0.0);
      return std::vector<Tensor>{y, routing.empty() ? halted.auxiliary : routing[1].auxiliary};
    };
    // The same rows with other padding
    const auto one = run(x), two = run(where(unsqueeze(real, -1), x, other));
    CHECK(test::distance(one[0], two[0]) < 1e-13);
    CHECK(test::distance(one[1], two[1]) < 1e-13);
  };
  StackOptions options = stack_options("standard", false);
  for (const bool universal : {false, true}) {
    INFO(universal);
    options.universal = universal;
    options.block.experts = {.count = universal ? 0 : 2, .capacity_factor = 0.5};
    const Encoder stack = test::seeded<Encoder>(options);
    compare(stack, {.lengths = lengths}, less(place, unsqueeze(lengths, 1)));
    compare(stack, {.padding = before}, greater_equal(place, unsqueeze(before, 1)));
  }
}
