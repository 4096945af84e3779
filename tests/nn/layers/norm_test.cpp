// Norms of blocks, batch norm and group norm: formulas, statistics, modes and gradients.
#include "nn/layers/norm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/random.h"
#include "core/recompute.h"
#include "core/tape.h"
#include "nn/check_gradients.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/group_norm.h"
#include "nn/transformer/stack.h"
#include "ops/elementwise.h"
#include "ops/power_norm.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

Tensor off_center(const Shape& shape, uint64_t seed = 8) {
  Generator generator(seed);
  return randn(shape, DType::float64, Device::cpu, 0.5, 1.5, generator);
}

/// The gradient of Σ y·cotangent with respect to x.
template <class F>
Tensor gradient(const Tensor& x, const Tensor& cotangent, const F& f) {
  Tape tape;
  tape.watch(x);
  return tape.gradient({f(x)}, {x}, {cotangent}).at(0);
}

template <class M>
M in_float64(M module) {
  module.to(DType::float64);
  return module;
}

}  // namespace

TEST_CASE("batch norm: per channel, mean 0 and square 1 in training, running statistics in evaluation") {
  BatchNorm norm = in_float64(BatchNorm(3, {.momentum = 0.25}));
  const Tensor x = off_center({4, 3, 5});
  const Tensor y = norm.forward(x);
  CHECK(test::distance(mean(y, {0, 2}), zeros({3}, DType::float64)) < 1e-13);
  CHECK(test::distance(mean(square(y), {0, 2}), ones({3}, DType::float64)) < 1e-4);  // eps
  CHECK(test::distance(norm.running_mean, 0.25 * mean(x, {0, 2})) < 1e-14);
  CHECK(test::distance(norm.running_var, 0.75 + 0.25 * var(x, {0, 2}, 1)) < 1e-14);
  norm.weight.assign(off_center({3}, 2)), norm.bias.assign(off_center({3}, 3));
  norm.eval();
  const auto before = norm.running_mean.values();
  const auto along = [](const Tensor& c) { return reshape(c, {3, 1}); };
  const Tensor wanted =
      (x - along(norm.running_mean)) / sqrt(along(norm.running_var) + 1e-5) * along(norm.weight) +
      along(norm.bias);
  CHECK(test::distance(norm.forward(x), wanted) < 1e-14);
  CHECK(norm.running_mean.values() == before);
  // Rows do not see each other in evaluation, and do in training.
  const Tensor first = slice(x, 0, 0, 1);
  CHECK(test::distance(norm.forward(first), slice(wanted, 0, 0, 1)) < 1e-14);
  norm.train();
  CHECK(test::distance(norm.forward(first), slice(norm.forward(x), 0, 0, 1)) > 1e-3);
}

TEST_CASE("batch norm: the axis of the channels, gradients, low precision, copies and errors") {
  const Tensor x = off_center({2, 3, 4});
  BatchNorm norm = in_float64(BatchNorm(3)), last = in_float64(BatchNorm(3, {.axis = -1}));
  CHECK(test::distance(transpose(last.forward(transpose(x))), norm.forward(x)) < 1e-14);
  norm.weight.assign(off_center({3}, 2));
  const Tensor weight = off_center({2, 3, 4}, 5);
  for (const bool training : {true, false}) {
    norm.train(training);
    const auto report = check_gradients(
        norm, [&](const std::vector<Tensor>& t) { return sum(norm.forward(t[0]) * weight); }, {x});
    CHECK_MESSAGE(report.passed, to_string(report));
  }
  BatchNorm twin = norm.clone();
  CHECK(twin.running_mean.values() == norm.running_mean.values());
  CHECK(twin.running_mean.shared_storage() != norm.running_mean.shared_storage());
  CHECK(norm.state_dict().count("running_var") == 1);
  // 300 ± 1 has no digits left in bfloat16 where statistics are rounded to it.
  BatchNorm low(1);
  low.to(DType::bfloat16);
  const Tensor pair = cast(tensor({298, 302}, {2, 1}), DType::bfloat16);
  CHECK(low.forward(pair).values() == std::vector<double>{-1, 1});
  CHECK(low.running_mean.dtype() == DType::float32);
  CHECK(low.running_mean.item() == doctest::Approx(30));
  CHECK_THROWS_WITH_AS(norm.forward(off_center({2, 4})), doctest::Contains("wanted 3 channels on axis 1"),
                       Error);
  norm.train();
  CHECK_THROWS_WITH_AS(norm.forward(off_center({1, 3})), doctest::Contains("at least two values per channel"),
                       Error);
  CHECK_THROWS_WITH_AS(BatchNorm(3, {.momentum = 2}), doctest::Contains("the momentum is 2"), Error);
}

