// Mixture of experts: routing, capacity, dropped tokens, auxiliary losses, and blocks with experts.
#include "nn/layers/mixture_of_experts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/check_gradients.h"
#include "nn/models/gpt.h"
#include "nn/training/tasks/language_modeling.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/reference.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

/// Experts of width 3 with random parameters.
MixtureOfExperts made(const ExpertOptions& o, Activation activation = Activation::gelu, uint64_t seed = 3) {
  MixtureOfExperts experts(3, 4, activation, Bias::yes, 0.02, o);
  experts.to(DType::float64);
  for (Parameter& p : experts.parameters()) p.assign(test::normal(p.shape(), seed++));
  return experts;
}

GptOptions gpt_options(int64_t experts) {
  return {.vocabulary = 7,
          .context = 6,
          .width = 8,
          .layers = 2,
          .heads = 2,
          .hidden = 8,
          .experts = {.count = experts, .per_token = 2, .capacity_factor = 1}};
}

}  // namespace

TEST_CASE("routing: the likeliest experts, first choices served first, and the lower index of equal ones") {
  const Tensor logits = cast(tensor({3, 2, 0,  //
                                     3, 1, 0,  //
                                     0, 2, 1,  //
                                     0, 0, 0},
                                    {4, 3}),
                             DType::float64);
  const Routing one = route(logits, 1, 2);
  CHECK(one.experts.values() == std::vector<double>{0, 0, 1, 0});
  CHECK(one.slots.values() == std::vector<double>{0, 1, 0, -1});  // the third token of expert 0
  CHECK(one.dropped.item() == doctest::Approx(0.25));
  CHECK(test::distance(one.gates, max(softmax(logits), {1}, KeepAxes::yes)) < 1e-15);
  const Routing two = route(logits, 2, 2);
  CHECK(two.experts.values() == std::vector<double>{0, 1, 0, 1, 1, 2, 0, 1});
  // Expert 1: token 2 as a first choice, then token 0; tokens 1 and 3 come too late.
  CHECK(two.slots.values() == std::vector<double>{0, 1, 1, -1, 0, 0, -1, -1});
  CHECK(two.dropped.item() == doctest::Approx(3.0 / 8));
  CHECK(test::distance(sum(two.gates, {1}), ones({4}, DType::float64)) < 1e-15);
  const Routing all = route(logits, 2);
  CHECK(all.capacity == 4);  // the load of expert 1
  CHECK(all.dropped.item() == 0);
  CHECK_THROWS_WITH_AS(route(logits, 4), doctest::Contains("4 experts per token"), Error);
  CHECK_THROWS_WITH_AS(route(logits, 1, -1), doctest::Contains("the capacity is -1"), Error);
}

TEST_CASE("experts with equal weights are one dense layer if nothing is dropped") {
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::swiglu})
    for (const int64_t per_token : {1, 2, 3}) {
      MixtureOfExperts experts = made({.count = 3, .per_token = per_token, .capacity_factor = 0}, activation);
      for (Parameter* const p : {&experts.up, &experts.up_bias, &experts.down, &experts.down_bias}) {
        const Tensor first = slice(p->master(), 0, 0, 1);
        p->assign(contiguous(expand(first, p->shape())));
      }
      const auto of_expert = [](const Parameter& p) { return select(p.master(), 0, 0); };
      const Tensor x = test::normal({2, 5, 3}, 8);
      const Tensor h = activate(activation, linear(x, of_expert(experts.up), of_expert(experts.up_bias)));
      Tensor dense = linear(h, of_expert(experts.down), of_expert(experts.down_bias));
      // One choice keeps its probability as the gate, several choices share 1.
      if (per_token == 1)
        dense = dense * reshape(max(softmax(experts.router_logits(reshape(x, {10, 3}))), {1}), {2, 5, 1});
      CHECK(test::distance(experts.forward(x), dense) < 1e-13);
    }
}

TEST_CASE("dropped tokens give 0 and take no gradient; evaluation drops none, and rows do not compete") {
  MixtureOfExperts experts = made({.count = 2, .per_token = 1, .capacity_factor = 0.5});
  const Tensor x = test::normal({8, 3}, 8);
  Routing routing;
  Tensor dx, y;
  {
    Tape tape;
    tape.watch(x);
    y = experts.forward(x, &routing);
    dx = tape.gradient({y}, {x}, {test::normal({8, 3}, 2)}).at(0);
  }
  CHECK(routing.capacity == 2);
  CHECK(routing.dropped.item() >= 0.5);
  int dropped = 0;
  for (int64_t token = 0; token < 8; ++token) {
    const bool none = routing.slots.values().at(static_cast<size_t>(token)) < 0;
    dropped += none;
    CHECK((sum(abs(select(y, 0, token))).item() == 0) == none);
    CHECK((sum(abs(select(dx, 0, token))).item() == 0) == none);
  }
  CHECK(routing.dropped.item() == doctest::Approx(dropped / 8.0));
  experts.eval();
  const Tensor whole = experts.forward(x, &routing);
  CHECK(routing.dropped.item() == 0);
  CHECK(!routing.auxiliary.defined());
  for (int64_t token = 0; token < 8; ++token)
    CHECK(test::distance(experts.forward(slice(x, 0, token, token + 1)), slice(whole, 0, token, token + 1)) <
          1e-13);
  CHECK(experts.forward(zeros({0, 3}, DType::float64)).shape() == Shape{0, 3});
}

