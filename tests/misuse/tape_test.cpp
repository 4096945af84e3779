// Misuse of tapes: an error changes no gradient, and another backward works.
#include <optional>

#include "core/creation.h"
#include "core/recompute.h"
#include "core/record.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "tests/misuse/misuse.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

/// Two leaves, one with a gradient from before, and a tape with a loss of both.
struct Recorded : Scene {
  Tensor x = tensor({1, 2, 3}), w = tensor({0.5, -1, 2}), n = tensor({1, 2}, DType::int64),
         constant = tensor({4, 5, 6});
  std::optional<Tape> tape;
  Tensor y, loss;

  Recorded() {
    x.requires_grad();
    w.requires_grad();
    w.set_grad(tensor({1, 1, 1}));
    record({});
  }
  void record(TapeOptions options) {
    tape.reset();
    tape.emplace(options);
    y = x * w;
    loss = sum(y * y);
  }
  std::string state() const override {
    std::string text = fmt::format("{} nodes\n", tape ? tape->size() : 0);
    for (const Tensor& t : {x, w, n, constant, y, loss}) text += show(t);
    return text;
  }
  /// The value and all gradients.
  std::string outcome(const Tensor& value) override { return show(value) + show(x) + show(w); }
  Tensor backward() {
    tape->backward(loss);
    return loss;
  }
  /// What helps where a tape has come to its end.
  Tensor again() {
    record({});
    return backward();
  }
};

std::vector<Misuse> backwards(Recorded& s) {
  const auto right = [&] { return s.backward(); };
  const auto again = [&] { return s.again(); };
  return {
      {"backward of what is no scalar",
       [&] { s.tape->backward(s.y); },
       {"backward: the loss has the shape [3], wanted one element"},
       right},
      {"gradient of what is no scalar",
       [&] { s.tape->gradient(s.y, {s.x}); },
       {"gradient: y has the shape [3], wanted one element"},
       right},
      {"item of what is no scalar",
       [&] { s.y.item(); },
       {"item: wanted a tensor of one element, got float32[3]"},
       right},
      {"backward with a seed of another shape",
       [&] { s.tape->backward(s.y, ones({2})); },
       {"backward: the seed is float32[2]", "the output float32[3]"},
       right},
      {"backward with a seed of another dtype",
       [&] { s.tape->backward(s.y, ones({3}, DType::float64)); },
       {"backward: the seed is float64[3]", "the output float32[3]"},
       right},
      {"gradient with a seed too few",
       [&] { s.tape->gradient(std::vector{s.loss}, {s.x}, std::vector<Tensor>()); },
       {"gradient: 1 outputs and 0 seeds"},
       right},
      {"backward of what nobody tracks",
       [&] { s.tape->backward(sum(s.constant)); },
       {"backward: the loss, float32[] on cpu, was not recorded", "no leaf or watched tensor leads to it"},
       right},
      {"backward of an undefined loss", [&] { s.tape->backward(Tensor()); }, {"an undefined tensor"}, right},
      {"backward of what ran in a pause",
       [&] {
         Tensor loss;
         {
           const Tape::Pause pause;
           loss = sum(s.x);
         }
         s.tape->backward(loss);
       },
       {"backward: the loss", "was not recorded on this tape"},
       right},
      {"backward without a tape",
       [&] { s.loss.backward(); },
       {"backward: no tape is recording on this thread", "create a Tape"},
       again,
       [&] { s.tape.reset(); }},
      {"backward on a tape that has ended",
       [&] { Tape().backward(s.loss); },
       {"backward: the loss", "it was on one that has ended"},
       again,
       [&] { s.tape.reset(); }},
      {"backward twice",
       [&] { s.tape->backward(s.loss); },
       {"backward: this tape has been consumed", "record again, or pass Keep::yes"},
       again,
       [&] { s.backward(); }},
      {"gradient on a consumed tape",
       [&] { s.tape->gradient(s.loss, {s.x}); },
       {"gradient: this tape has been consumed"},
       again,
       [&] { s.backward(); }},
      {"watch on a consumed tape",
       [&] { s.tape->watch(s.constant); },
       {"watch: this tape has been consumed"},
       again,
       [&] { s.backward(); }},
  };
}

