// The tape: what it records, what a backward does and consumes, and its errors.
#include "core/tape.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <sstream>

#include "core/creation.h"
#include "core/memory/allocator.h"
#include "core/parameter.h"
#include "core/record.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;

namespace {

using Values = std::vector<double>;

}  // namespace

TEST_CASE("only what depends on something tracked is recorded, and only while a tape is alive") {
  const Tensor x = test::leaf({1, 2}), constant = tensor({3, 4}, DType::float64);
  x* constant;
  Tape tape;
  constant* constant;
  CHECK(tape.size() == 0);
  const Tensor y = x * constant;
  CHECK(tape.size() == 1);
  CHECK(std::string(tape.info(0).op) == "mul");
  CHECK(tape.tracks(y));
  CHECK(!tape.tracks(constant));
  {
    const Tape::Pause pause;
    y* y;
    CHECK(Tape::recording() == nullptr);
  }
  CHECK(tape.size() == 1);
  CHECK(Tape::recording() == &tape);
  const Tensor watched = tape.watch(constant);
  CHECK((watched * 2, tape.size() == 2));
}

TEST_CASE("backward accumulates into leaves, consumes the tape, and Keep::yes keeps it") {
  const Tensor x = test::leaf({1, 2, 3});
  Tape tape;
  const Tensor y = sum(x * x);
  tape.backward(y, Keep::yes);
  CHECK(x.grad().values() == Values{2, 4, 6});
  tape.backward(y);
  CHECK(x.grad().values() == Values{4, 8, 12});
  CHECK_THROWS_WITH(tape.backward(y), doctest::Contains("has been consumed by a backward pass"));
  x.zero_grad();
  CHECK(!x.grad().defined());
  CHECK(Tape::recording() == nullptr);  // recording stopped
}

TEST_CASE("gradient leaves the leaves alone, gives zeros where nothing depends, and takes seeds") {
  const Tensor x = test::leaf({1, 2}), unused = test::leaf({5});
  Tape tape;
  const Tensor a = x * 2, b = x * x;
  const auto g = tape.gradient({a, b}, {x, unused},
                               {tensor({1, 10}, DType::float64), tensor({100, 1000}, DType::float64)});
  CHECK(g[0].values() == Values{2 + 200, 20 + 4000});
  CHECK(g[1].values() == Values{0});
  CHECK(!x.grad().defined());
}

TEST_CASE("seeds of one output add up, also those that are tracked") {
  const Tensor x = test::leaf({1, 2}), s = test::leaf({3, 4});
  Tape tape;
  const Tensor y = x * 2;
  CHECK(tape.gradient(std::vector{y, y}, {x}, {s, s})[0].values() == Values{12, 16});
  Tape::Pause pause;
  Tape second({.order = 2});
  const Tensor z = x * x;
  const Tensor g = second.gradient(std::vector{z, z}, {x}, {s, s})[0];
  CHECK(g.values() == Values{12, 32});
  CHECK(second.gradient(sum(g), {s})[0].values() == Values{4, 8});
}

TEST_CASE("an op with several outputs, some of them unused, gets undefined gradients for those") {
  const Tensor x = test::leaf({1, 2, 3, 4, 5, 6});
  Tape tape;
  const auto parts = split(x, 2);
  tape.backward(sum(parts[1] * 7));
  CHECK(x.grad().values() == Values{0, 0, 7, 7, 0, 0});
}

TEST_CASE("gradients of slices and of rows cost what they touch") {
  const int64_t n = 20000;
  Tensor table = zeros({n, 8});
  table.requires_grad();
  Tape tape;
  Tensor loss = sum(embedding(table, index_tensor(std::vector<int64_t>{3, 5, 3}, {3})));
  for (int64_t i = 0; i < 50; ++i) loss = loss + sum(slice(table, 0, i, i + 1));
  memory::reset_peak();
  const size_t before = memory::statistics().now;
  tape.backward(loss);
  // One gradient of the table's size, not 51.
  CHECK(memory::statistics().peak - before < 2 * static_cast<size_t>(n) * 8 * sizeof(float));
  const auto g = table.grad().values();
  CHECK(g[3 * 8] == 3);
  CHECK(g[5 * 8] == 2);
  CHECK(g[0] == 1);
  CHECK(g[60 * 8] == 0);
}

