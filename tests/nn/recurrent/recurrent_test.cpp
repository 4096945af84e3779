// LSTM and GRU as mixers: decoding, lengths, both directions, traces, and errors.
#include "nn/recurrent/recurrent.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/transformer/mixers.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

std::unique_ptr<Mixer> made(const char* name, int64_t width, bool causal = true) {
  manual_seed(4);
  auto mixer = make_mixer({.width = width, .heads = 2, .name = name, .causal = causal});
  mixer->to(DType::float64);
  Generator generator(3);
  for (Parameter& p : mixer->parameters())
    p.assign(randn(p.shape(), DType::float64, Device::cpu, 0, 0.5, generator));
  return mixer;
}

const MixerCall kCausal{.mask = {.causal = true}};

}  // namespace

TEST_CASE("decoding in steps equals the full pass, also after the state was copied and its rows reordered") {
  for (const char* name : {"lstm", "gru"}) {
    INFO(std::string(name));
    const auto mixer = made(name, 6);
    const Tensor x = test::normal({2, 5, 6}, 8), whole = mixer->forward(x, kCausal);
    auto state = mixer->make_state(2, 5);
    CHECK(state->bytes() == 0);
    MixerCall call = kCausal;
    call.state = state.get();
    CHECK(test::distance(mixer->forward(slice(x, 1, 0, 3), call), slice(whole, 1, 0, 3)) < 1e-14);
    CHECK(state->length() == 3);
    CHECK(state->bytes() == 2 * 6 * 8 * (std::string(name) == "lstm" ? 2 : 1));
    const auto copy = state->clone();
    CHECK(test::distance(mixer->forward(slice(x, 1, 3, 5), call), slice(whole, 1, 3, 5)) < 1e-14);
    copy->reorder(index_tensor(std::vector<int64_t>{1, 1}, {2}));
    call.state = copy.get();
    const Tensor second = slice(slice(x, 0, 1, 2), 1, 3, 5);
    const Tensor got = mixer->forward(concat({second, second}, 0), call);
    for (const int64_t row : {0, 1})
      CHECK(test::distance(select(got, 0, row), slice(select(whole, 0, 1), 0, 3, 5)) < 1e-14);
  }
}

TEST_CASE(
    "each row gives what it gives alone at its own length, and 0 after it, in one direction and in both") {
  for (const char* name : {"lstm", "gru", "rwkv4", "rwkv7", "mamba"})
    for (const bool causal : {true, false}) {
      if (!causal && *name != 'l' && *name != 'g') continue;
      INFO(std::string(name), causal);
      const auto mixer = made(name, 6, causal);
      const Tensor x = test::normal({3, 5, 6}, 8);
      const std::vector<int64_t> lengths = {5, 2, 0};
      const AttentionMask mask{.causal = causal};
      const Tensor y = mixer->forward(x, {.mask = mask, .lengths = index_tensor(lengths, {3})});
      for (int64_t b = 0; b < 3; ++b) {
        const int64_t n = lengths[static_cast<size_t>(b)];
        const Tensor row = slice(slice(x, 0, b, b + 1), 1, 0, n);
        CHECK(test::distance(slice(slice(y, 0, b, b + 1), 1, 0, n), mixer->forward(row, {.mask = mask})) <
              1e-14);
        for (const double after : slice(select(y, 0, b), 0, n).values()) CHECK(after == 0);
      }
    }
}

TEST_CASE("the second direction is the first one on the reversed sequence") {
  for (const char* name : {"lstm", "gru"}) {
    const auto mixer = made(name, 6, false);
    auto& both = dynamic_cast<Recurrent&>(*mixer);
    for (const auto& [from, to] :
         {std::pair{&both.directions[0].input.weight, &both.directions[1].input.weight},
          {&both.directions[0].input.bias, &both.directions[1].input.bias},
          {&both.directions[0].recurrent, &both.directions[1].recurrent}})
      to->assign(from->master());
    if (both.directions[0].bias.defined()) both.directions[1].bias.assign(both.directions[0].bias.master());
    const Tensor x = test::normal({2, 5, 6}, 8);
    const Tensor y = mixer->forward(x), turned = flip(mixer->forward(flip(x, {1})), {1});
    CHECK(test::distance(slice(y, -1, 0, 3), slice(turned, -1, 3)) < 1e-14);
  }
}

