#include "core/gradcheck/check_tape.h"

#include <doctest/doctest.h>

#include "core/creation.h"
#include "core/recompute.h"
#include "core/record.h"
#include "core/tensor_kernels.h"
#include "ops/activation.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;

namespace {

/// The result of check_tape for the nodes of f. f is called with a watched matrix [3, 4].
TapeCheck checked(const std::function<void(const Tensor&)>& f, TapeOptions options = {},
                  const Tensor& x = test::positive({3, 4})) {
  options.checkable = true;
  Tape tape(options);
  f(tape.watch(x));
  return check_tape(tape);
}

/// 2·x, with the gradient that `backward` returns.
template <class F>
Tensor doubled(const Tensor& x, F&& backward) {
  Tensor y;
  {
    const Tape::Pause pause;
    y = x * 2.0;
  }
  return record("doubled", {x}, y, backward);
}

void check_right(const TapeCheck& result) {
  CHECK(!result.nodes.empty());
  CHECK_MESSAGE(result.count(NodeVerdict::right) == result.nodes.size(), to_string(result));
}

}  // namespace

TEST_CASE("every node is checked, by differences and, where its definition can, by dual numbers") {
  const TapeCheck result = checked([](const Tensor& x) {
    const Tensor scores = matmul(x, transpose(x));
    const Tensor y = concat({softmax(scores), tanh(x)}, 1);
    sum(layer_norm(y * y, ones({7}, DType::float64), zeros({7}, DType::float64)));
  });
  check_right(result);
  for (const NodeCheck& node : result.nodes) {
    CHECK(node.error >= 0);
    CHECK(node.limit > 0);
    for (const auto& input : node.report.inputs)
      CHECK_MESSAGE(input.dual_error >= 0, node.op << ": " << node.report.dual_note);
  }
  CHECK(result.passed());
  CHECK(result.first_wrong() == nullptr);
}

TEST_CASE("inputs that share memory are moved one by one, or together") {
  check_right(checked([](const Tensor& x) {
    sum(x * x);
    matmul(x, transpose(x));                // two views of one memory
    x + expand(slice(x, 1, 0, 1), {3, 4});  // elements that are seen several times
    concat({x, x}, 0);
  }));
  check_right(checked([](const Tensor& x) {
    const Tensor rows = expand(slice(x, 1, 0, 1), {3, 4});
    // Through another handle.
    const Tensor y = copy_as(rows.alias({3, 4}, rows.strides()), DType::float64);
    record("clone", {rows}, y, [](const Tensor& dy) -> Grads { return {dy}; });
  }));
  // A constant is not moved.
  const TapeCheck result = checked([](const Tensor& x) { sum(x * detach(x)); });
  REQUIRE(result.nodes.size() == 3);
  CHECK_MESSAGE(result.nodes[1].verdict == NodeVerdict::right, to_string(result));
}

TEST_CASE("the first wrong node is named, with its module and a likely cause") {
  const TapeCheck result = checked([](const Tensor& x) {
    const ModuleScope scope("blocks.1");
    const Tensor y = doubled(tanh(x), [](const Tensor& dy) -> Grads { return {dy * -2.0}; });
    exp(doubled(y, [](const Tensor& dy) -> Grads { return {dy * 3.0}; }));
  });
  REQUIRE(result.nodes.size() == 4);
  CHECK(!result.passed());
  CHECK(result.count(NodeVerdict::wrong) == 2);
  const NodeCheck& first = *result.first_wrong();
  CHECK(first.index == 1);
  CHECK(first.op == "doubled");
  CHECK(first.module == "blocks.1");
  CHECK(first.cause == Cause::sign);
  CHECK(first.error > first.limit);
  CHECK(result.nodes[2].cause == Cause::factor);
  CHECK_MESSAGE(result.nodes[2].explanation == "the gradient of input 0 is 3/2 times what it should be",
                result.nodes[2].explanation);
  const std::string text = to_string(result);
  CHECK_MESSAGE(
      text.find("first wrong: op 1 doubled in blocks.1; likely cause: sign: the gradient of input 0 is the "
                "negative of what it should be") != std::string::npos,
      text);
}