TEST_CASE("padding goes to no expert, takes no place, and does not count in the auxiliary losses") {
  const Tensor x = test::normal({2, 4, 3}, 8),
               visible = tensor(std::vector<uint8_t>{1, 0, 0, 0, 1, 1, 1, 0}, {2, 4}, DType::boolean);
  const Tensor real = concat({slice(select(x, 0, 0), 0, 0, 1), slice(select(x, 0, 1), 0, 0, 3)}, 0);
  for (const int64_t per_token : {1, 2}) {
    // Places for all 8 positions, so that none of the 4 real ones is dropped.
    MixtureOfExperts experts = made({.count = 2, .per_token = per_token, .capacity_factor = 2, .balance = 1});
    Routing routing, alone;
    const Tensor y = experts.forward(x, &routing, visible);
    const Tensor expected = experts.forward(real, &alone);
    CHECK(test::distance(select(slice(y, 1, 0, 1), 0, 0), slice(expected, 0, 0, 1)) < 1e-13);
    CHECK(test::distance(select(slice(y, 1, 0, 3), 0, 1), slice(expected, 0, 1, 4)) < 1e-13);
    CHECK(sum(abs(select(slice(y, 1, 1, 4), 0, 0))).item() == 0);
    CHECK(sum(abs(select(slice(y, 1, 3, 4), 0, 1))).item() == 0);
    CHECK(routing.dropped.item() == 0);
    CHECK(routing.auxiliary.item() == doctest::Approx(alone.auxiliary.item()));
    CHECK(min(select(routing.slots, 0, 1)).item() == -1);  // the first padding
    experts.eval();
    const Tensor none = zeros({2, 4}, DType::boolean);
    CHECK(sum(abs(experts.forward(x, &routing, none))).item() == 0);
    CHECK(routing.dropped.item() == 0);
  }
  // One place: the token after two of padding has it.
  const Routing last = route(zeros({3, 2}), 1, 1, less(tensor({1, 1, 0}), tensor({1})));
  CHECK(last.slots.values() == std::vector<double>{-1, -1, 0});
  CHECK(last.dropped.item() == 0);
  CHECK_THROWS_WITH_AS(route(zeros({3, 2}), 1, 1, ones({3})), doctest::Contains("wanted bool [3]"), Error);
  CHECK(route(zeros({0, 2}), 1, 1).dropped.item() == 0);
  CHECK_THROWS_WITH_AS(made({.count = 2}).forward(select(x, 0, 0), nullptr, visible),
                       doctest::Contains("wanted one bool for each position of [4, 3]"), Error);
}

TEST_CASE("a dropped token gives 0 also where another token gives NaN") {
  MixtureOfExperts experts = made({.count = 1, .capacity_factor = 0.5});
  Tensor x = test::normal({4, 3}, 8);
  x.data<double>()[0] = NAN;
  const Tensor y = experts.forward(x);
  for (const double e : slice(y, 0, 2, 4).values()) CHECK(e == 0);
}

TEST_CASE("gradients of the experts, the router and the auxiliary losses") {
  for (const double factor : {0.0, 0.75})
    for (const int64_t per_token : {1, 2}) {
      MixtureOfExperts experts =
          made({.count = 3, .per_token = per_token, .capacity_factor = factor, .balance = 0.5, .z = 0.3});
      const Tensor weight = test::normal({5, 3}, 9);
      const auto report = check_gradients(experts,
                                          [&](const std::vector<Tensor>& t) {
                                            Routing routing;
                                            const Tensor y = experts.forward(t[0], &routing);
                                            return sum(y * weight) + routing.auxiliary;
                                          },
                                          {test::normal({5, 3}, 8)});
      CHECK_MESSAGE(report.passed, to_string(report));
    }
}