TEST_CASE("a saved tensor that was overwritten is an error that names both ops") {
  const Tensor x = test::leaf({1, 2});
  Tape tape;
  const Tensor y = exp(x);
  Tensor z = y * y;
  {
    const Tape::Pause pause;
    Tensor target = y;
    add_in_place(target, tensor({1, 1}, DType::float64));
  }
  CHECK_THROWS_WITH(tape.backward(sum(z)),
                    doctest::Contains("mul: float64[2] on cpu, which it saved for its backward, has "
                                      "been overwritten since by add_in_place"));
}

TEST_CASE("writing into a tensor that the tape tracks is refused outside a pause") {
  const Tensor x = test::leaf({1, 2});
  Tape tape;
  Tensor y = x * 2;
  CHECK_THROWS_WITH(add_in_place(y, x), doctest::Contains("which the running tape tracks"));
  const Tape::Pause pause;
  CHECK_NOTHROW(scale_in_place(y, 2));
}

TEST_CASE("a second tape wants the first paused or ended; a tensor of an ended tape is a constant") {
  const Tensor x = test::leaf({2});
  Tensor old;
  {
    Tape first;
    CHECK_THROWS_WITH(Tape(), doctest::Contains("another tape is recording on this thread"));
    {
      const Tape::Pause pause;
      Tape second;
      old = x * 3;
      CHECK(second.size() == 1);
    }
    CHECK(first.size() == 0);
  }
  Tape tape;
  const Tensor y = sum(old * old);
  CHECK(tape.size() == 0);
  CHECK_THROWS_WITH(tape.backward(y), doctest::Contains("was not recorded on this tape"));
  const Tensor z = sum(old * x);
  CHECK(tape.explain(old, z).find("was recorded on a tape that has ended") != std::string::npos);
  tape.backward(z);
  CHECK(x.grad().values() == Values{6});
}

TEST_CASE("a pause may outlive the tape that it pauses") {
  auto ended = std::make_unique<Tape>();
  {
    const Tape::Pause outer, inner;
    ended.reset();
    CHECK(Tape::recording() == nullptr);
  }
  CHECK(Tape::recording() == nullptr);
  Tape tape;
  { const Tape::Pause pause; }
  CHECK(Tape::recording() == &tape);
}

TEST_CASE("a backward that throws kills the tape and marks the leaves that were changed") {
  const Tensor a = test::leaf({1}), b = test::leaf({1});
  Tape tape;
  const Tensor y = record("broken", {a * 1}, a * 1 + 0, [](const Tensor&) -> Grads { fail("planted"); });
  const Tensor loss = sum(y) + sum(b);
  CHECK_THROWS_WITH(tape.backward(loss), doctest::Contains("planted"));
  CHECK_THROWS_WITH(tape.backward(loss), doctest::Contains("this tape is dead, an earlier backward failed"));
}

TEST_CASE("so does one that throws what is no std::exception") {
  const Tensor a = test::leaf({1});
  Tape tape;
  const Tensor loss = sum(record("broken", {a * 1}, a * 1 + 0, [](const Tensor&) -> Grads { throw 7; }));
  CHECK_THROWS_WITH_AS(tape.backward(loss), doctest::Contains("broken"), Error);
  CHECK_THROWS_WITH(tape.backward(loss), doctest::Contains("this tape is dead"));
}