TEST_CASE("a transposed gradient and one of the wrong shape are recognized") {
  const auto cause = [](auto backward) {
    const TapeCheck result = checked([&](const Tensor& x) { doubled(x, backward); });
    return result.nodes[0].verdict == NodeVerdict::wrong ? result.nodes[0].cause : Cause::none;
  };
  CHECK(cause([](const Tensor& dy) -> Grads {
          return {reshape(transpose(dy * 2.0), {3, 4})};
        }) == Cause::transposed);
  CHECK(cause([](const Tensor& dy) -> Grads { return {sum(dy, {0})}; }) == Cause::missing_sum);
  CHECK(cause([](const Tensor& dy) -> Grads { return {dy * 0.0}; }) == Cause::zero);
  CHECK(cause([](const Tensor& dy) -> Grads { fail("no such gradient of {}", describe(dy)); }) ==
        Cause::failed);
}

TEST_CASE("what cannot be checked is said, with the reason") {
  TapeCheck result = checked([](const Tensor& x) {
    Tensor y = empty({3, 4}, DType::float64);
    for (int64_t i = 0; i < 12; ++i) y.data<double>()[i] = 2 * x.data<double>()[i];
    record("loop", {x}, y, [](const Tensor& dy) -> Grads { return {dy}; });
    detach(x);
  });
  REQUIRE(result.nodes.size() == 2);
  CHECK(result.nodes[0].verdict == NodeVerdict::not_checked);
  CHECK_MESSAGE(result.nodes[0].explanation.find("no kernel computes its output") == 0,
                result.nodes[0].explanation);
  CHECK(result.nodes[1].verdict == NodeVerdict::cut);
  CHECK(result.passed());  // nothing is known to be wrong
  CHECK(to_string(result).find("0 right, 1 cut, 1 not checked") != std::string::npos);

  Tape tape({.checkable = true});
  const Tensor x = tape.watch(test::positive({3, 4})), scale = test::positive({3, 4}, 2);
  x + scale;
  {
    const Tape::Pause pause;
    Tensor target = scale;
    VITRINE_RUN(fill, target, 1.0);
  }
  result = check_tape(tape);
  CHECK_MESSAGE(result.nodes[0].explanation.find("was overwritten since, by fill") != std::string::npos,
                to_string(result));
}

TEST_CASE("scores of hidden keys are −∞, and a gradient that leaks into them is found") {
  const Tensor seen = cast(tensor({1, 0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 1}, {3, 4}), DType::boolean);
  CHECK(checked([&](const Tensor& x) { softmax(where(seen, x, -INFINITY)); }).passed());
  const TapeCheck leaks = checked([&](const Tensor& x) {
    const Tensor y = [&] {
      const Tape::Pause pause;
      return where(seen, x, -INFINITY);
    }();
    record("mask", {x}, y, [](const Tensor& dy) -> Grads { return {dy}; });
  });
  CHECK_FALSE(leaks.passed());
}

TEST_CASE("an op whose kernels cannot repeat the recorded values is not checked") {
  TapeCheck result = checked([](const Tensor& x) {
    // No kernel writes the ones.
    Tensor y = tensor(std::vector<double>(12, 1.0), {3, 4}, DType::float64);
    VITRINE_RUN(accumulate, y, x);
    record("add_one", {x}, y, [](const Tensor& dy) -> Grads { return {dy}; });
  });
  CHECK(result.nodes[0].verdict == NodeVerdict::not_checked);
  CHECK(result.nodes[0].explanation == "its kernels give other values when they run again");

  result = checked([](const Tensor& x) {
    const Tensor y = copy_as(x.alias({12}, {1}), DType::float64);
    record("flat", {x, detach(x)}, y, [](const Tensor& dy) -> Grads {
      return {reshape(dy, {3, 4}), Grad()};
    });
  });
  CHECK_MESSAGE(result.nodes[1].explanation == "input 0 shares memory with an input that is a constant",
                to_string(result));
}

TEST_CASE("an op whose output an earlier kernel computed is checked") {
  for (const double factor : {1.0, 1.5}) {
    const TapeCheck result = checked([&](const Tensor& x) {
      const Tensor y = x * 2.0;
      record("doubled", {x}, y, [=](const Tensor& dy) -> Grads { return {dy * 2.0 * factor}; });
    });
    REQUIRE(result.nodes.size() == 2);
    CHECK_MESSAGE(result.nodes[1].verdict == (factor == 1 ? NodeVerdict::right : NodeVerdict::wrong),
                  to_string(result));
  }
}