TEST_CASE("the balance loss is 1 for equal loads, E for one expert; the z-loss of zero logits is log² E") {
  const Tensor even = zeros({6, 3}, DType::float64),
               one = cast(tensor({50, 0, 0, 50, 0, 0}, {2, 3}), DType::float64);
  CHECK(balance_loss(even, route(even, 1)).item() == doctest::Approx(1));
  CHECK(balance_loss(one, route(one, 1)).item() == doctest::Approx(3));
  CHECK(z_loss(even).item() == doctest::Approx(std::log(3.0) * std::log(3.0)));
  // A step against the gradient of the balance loss takes probability from the loaded expert.
  Tape tape;
  const Tensor logits = cast(tensor({1, 0, 2, 0}, {2, 2}), DType::float64);
  tape.watch(logits);
  const auto g = tape.gradient(balance_loss(logits, route(logits, 1)), {logits}).at(0).values();
  CHECK((g[0] > 0 && g[2] > 0 && g[1] < 0 && g[3] < 0));
}

TEST_CASE("copies, low precision and wrong sizes of experts") {
  MixtureOfExperts experts = made({.count = 3, .per_token = 2}, Activation::geglu);
  const Tensor x = test::normal({4, 3}, 8);
  CHECK(test::distance(experts.clone().forward(x), experts.forward(x)) == 0);
  CHECK(experts.up.shape() == Shape{3, 8, 3});
  const Tensor wanted = experts.forward(x);
  experts.to(DType::bfloat16);
  const Tensor low = experts.forward(cast(x, DType::bfloat16));
  CHECK(low.dtype() == DType::bfloat16);
  CHECK(spec::distance(low.values(), wanted.values(), 1) < 0.1);
  CHECK_THROWS_WITH_AS(experts.forward(test::normal({4, 2}, 8)), doctest::Contains("wanted [..., 3]"), Error);
  CHECK_THROWS_WITH_AS(made({.count = 2, .per_token = 3}), doctest::Contains("at most the 2 experts"), Error);
  CHECK_THROWS_WITH_AS(made({.count = 2, .capacity_factor = -1}), doctest::Contains("factor is -1"), Error);
}

TEST_CASE("a GPT with experts: the task's loss has the auxiliary loss in training, and not in evaluation") {
  manual_seed(5);
  Gpt model(gpt_options(3));
  model.to(DType::float64);
  for (Parameter& p : model.parameters()) p.assign(test::normal(p.shape(), 3) * 0.5);
  CHECK(model.state_dict().count("blocks.1.experts.router") == 1);
  CHECK(model.state_dict().count("blocks.1.feed_forward.up.weight") == 0);
  std::vector<int32_t> text;
  for (int32_t i = 0; i < 60; ++i) text.push_back(i * i % 7);
  const training::Task task = training::language_modeling(model, Tokens(text), Tokens(text), 2, 1);
  const Batch batch = task.batch(0);
  std::vector<Routing> routing;
  const Tensor ids = batch.tensors[0];
  const Tensor plain = cross_entropy(model.forward(ids, {.routing = &routing}), batch.tensors[1]);
  REQUIRE(routing.size() == 2);
  CHECK(routing[0].experts.shape() == Shape{12, 2});
  CHECK(routing[0].auxiliary.item() > 0.009);
  CHECK(task.loss(batch.tensors).item() ==
        doctest::Approx(plain.item() + routing[0].auxiliary.item() + routing[1].auxiliary.item())
            .epsilon(1e-12));
  model.eval();
  CHECK(task.loss(batch.tensors).item() ==
        doctest::Approx(cross_entropy(model.forward(ids), batch.tensors[1]).item()).epsilon(1e-14));
  // In evaluation a position is decoded as in the full pass.
  const auto state = model.make_state(2);
  const Tensor whole = model.forward(ids);
  for (int64_t t = 0; t < 6; ++t)
    CHECK(test::distance(model.forward(slice(ids, 1, t, t + 1), {.state = state.get()}),
                         slice(whole, 1, t, t + 1)) < 1e-12);
}

TEST_CASE("recomputed blocks with experts keep the gradients of the router's auxiliary loss") {
  const auto gradients = [](bool again) {
    manual_seed(5);
    GptOptions o = gpt_options(3);
    o.recompute_blocks = again;
    Gpt model(o);
    const Tensor ids = index_tensor(std::vector<int64_t>{1, 2, 3, 4, 5, 6}, {1, 6});
    Tape tape;
    std::vector<Routing> routing;
    const Tensor loss = cross_entropy(model.forward(ids, {.routing = &routing}), ids);
    CHECK((again ? tape.size() < 20 : tape.size() > 60));
    tape.backward(loss + auxiliary_loss(routing));
    std::vector<std::vector<double>> all;
    for (const Parameter& p : model.parameters()) all.push_back(p.grad().values());
    return all;
  };
  CHECK(gradients(true) == gradients(false));
}