TEST_CASE("batch norm and power norm under recomputation: the bits of the plain step, and one update") {
  const auto step = [](bool again) {
    BatchNorm batch = in_float64(BatchNorm(4, {.axis = -1}));
    Norm power = in_float64(Norm(4, NormKind::power));
    const auto both = [&](const Tensor& t) { return power.forward(batch.forward(t)); };
    const Tensor dx = gradient(off_center({3, 4}), off_center({3, 4}, 2), [&](const Tensor& t) {
      return again ? vitrine::recompute([&] { return both(t); }) : both(t);
    });
    std::vector<std::vector<double>> all = {dx.values()};
    for (const auto& [name, buffer] : batch.named_buffers()) all.push_back(buffer.values());
    for (const auto& [name, buffer] : power.named_buffers()) all.push_back(buffer.values());
    return all;
  };
  CHECK(step(true) == step(false));
  CHECK(step(false).size() == 5);
  CHECK(step(false)[3] != std::vector<double>(4, 1));  // psi2 has been updated
}

TEST_CASE("group norm: one group is a layer norm of the example, C groups see one channel each") {
  const Tensor x = off_center({2, 4, 3});
  GroupNorm one = in_float64(GroupNorm(1, 4)), each = in_float64(GroupNorm(4, 4)),
            two = in_float64(GroupNorm(2, 4));
  CHECK(test::distance(one.forward(x), reshape(layer_norm(reshape(x, {2, 12})), x.shape())) < 1e-13);
  CHECK(test::distance(each.forward(x), layer_norm(x)) < 1e-13);
  CHECK(test::distance(mean(reshape(two.forward(x), {2, 2, 6}), {2}), zeros({2, 2}, DType::float64)) < 1e-13);
  CHECK(test::distance(two.forward(x), one.forward(x)) > 1e-3);
  CHECK(two.forward(zeros({0, 4, 3}, DType::float64)).shape() == Shape{0, 4, 3});
  two.weight.assign(off_center({4}, 2)), two.bias.assign(off_center({4}, 3));
  CHECK(test::distance(two.clone().forward(x), two.forward(x)) == 0);
  const auto report = check_gradients(two, {x});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK_THROWS_WITH_AS(GroupNorm(3, 4), doctest::Contains("4 channels cannot form 3 groups"), Error);
  CHECK_THROWS_WITH_AS(two.forward(off_center({2, 5})), doctest::Contains("wanted 4 channels"), Error);
}

TEST_CASE("every kind of norm: the sum and its norm, copies, and a position that sees itself alone") {
  for (const auto& kind : names_of(NormKind{}).values) {
    INFO(kind.first);
    Norm norm = in_float64(Norm(6, kind.second));
    for (Parameter& p : norm.parameters()) p.assign(off_center(p.shape(), 4));
    const Tensor x = off_center({2, 3, 6}), residual = off_center({2, 3, 6}, 2);
    const AddNorm both = norm.forward(x, residual);
    CHECK(test::distance(both.sum(), x + residual) < 1e-15);
    CHECK(test::distance(both.y(), norm.forward(x + residual)) < 1e-14);
    CHECK(test::distance(norm.clone().forward(x), norm.forward(x)) == 0);
    CHECK(test::distance(norm.forward(slice(x, 1, 0, 2)), slice(norm.forward(x), 1, 0, 2)) < 1e-15);
    Norm low(6, kind.second);
    low.to(DType::bfloat16);
    CHECK(low.forward(cast(x, DType::bfloat16)).dtype() == DType::bfloat16);
  }
}