std::vector<Misuse> tracking(Recorded& s) {
  const auto right = [&] { return s.backward(); };
  return {
      {"gradient of integers",
       [&] { s.tape->gradient(s.loss, {s.n}); },
       {"gradient: int64[2] on cpu is not tracked", "only floating tensors have gradients"},
       right},
      {"gradient of a constant",
       [&] { s.tape->gradient(s.loss, {s.constant}); },
       {"gradient: float32[3] on cpu is not tracked by this tape", "watch() it"},
       right},
      {"integers that require a gradient",
       [&] { s.n.requires_grad(); },
       {"requires_grad: a gradient needs a floating dtype, got int64[2]"},
       right},
      {"watching integers",
       [&] { s.tape->watch(s.n); },
       {"watch: a gradient needs a floating dtype, got int64[2]"},
       right},
      {"a gradient of another shape",
       [&] { s.w.set_grad(ones({2})); },
       {"set_grad: the gradient is float32[2]", "the tensor float32[3]"},
       right},
      {"a gradient for a constant",
       [&] { s.constant.set_grad(ones({3})); },
       {"set_grad: float32[3] on cpu does not require a gradient"},
       right},
      {"a hook on a constant",
       [&] { s.tape->on_gradient(s.constant, {}); },
       {"on_gradient: float32[3] on cpu is not tracked"},
       right},
      {"a write into an output",
       [&] { add_in_place(s.y, s.constant); },
       {"writing into float32[3] on cpu, which the running tape tracks", "Tape::Pause"},
       right},
      {"a write into a leaf",
       [&] { scale_in_place(s.x, 2); },
       {"writing into float32[3] on cpu, which the running tape tracks"},
       right},
      {"adding another shape in place",
       [&] { add_in_place(s.constant, s.n); },
       {"add_in_place: x is float32[3] on cpu and y is int64[2] on cpu, wanted floating tensors of one "
        "shape"},
       right},
      {"scaling integers in place",
       [&] { scale_in_place(s.n, 0.5); },
       {"scale_in_place: x is int64[2] on cpu"},
       right},
      {"adding into an expanded tensor",
       [&] {
         Tensor four = expand(zeros({2, 1}), {2, 4});
         add_in_place(four, ones({2, 4}));
       },
       {"add_in_place: x is expanded along axis 1", "clone it first"},
       right},
      {"scaling an expanded tensor",
       [&] {
         Tensor four = expand(zeros({1}), {4});
         scale_in_place(four, 2);
       },
       {"scale_in_place: x is expanded along axis 0"},
       right},
      {"a second tape",
       [&] { Tape second; },
       {"Tape: another tape is recording on this thread", "Tape::Pause"},
       right},
      {"a tape of order 0",
       [&] { Tape({.order = 0}); },
       {"Tape: the order is 0, wanted 1 to 100"},
       right,
       [&] {
         s.backward();
         s.record({});
       }},
      {"a node that is not there",
       [&] { s.tape->info(99); },
       {"info: node 99 was asked for, the tape has 3"},
       right},
      {"backward of what ran after the tape was consumed",
       [&] { s.tape->backward(sum(s.x)); },
       {"consumed"},
       [&] { return s.again(); },
       [&] { s.backward(); }},
  };
}

/// A failed backward ends the tape and frees what it held.
struct Failing : Recorded {
  std::string thread_state() const override { return ""; }
};

std::vector<Misuse> failures(Failing& s) {
  const auto again = [&] { return s.again(); };
  return {
      {"a saved tensor that is overwritten",
       [&] { s.tape->backward(s.loss); },
       {"mul: float32[3] on cpu, which it saved for its backward, has been overwritten since by "
        "add_in_place"},
       again,
       [&] {
         const Tape::Pause pause;
         add_in_place(s.y, s.constant);
       }},
      {"backward on a dead tape",
       [&] { s.tape->backward(s.loss); },
       {"backward: this tape is dead, an earlier backward failed", "overwritten"},
       again,
       [&] {
         {
           const Tape::Pause pause;
           add_in_place(s.y, s.constant);
         }
         CHECK_THROWS_AS(s.tape->backward(s.loss), Error);
       }},
      {"a hook that returns another shape",
       [&] { s.tape->backward(s.loss); },
       {"on_gradient: the hook returned float32[2]", "for a gradient of float32[3]"},
       again,
       [&] { s.tape->on_gradient(s.y, [](const Tensor&) { return ones({2}); }); }},
      {"a backward that returns a gradient too few",
       [&] { s.tape->backward(s.loss); },
       {"the backward of triple returned 0 gradients for 1 inputs"},
       again,
       [&] { s.loss = record("triple", {s.loss}, s.loss * 3, [](const Tensor&) { return Grads(); }); }},
      {"an infinite output in anomaly mode",
       [&] { log(s.y); },
       {"anomaly: the output of log (op 4)", "not finite"},
       again,
       [&] {
         s.record({.anomaly = true});
         s.y = s.x - s.x;
       }},
      {"an infinite gradient in anomaly mode",
       [&] { s.tape->backward(s.loss); },
       {"anomaly: the gradient of sqrt (op 4, in blocks.3)", "not finite"},
       again,
       [&] {
         s.record({.anomaly = true});
         const ModuleScope scope("blocks.3");
         s.loss = sum(sqrt(s.x - 1));
       }},
      {"a checkpoint whose input is overwritten",
       [&] { s.tape->backward(s.loss); },
       {"recompute", "overwritten since by"},
       again,
       [&] {
         s.loss = sum(recompute([&] { return s.y * s.y; }));
         const Tape::Pause pause;
         add_in_place(s.y, s.constant);
       }},
  };
}

}  // namespace

TEST_CASE("misuse of backward and gradient") { check_all<Recorded>(backwards); }
TEST_CASE("misuse of what a tape tracks") { check_all<Recorded>(tracking); }
TEST_CASE("a backward that fails says where, and harms no gradient") { check_all<Failing>(failures); }

TEST_CASE("leaves that a failed backward has changed are named") {
  Tensor x = tensor({1, 2}).requires_grad();
  x.leaf()->name = "weights";
  Tape tape;
  const Tensor y = x * 2;
  tape.on_gradient(y, [](const Tensor&) -> Tensor { throw Error("planted"); });
  CHECK(problem_with_message([&] { tape.backward(sum(y) + sum(x)); },
                             {"backward of mul_scalar (op 0) failed: planted",
                              "already changed are the gradients of weights", "call zero_grad()"})
            .empty());
}