TEST_CASE("the weights of a trace say what the state is made of") {
  // For one channel: c_t = Σ_j w(t, j)·g_j, where g_j is the candidate at position j.
  const auto mixer = made("lstm", 1);
  const Tensor x = test::normal({1, 6, 1}, 8);
  MixerTrace trace;
  MixerCall call = kCausal;
  call.trace = &trace;
  const Tensor h = mixer->forward(x, call);
  CHECK(trace.weights.shape() == Shape{1, 1, 6, 6});
  const auto& d = dynamic_cast<Recurrent&>(*mixer).directions[0];
  const LstmStates states = lstm(d.input.forward(x), d.recurrent);
  const auto w = trace.weights.values(), c = states.c.values(), hidden = h.values();
  const auto sums = d.input.forward(x).values();
  const double recurrent = d.recurrent.master().values()[2];
  for (size_t t = 0; t < 6; ++t) {
    double sum = 0;
    for (size_t j = 0; j <= t; ++j)
      sum += w[t * 6 + j] * std::tanh(sums[j * 4 + 2] + (j == 0 ? 0 : recurrent * hidden[j - 1]));
    CHECK(sum == doctest::Approx(c[t]).epsilon(1e-12));
    for (size_t j = t + 1; j < 6; ++j) CHECK(w[t * 6 + j] == 0);
  }
  // For a GRU, the weights and the share of the first state sum to 1. The weights of the two
  // directions mirror each other.
  const auto gru = made("gru", 4, false);
  MixerCall both{.trace = &trace};
  gru->forward(test::normal({2, 6, 4}, 8), both);
  CHECK(trace.weights.shape() == Shape{2, 2, 6, 6});
  for (const double total : sum(trace.weights, {-1}).values()) CHECK((total > 0 && total < 1));
  for (const double above : select(select(trace.weights, 1, 1), -1, 0).values()) CHECK(above >= 0);
  CHECK(select(select(select(trace.weights, 1, 1), -2, 5), -1, 0).values() == std::vector<double>{0, 0});
}

TEST_CASE("a name is one base and parts that the base accepts") {
  CHECK(parse_mixer("laser+rotary").text() == "rotary+laser");
  CHECK(parse_mixer("standard").text() == "standard");
  CHECK(parse_mixer("lstm").text() == "lstm");
  CHECK(brings_positions(MixerOptions{.name = "gru"}));
  CHECK(!brings_positions(MixerOptions{.name = "laser"}));
  CHECK_THROWS_WITH_AS(parse_mixer("lstm+rotary"),
                       "mixer: lstm takes no part rotary: lstm computes all of its steps itself", Error);
  CHECK_THROWS_WITH_AS(parse_mixer("lstm+gru"), "mixer: lstm+gru has two bases, lstm and gru; wanted one",
                       Error);
  CHECK_THROWS_WITH_AS(parse_mixer("lstn"), doctest::Contains("did you mean lstm?"), Error);
  CHECK_THROWS_WITH_AS(parse_mixer("lasr"), doctest::Contains("did you mean laser?"), Error);
  CHECK_THROWS_WITH_AS(parse_mixer("lstm=2"), doctest::Contains("lstm takes no value"), Error);
  CHECK_THROWS_WITH_AS(parse_mixer(""), doctest::Contains("the name is empty"), Error);
  CHECK_THROWS_WITH_AS(register_mixer({.name = "laser"}),
                       doctest::Contains("there is a base or a part laser"), Error);
  CHECK_THROWS_WITH_AS(register_mixer({.name = "mean"}), doctest::Contains("needs one function"), Error);
}

TEST_CASE("what a recurrence has no use for is refused with its reason") {
  const auto mixer = made("lstm", 6), both = made("lstm", 6, false);
  const Tensor x = test::normal({1, 3, 6}, 8);
  const auto refused = [&](const Mixer& m, const MixerCall& call, const char* reason) {
    CHECK_THROWS_WITH_AS(m.forward(x, call), doctest::Contains(reason), Error);
  };
  refused(*mixer, {}, "the mask is not causal and the recurrence is causal");
  refused(*both, kCausal, "the mask is causal and the recurrence is of two directions");
  refused(*mixer, {.mask = {.causal = true, .left = 2}}, "no mask can hide one; wanted lengths");
  refused(*mixer, {.mask = {.causal = true}, .source = x}, "a source has no place");
  const auto state = both->make_state(1, 3), other = made("standard", 8)->make_state(1, 3);
  refused(*both, {.state = state.get()}, "later positions come first");
  refused(*mixer, {.mask = {.causal = true}, .state = other.get()},
          "wanted what make_state of the same mixer gave");
  const Tape tape;
  const auto own = mixer->make_state(1, 3);
  refused(*mixer, {.mask = {.causal = true}, .state = own.get()}, "decode under Tape::Pause");
  CHECK_THROWS_WITH_AS(mixer->forward(test::normal({1, 3, 5}, 8), kCausal),
                       "lstm: x is [1, 3, 5], wanted [B, T, 6]", Error);
}

TEST_CASE("large inputs in float16 give finite outputs and gradients, where a norm follows the state") {
  for (const char* name : {"rwkv7", "mamba2"}) {
    INFO(name);
    const auto mixer = made(name, 32), wide = made(name, 32);
    for (Parameter& p : mixer->parameters()) p.assign(p.value() * 0.2);
    wide->copy_from(*mixer);
    mixer->to(DType::float16);
    const Tensor x = test::normal({1, 20, 32}, 5) * 40.0, half = cast(x, DType::float16);
    Tape tape;
    const Tensor in = tape.watch(half), y = mixer->forward(in, kCausal);
    const Tensor dx = tape.gradient(mean(y), {in})[0];
    for (const Tensor& result : {y, dx})
      for (const double e : result.values()) CHECK(std::isfinite(e));
    const Tensor exact = wide->forward(cast(half, DType::float64), kCausal);
    CHECK(test::distance(y, exact, 1) < 0.1 * max(abs(exact)).item());
  }
}