TEST_CASE("scale norm has the length g; ada norm has c(1 − ky)y with a constant factor") {
  Norm scale = in_float64(Norm(4, NormKind::scale)), ada = in_float64(Norm(4, NormKind::ada));
  const Tensor x = off_center({3, 4}), dy = off_center({3, 4}, 2);
  // g starts as √4.
  CHECK(test::distance(norm(scale.forward(x), 2, {1}), full({3}, 2, DType::float64)) < 1e-7);
  CHECK(scale.forward(zeros({1, 4}, DType::float64)).values() == std::vector<double>(4, 0));
  const auto report = check_gradients(scale, {x});
  CHECK_MESSAGE(report.passed, to_string(report));
  const Tensor y = layer_norm(x);
  CHECK(ada.parameters().empty());
  CHECK(test::distance(ada.forward(x), (1 - 0.1 * y) * y) < 1e-14);
  const Tensor dx = gradient(x, dy, [&](const Tensor& t) { return ada.forward(t); });
  const Tensor frozen = gradient(x, dy * (1 - 0.1 * y), [](const Tensor& t) { return layer_norm(t); });
  CHECK(test::distance(dx, frozen) < 1e-13);
  const auto whole = [](const Tensor& t) { return (1 - 0.1 * layer_norm(t)) * layer_norm(t); };
  CHECK(test::distance(dx, gradient(x, dy, whole)) > 1e-2);
}

TEST_CASE("power norm: a forward changes nothing; a backward updates both statistics") {
  Norm norm = in_float64(Norm(3, NormKind::power));
  norm.weight.assign(off_center({3}, 4));
  const Tensor x = off_center({4, 5, 3}), dy = off_center({4, 5, 3}, 2);
  const auto buffers = [&] {
    const auto all = norm.named_buffers();
    return std::pair{all.at(0).second, all.at(1).second};
  };
  const Tensor psi2 = copy_as(buffers().first, DType::float64), z = x * rsqrt(psi2 + 1e-5);
  CHECK(test::distance(norm.forward(x), z * norm.weight) < 1e-14);
  CHECK(buffers().first.values() == psi2.values());
  const auto forward = [&](const Tensor& t) { return norm.forward(t); };
  const Tensor g = dy * norm.weight, dx = gradient(x, dy, forward);
  CHECK(test::distance(dx, g * rsqrt(psi2 + 1e-5)) < 1e-14);  // nu was 0
  CHECK(test::distance(buffers().first, 0.9 * psi2 + 0.1 * mean(square(x), {0, 1})) < 1e-14);
  const Tensor nu = 0.1 * mean(g * z, {0, 1});
  CHECK(test::distance(buffers().second, nu) < 1e-14);
  // The second step subtracts nu·z.
  const Tensor rstd = rsqrt(copy_as(buffers().first, DType::float64) + 1e-5);
  CHECK(test::distance(gradient(x, dy, forward), (g - nu * (x * rstd)) * rstd) < 1e-13);
  for (int i = 0; i < 200; ++i) gradient(x, dy, forward);
  CHECK(test::distance(buffers().first, mean(square(x), {0, 1})) < 1e-8);
  // With settled statistics the exact norm of the batch and that of the running mean agree.
  const Tensor none = zeros({3}, DType::float64);
  CHECK(test::distance(norm.forward(x), power_norm_v(x, norm.weight, none)) < 1e-8);
  norm.eval();
  const auto settled = buffers().second.values();
  const auto report = check_gradients(norm, {x});  // exact for constant statistics
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK(buffers().second.values() == settled);
  CHECK_THROWS_WITH_AS(power_norm(x, none, none, psi2, zeros({2}, DType::float64)),
                       doctest::Contains("power_norm: nu has the shape [2], wanted [3]"), Error);
  CHECK_THROWS_WITH_AS(power_norm(x, none, none, psi2, none, 1.5), doctest::Contains("alpha is 1.5"), Error);
}

TEST_CASE("a decoder with each kind of norm decodes in steps as in a full pass") {
  for (const auto& kind : names_of(NormKind{}).values)
    for (const Residual residual : {Residual::pre, Residual::post}) {
      INFO(kind.first, name_of(residual));
      manual_seed(3);
      Decoder decoder({.block = {.mixer = {.width = 8, .heads = 2, .out_deviation = 0.3},
                                 .norm = kind.second,
                                 .residual = residual},
                       .layers = 2});
      decoder.to(DType::float64);
      const Tensor x = off_center({2, 4, 8}), whole = decoder.forward(x);
      const auto state = decoder.make_state(2, 4);
      for (int64_t t = 0; t < 4; ++t)
        CHECK(test::distance(decoder.forward(slice(x, 1, t, t + 1), {.state = state.get()}),
                             slice(whole, 1, t, t + 1)) < 1e-12);
    }
}