TEST_CASE("an op that computes in a loop is checked by its definition") {
  const auto claimed = [](double factor) {
    return checked([&](const Tensor& x) {
      REQUIRE(!through_definition({x}, [&] { return x * 2.0; }));
      Tensor y = empty({3, 4}, DType::float64);
      for (int64_t i = 0; i < 12; ++i) y.data<double>()[i] = 2 * x.data<double>()[i];
      record("loop", {x}, y, [=](const Tensor& dy) -> Grads { return {dy * factor}; });
    });
  };
  check_right(claimed(2));
  CHECK(claimed(3).nodes[0].verdict == NodeVerdict::wrong);
}

TEST_CASE("a checkpoint, random numbers, a tape of order 2 and other dtypes are checked, too") {
  Generator generator(5);
  check_right(checked([&](const Tensor& x) {
    recompute([x, &generator] { return dropout(tanh(x) * x, 0.5, generator); });
    dropout(x, 0.5, generator);
  }));
  check_right(checked(
      [](const Tensor& x) {
        const Tensor loss = sum(exp(x) * x);
        Tape::recording()->gradient(loss, {x});
      },
      {.order = 2}));
  check_right(checked([](const Tensor& x) { sum(softmax(x) * exp(x)); }, {},
                      test::positive({3, 4}, 1, DType::float32)));
  check_right(checked([](const Tensor& x) { sum(softmax(x) * exp(x)); }, {},
                      test::positive({3, 4}, 1, DType::bfloat16)));
  const auto wrong =
      checked([](const Tensor& x) { doubled(x, [](const Tensor& dy) -> Grads { return {dy * 2.02}; }); }, {},
              test::positive({3, 4}, 1, DType::float32));
  CHECK(wrong.nodes[0].verdict == NodeVerdict::wrong);
}

TEST_CASE("a kink is undecided, not wrong") {
  const TapeCheck result = checked([](const Tensor& x) { relu(x); }, {}, tensor({-1, 0, 1}, DType::float64));
  CHECK(result.nodes[0].verdict == NodeVerdict::undecided);
  CHECK(result.nodes[0].cause == Cause::kink);
  CHECK(result.passed());
}

TEST_CASE("a checkable tape and its check change no bit") {
  const auto gradient = [](bool checkable) {
    Tape tape({.checkable = checkable});
    Tensor x = test::positive({3, 4});
    x.requires_grad();
    const Tensor loss = sum(softmax(matmul(x, transpose(x))) * 3.0);
    if (checkable) {
      CHECK(check_tape(tape).passed());
      CHECK(!x.grad().defined());
    }
    tape.backward(loss);
    return x.grad().values();
  };
  CHECK(gradient(true) == gradient(false));
}

TEST_CASE("two checkable tapes on one thread, in the order of a pause, keep their own kernels") {
  Tape outer({.checkable = true});
  const Tensor x = outer.watch(test::positive({3, 4}));
  tanh(x);
  {
    const Tape::Pause pause;
    check_right(checked([](const Tensor& y) { exp(y); }));
  }
  exp(x);
  check_right(check_tape(outer));
  CHECK(outer.size() == 2);
}

TEST_CASE("wrong uses are errors that say what was wanted") {
  const Tensor x = test::positive({3, 4});
  {
    Tape tape;
    tanh(tape.watch(x));
    CHECK_THROWS_WITH_AS(check_tape(tape),
                         "check_tape: the tape does not keep how its nodes were computed; record it with "
                         "Tape({.checkable = true})",
                         Error);
    CHECK(tape.forward_of(0) == nullptr);
  }
  Tape tape({.checkable = true});
  const Tensor loss = sum(tape.watch(x));
  CHECK_THROWS_WITH_AS(tape.forward_of(1), "forward_of: node 1 of a tape of 1 nodes", Error);
  CHECK_THROWS_WITH_AS(tape.pull_back(0, {}), "pull_back: 0 gradients for the 1 outputs of sum (op 0)",
                       Error);
  CHECK_THROWS_WITH_AS(
      tape.pull_back(0, {x}),
      "pull_back: the gradient of output 0 of sum (op 0) is float64[3, 4] on cpu, wanted float64[]", Error);
  const auto nothing = [](Grads&) {};
  CHECK_THROWS_WITH_AS(tape.change_gradients(1, nothing),
                       "change_gradients: node 1 of a tape of 1 nodes has no backward", Error);
  tape.gradient(loss, {x}, Keep::yes);
  // Only the first node is checked; the derivative that was not recorded is not an op.
  CHECK(check_tape(tape).passed());
  tape.gradient(loss, {x});
  CHECK_THROWS_WITH_AS(
      check_tape(tape),
      "check_tape: a backward pass has consumed the tape; check it before that pass, or give "
      "that pass Keep::yes",
      Error);
}