TEST_CASE("a wrong backward is told: number and shape of its gradients") {
  const Tensor x = test::leaf({1, 2});
  {
    Tape tape;
    const Tensor y = record("two", {x}, clone(x), [](const Tensor& dy) -> Grads { return {dy, dy}; });
    CHECK_THROWS_WITH(tape.backward(sum(y)),
                      doctest::Contains("the backward of two returned 2 gradients for 1 inputs"));
  }
  Tape tape;
  const Tensor y =
      record("shape", {x}, clone(x), [](const Tensor&) -> Grads { return {zeros({3}, DType::float64)}; });
  CHECK_THROWS_WITH(tape.backward(sum(y)),
                    doctest::Contains("the backward of shape returned a gradient of shape [3]"));
}

TEST_CASE("a million chained nodes need no recursion, and memory falls during the backward") {
  Tensor x = tensor({1}, DType::float64);
  x.requires_grad();
  Tape tape;
  Tensor y = x;
#ifdef VITRINE_SANITIZED  // where a call takes more of the stack, and more time
  constexpr size_t kNodes = 200'000;
#else
  constexpr size_t kNodes = 1'000'000;
#endif
  for (size_t i = 0; i < kNodes; ++i) y = y + 1e-6;
  CHECK(tape.size() == kNodes);
  tape.backward(sum(y));
  CHECK(x.grad().item() == 1);
  Tape chain;
  Tensor z = zeros({1000});
  z.requires_grad();
  for (int i = 0; i < 100; ++i) z = exp(z * 0.5);
  const size_t before = memory::statistics().now;
  size_t half = 0;
  chain.on_step([&](const Tape::Step& step) {
    if (step.node == 100) half = memory::statistics().now;
  });
  const Tensor loss = sum(z);
  z = Tensor();
  chain.backward(loss);
  CHECK(half < before - 150000);  // of some 400,000 that the first half of the nodes had saved
}

TEST_CASE("hooks see and change a gradient once it is complete") {
  const Tensor x = test::leaf({1, 2});
  Tape tape;
  const Tensor y = x * 3;
  int calls = 0;
  tape.on_gradient(y, [&](const Tensor& g) {
    ++calls;
    CHECK(g.values() == Values{5, 5});  // of both uses
    return g * 10;
  });
  tape.backward(sum(y * 2) + sum(y * 3));
  CHECK(calls == 1);
  CHECK(x.grad().values() == Values{150, 150});
}

TEST_CASE("a hook may run another pass of its tape where neither pass consumes it") {
  const Tensor x = test::leaf({1, 2});
  for (const auto& [outer, inner] :
       {std::pair{Keep::yes, Keep::yes}, {Keep::yes, Keep::no}, {Keep::no, Keep::yes}}) {
    Tape tape;
    const Tensor y = x * 3, loss = sum(y * 2), other = sum(x * 5);
    Values inside;
    tape.on_gradient(y, [&, keep = inner](const Tensor&) {
      inside = tape.gradient(other, {x}, keep)[0].values();
      return Tensor();
    });
    if (outer == Keep::yes && inner == Keep::yes) {
      CHECK(tape.gradient(loss, {x}, outer)[0].values() == Values{6, 6});
      CHECK(inside == Values{5, 5});
    } else {
      CHECK_THROWS_WITH_AS(tape.gradient(loss, {x}, outer),
                           doctest::Contains("gradient: a gradient of this tape is running"), Error);
    }
  }
}

TEST_CASE(
    "a refused or failed pass inside a hook leaves the depth of the tape, and the outer pass knows of it") {
  const Tensor x = test::leaf({1, 2});
  {
    Tape tape;
    const Tensor y = x * 3, loss = sum(y * 2), other = sum(x * 5);
    tape.on_gradient(y, [&](const Tensor&) {
      CHECK_THROWS_AS(tape.gradient(other, {x}), Error);  // would consume the tape
      return Tensor();
    });
    CHECK(tape.gradient(loss, {x}, Keep::yes)[0].values() == Values{6, 6});
    const Tensor again = sum(x * 7);
    CHECK(tape.gradient(again, {x})[0].values() == Values{7, 7});  // of order 1, as the tape is
  }
  Tape tape;
  const Tensor y = x * 3, loss = sum(y * 2);
  const Tensor bad = record("bad", {x}, x * 1, [](const Tensor&) -> Grads { fail("a fault of the test"); }),
               other = sum(bad);
  tape.on_gradient(y, [&](const Tensor&) {
    CHECK_THROWS_AS(tape.gradient(other, {x}, Keep::yes), Error);
    return Tensor();
  });
  CHECK_THROWS_WITH_AS(tape.gradient(loss, {x}, Keep::yes), doctest::Contains("a fault of the test"), Error);
}

TEST_CASE("hooks are called also on the way to no leaf, and may add slots to the tape") {
  const Tensor w = test::leaf({2, 5}), x = tensor({3, 4}, DType::float64);
  Tape tape;
  tape.watch(x);
  std::vector<Values> seen;
  const auto note = [&](const Tensor& g) {
    seen.push_back(g.values());
    return Tensor();
  };
  const Tensor twice = x * 2;
  tape.on_gradient(x, note);
  tape.on_gradient(twice, note);
  tape.on_gradient(w, [&](const Tensor&) {
    for (int i = 0; i < 5000; ++i) tape.watch(ones({1}, DType::float64));
    return Tensor();
  });
  tape.backward(sum(twice * w));
  CHECK(seen == std::vector<Values>{{2, 5}, {4, 10}});
  CHECK(w.grad().values() == Values{6, 8});
}

TEST_CASE("sums to which gradient() adds are one for each tensor, of its shape") {
  const Tensor x = test::leaf({1, 2}), seed = ones({2}, DType::float64),
               sum_of = full({2}, 10, DType::float64);
  Tape tape;
  const Tensor y = x * 2;
  CHECK_THROWS_WITH_AS(tape.gradient({y}, {x, x}, {seed}, {sum_of, sum_of}),
                       doctest::Contains("is given twice"), Error);
  CHECK_THROWS_WITH_AS(tape.gradient({y}, {x}, {seed}, {full({2}, 10, DType::int64)}),
                       doctest::Contains("wanted the same shape and a floating dtype"), Error);
  const auto add = [&](const Tensor& sum) { return tape.gradient({y}, {x}, {seed}, {sum}, Keep::yes)[0]; };
  CHECK(add(sum_of).values() == Values{12, 12});
  // A sum of another dtype goes on in that of the gradient.
  CHECK(add(full({2}, 10, DType::float32)).values() == Values{12, 12});
  CHECK(add(full({2}, 10, DType::float32)).dtype() == DType::float64);
}

TEST_CASE("anomaly mode names the first op that is not finite, and its place in the model") {
  const Tensor x = test::leaf({0, 1});
  const ModuleScope scope("blocks.3");
  {
    Tape tape({.anomaly = true});
    CHECK_THROWS_WITH(log(x), doctest::Contains("log (op 0, in blocks.3)"));
  }
  Tape tape({.anomaly = true});
  const Tensor y = sqrt(x);
  CHECK_THROWS_WITH(tape.backward(sum(y)), doctest::Contains("sqrt (op 0, in blocks.3)"));
}

TEST_CASE("why a tensor has no gradient") {
  const Tensor x = test::leaf({1, 2}), unused = test::leaf({1});
  Tape tape;
  const Tensor cut = detach(x * 2), used = x * 4;
  const Tensor loss = sum(cut * x), other = sum(argmax(x, 0));
  CHECK(tape.explain(unused, loss).find("was never used by an op on this tape") != std::string::npos);
  CHECK(tape.explain(x, loss).find("has a gradient") != std::string::npos);
  const Tensor loss2 = sum(detach(used) * x);
  CHECK(tape.explain(used, loss2).find("it is cut by detach at op") != std::string::npos);
  const Tensor compared = x * 5, loss3 = sum(cast(less(tensor({1.5}), compared), DType::float32) * x);
  CHECK(tape.explain(compared, loss3).find("less") != std::string::npos);
  CHECK(tape.explain(tensor({1}), loss).find("is a constant") != std::string::npos);
  CHECK(tape.explain(x, other).find("the loss was not recorded on this tape") != std::string::npos);
}

TEST_CASE("a path that ends in an op without a gradient is told, by op and place") {
  const Tensor x = test::leaf({1, 2}), y = test::leaf({3, 4});
  Tape tape;
  const Tensor rounded = sign(x * 2);                                  // ops 0 and 1
  const Tensor counted = cast(cast(y, DType::int64), DType::float64);  // op 2
  const Tensor loss = sum(rounded * counted + exp(test::leaf({5, 6})));
  CHECK(tape.explain(x, loss).ends_with(
      "has no gradient: its path ends in sign at op 1, which has no gradient"));
  CHECK(tape.explain(y, loss).ends_with(
      "has no gradient: its path ends in cast at op 2, which has no gradient"));
  const auto grads = tape.gradient(loss, {x, y});
  CHECK(grads[0].values() == Values{0, 0});
  CHECK(grads[1].values() == Values{0, 0});
}

TEST_CASE("what is used but not by the loss, or was on a tape that has ended, is told so") {
  const Tensor x = test::leaf({1, 2}), z = test::leaf({1});
  Tensor old;
  {
    Tape ended;
    old = x * 3;
  }
  Tape tape;
  const Tensor aside = exp(x), loss = sum(old * z);
  CHECK(tape.explain(old, loss).ends_with("was recorded on a tape that has ended, so it is a constant here"));
  const std::string why = tape.explain(x, loss);
  CHECK(why.find("it is used, last by op 0 (exp), but the loss does not depend on that") !=
        std::string::npos);
  CHECK(why.find("note that op 1 (mul) read a tensor recorded on a tape that has ended") !=
        std::string::npos);
  CHECK(tape.explain(x, sum(old)).find("the loss was not recorded on this tape") != std::string::npos);
  CHECK(tape.explain(x, old).ends_with("it was on one that has ended"));
}

TEST_CASE("the tape can be printed, drawn and stepped through") {
  Tensor w = test::leaf({1, 2});
  w.leaf()->name = "weights";
  Tape tape;
  const Tensor y = sum(exp(w) * 2);
  std::ostringstream table;
  tape.print(table);
  for (const char* part : {"exp", "mul_scalar", "sum", "[2]", "3 ops"})
    CHECK(table.str().find(part) != std::string::npos);
  const std::string dot = tape.to_dot();
  for (const char* part : {"digraph tape", "weights\\n[2]", "op0 -> op1", "exp"})
    CHECK(dot.find(part) != std::string::npos);
  std::vector<std::string> ops;
  tape.on_step([&](const Tape::Step& s) { ops.emplace_back(s.op); });
  tape.backward(y);
  CHECK(ops == std::vector<std::string>{"sum", "mul_scalar", "exp"});
  CHECK(tape.info(0).used);
}

TEST_CASE("gradients of low-precision leaves add up in float32") {
  Parameter p(full({1}, 1.0));
  p.to(DType::bfloat16);
  for (int i = 0; i < 300; ++i) {
    Tape tape;
    tape.backward(sum(p.value() * 1.0));
  }
  CHECK(p.grad().dtype() == DType::float32);
  CHECK(p.grad().item() == 300);  // bfloat16 would have stopped at 256
}

TEST_CASE("second and third derivatives through gradient of gradient") {
  const Tensor x = test::leaf({0.7});
  Tape tape({.order = 3});
  const Tensor y = sum(exp(x) * x);
  const Tensor first = tape.gradient(y, {x}, Keep::yes)[0];
  const Tensor second = tape.gradient(sum(first), {x}, Keep::yes)[0];
  const Tensor third = tape.gradient(sum(second), {x})[0];
  const double e = std::exp(0.7);
  CHECK(first.item() == doctest::Approx(e * 1.7).epsilon(1e-14));
  CHECK(second.item() == doctest::Approx(e * 2.7).epsilon(1e-14));
  CHECK(third.item() == doctest::Approx(e * 3.7).epsilon(1e-14));
}
