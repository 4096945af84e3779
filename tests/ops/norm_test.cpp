#include "ops/norm.h"

#include <cmath>
#include <limits>

#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

namespace vitrine::test {
namespace {

using V = std::vector<double>;

/// layer_norm, or rms_norm if `centered` is false, in loops over double.
Tensor loops(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, bool centered) {
  V y = x.values();
  const V w = weight.values(), b = bias.defined() ? bias.values() : V(w.size(), 0);
  const size_t n = w.size();
  for (size_t row = 0; row < y.size(); row += n) {
    double mean = 0, square = 0;
    for (size_t i = 0; centered && i < n; ++i) mean += y[row + i] / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i)
      square += (y[row + i] - mean) * (y[row + i] - mean) / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) y[row + i] = (y[row + i] - mean) / std::sqrt(square + eps) * w[i] + b[i];
  }
  return tensor(y, x.shape(), DType::float64);
}

TEST_CASE(
    "the sum and the norm of add_layer_norm are read by name, not bound in an order that can be mistaken") {
  // The members are private: auto [y, sum] = … does not compile.
  static_assert(!std::is_aggregate_v<AddNorm>);
  const Tensor x = random({2, 3}, 1), residual = random({2, 3}, 2);
  const AddNorm a = add_layer_norm(x, residual);
  CHECK(a.sum().values() == (x + residual).values());
  CHECK(distance(a.y(), layer_norm(x + residual)) < 1e-6);
}

TEST_CASE("layer_norm and rms_norm equal double loops in every dtype") {
  for (DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16})
    for (int64_t n : {1, 5, 64, 1000}) {
      const Tensor x = random({2, 7, n}, 1, dtype, -2, 3), weight = random({n}, 2, dtype),
                   bias = random({n}, 3, dtype);
      CHECK(distance(layer_norm(x, weight, bias), loops(x, weight, bias, 1e-5, true)) <
            rounding_bound(dtype));
      CHECK(distance(rms_norm(x, weight, 1e-3), loops(x, weight, {}, 1e-3, false)) < rounding_bound(dtype));
      CHECK(layer_norm(x, weight, bias).dtype() == dtype);
    }
}

TEST_CASE("a sum and its norm are those of two ops, also where only one of them is used") {
  for (DType dtype : {DType::float64, DType::float32, DType::bfloat16}) {
    const std::vector<Tensor> xs = {random({5, 33}, 1, dtype), random({5, 33}, 2, dtype),
                                    random({33}, 3, dtype), random({33}, 4, dtype)};
    const auto check_equal = [&](const auto& fused, const auto& separate) {
      const auto got = gradients(fused, xs), want = gradients(separate, xs);
      for (size_t i = 0; i < want.size(); ++i)
        CHECK(distance(got[i], want[i], 0.1) < 2 * rounding_bound(dtype));
    };
    check_equal([](const auto& v) { return add_layer_norm(v[0], v[1], v[2], v[3]).y(); },
                [](const auto& v) { return layer_norm(v[0] + v[1], v[2], v[3]); });
    check_equal([](const auto& v) { return add_layer_norm(v[0], v[1], v[2], v[3]).sum() + v[2] * v[3]; },
                [](const auto& v) { return v[0] + v[1] + v[2] * v[3]; });
    check_equal([](const auto& v) { return add_rms_norm(v[0], v[1], v[2]).y() + v[3]; },
                [](const auto& v) { return rms_norm(v[0] + v[1], v[2]) + v[3]; });
  }
  CHECK(add_layer_norm(random({2, 3}, 1, DType::bfloat16), random({2, 3}, 2)).sum().dtype() ==
        promote(DType::bfloat16, random({1}, 1).dtype()));
  CHECK_THROWS_WITH(add_layer_norm(random({2, 3}, 1), random({3}, 2)),
                    "add_layer_norm: x is [2, 3] and residual is [3], wanted one shape");
}

TEST_CASE("what other uses of x send back is added by the norm's backward, once") {
  for (DType dtype : {DType::float64, DType::float32, DType::bfloat16}) {
    const std::vector<Tensor> xs = {random({5, 33}, 1, dtype), random({33}, 2, dtype), random({33}, 3, dtype),
                                    random({5, 33}, 4, dtype)};
    const auto check_same = [&](const auto& norm) {
      const auto used_twice = [&](const auto& v) { return norm(v[0], v[1], v[2]) + v[0] * v[3] + v[0]; };
      // Beside it the op's gradient is another tensor's, which the tape adds.
      const auto apart = [&](const auto& v) { return norm(v[0] + 0.0, v[1], v[2]) + v[0] * v[3] + v[0]; };
      const auto got = gradients(used_twice, xs), want = gradients(apart, xs);
      for (size_t i = 0; i < want.size(); ++i)
        CHECK(distance(got[i], want[i], 0.1) < 2 * rounding_bound(dtype));
    };
    check_same([](const Tensor& x, const Tensor& w, const Tensor& b) { return layer_norm(x, w, b); });
    check_same([](const Tensor& x, const Tensor& w, const Tensor& b) { return rms_norm(x, w) + b; });
  }
}

TEST_CASE("a leaf of 16 bits gathers the gradients of norms in float32, over several backwards") {
  Tensor x = random({5, 33}, 1, DType::bfloat16), c = random({5, 33}, 2, DType::bfloat16);
  x.requires_grad(true);
  const auto pass = [&] {
    Tape tape;
    const Tensor y = rms_norm(x) + layer_norm(x) + x * c;
    tape.backward(y, c);
  };
  pass();
  const Tensor once = clone(x.grad());
  const void* const there = x.grad().raw();
  pass();
  CHECK(x.grad().dtype() == DType::float32);
  CHECK(x.grad().raw() == there);
  CHECK(x.grad().values() == (once + once).values());
}

TEST_CASE("kernels and their gradients equal the definitions") {
  for (DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
    const std::vector<Tensor> xs = {random({9, 33}, 4, dtype), random({33}, 5, dtype),
                                    random({33}, 6, dtype)};
    std::vector<Tensor> exact;
    for (const Tensor& x : xs) exact.push_back(copy_as(x, DType::float64));
    const auto layer = gradients([](const auto& v) { return layer_norm(v[0], v[1], v[2]); }, xs);
    const auto layer_exact =
        gradients([](const auto& v) { return define::layer_norm(v[0], v[1], v[2], 1e-5); }, exact);
    const auto rms = gradients([](const auto& v) { return rms_norm(v[0], v[1]); }, {xs[0], xs[1]});
    const auto rms_exact =
        gradients([](const auto& v) { return define::rms_norm(v[0], v[1], 1e-5); }, {exact[0], exact[1]});
    // The cotangents are rounded to the dtype as well, which counts twice.
    for (size_t i = 0; i < layer.size(); ++i)
      CHECK(distance(layer[i], layer_exact[i], 0.1) < 2 * rounding_bound(dtype));
    for (size_t i = 0; i < rms.size(); ++i)
      CHECK(distance(rms[i], rms_exact[i], 0.1) < 2 * rounding_bound(dtype));
  }
}

TEST_CASE("as many axes are normalized over as weight and bias have") {
  const Tensor x = random({2, 3, 4}, 14), weight = random({3, 4}, 15), bias = random({3, 4}, 16);
  const auto flat = [](const Tensor& t) { return reshape(t, {t.numel() / 12, 12}); };
  const Tensor w = reshape(weight, {12}), b = reshape(bias, {12});
  CHECK(flat(layer_norm(x, weight, bias)).values() == layer_norm(flat(x), w, b).values());
  CHECK(flat(layer_norm(x, {}, bias)).values() == layer_norm(flat(x), {}, b).values());
  CHECK(flat(rms_norm(x, weight)).values() == rms_norm(flat(x), w).values());
  CHECK(rms_norm(x, weight).shape() == x.shape());
}

TEST_CASE("gradients match differences, with and without weight and bias, to the second order") {
  const Tensor x = random({3, 4}, 7), weight = random({4}, 8), bias = random({4}, 9);
  CHECK(gradient_error([](const auto& v) { return layer_norm(v[0], v[1], v[2]); }, {x, weight, bias}) < 1e-7);
  CHECK(gradient_error([](const auto& v) { return layer_norm(v[0]); }, {x}) < 1e-7);
  CHECK(gradient_error([](const auto& v) { return layer_norm(v[0], {}, v[1]); }, {x, bias}) < 1e-7);
  CHECK(gradient_error([](const auto& v) { return rms_norm(v[0], v[1]); }, {x, weight}) < 1e-7);
  CHECK(gradient_error([](const auto& v) { return rms_norm(v[0]); }, {x}) < 1e-7);
  CHECK(gradient_error([](const auto& v) { return l2_normalize(v[0]); }, {x}) < 1e-7);
  CHECK(gradient_error([](const auto& v) { return layer_norm(transpose(v[0]), v[1]); },
                       {transpose(x), weight}) < 1e-7);
}

TEST_CASE("gradients of weight and bias sum over many rows accurately") {
  const Tensor x = random({5000, 17}, 10, DType::float32), weight = random({17}, 11, DType::float32);
  const auto f = [](const std::vector<Tensor>& v) { return layer_norm(v[0], v[1], v[2]); };
  const auto got = gradients(f, {x, weight, zeros({17})});
  const auto want = gradients(
      f, {copy_as(x, DType::float64), copy_as(weight, DType::float64), zeros({17}, DType::float64)});
  for (size_t i = 0; i < 3; ++i) CHECK(distance(got[i], want[i], 0.1) < 1e-6);
}

TEST_CASE("a float32 weight on bfloat16 activations is not rounded") {
  const Tensor x = tensor({1, -1}, {1, 2}, DType::bfloat16), weight = tensor({1.0 + 0x1p-20, 1.0 + 0x1p-20});
  Tape tape;
  const Tensor w = tape.watch(weight), y = layer_norm(x, w, {}, 0);
  CHECK(y.dtype() == DType::bfloat16);
  CHECK(tape.gradient({y}, {w}, {ones_like(y)})[0].values() == V{1, -1});
  // In bfloat16 the weight would be 1, and the first element 1.734375.
  const Tensor longer = tensor({3, -1, -1, -1}, {1, 4}, DType::bfloat16);
  CHECK(layer_norm(longer, full({4}, 1 + 0x1p-8), {}, 0).values()[0] == 1.7421875);
}

TEST_CASE("unit vectors have length 1; a zero row stays zero, with gradient 0") {
  const Tensor x = tensor({3, 4, 0, 0, -2, 0}, {3, 2}, DType::float64);
  CHECK(distance(l2_normalize(x), tensor({0.6, 0.8, 0, 0, -1, 0}, {3, 2}, DType::float64)) < 1e-15);
  const auto dx = gradients([](const auto& v) { return l2_normalize(v[0]); }, {x})[0].values();
  CHECK(V(dx.begin() + 2, dx.begin() + 4) == V{0, 0});
  CHECK(std::isfinite(dx[0]));
}

TEST_CASE("a constant row normalizes to the bias, a huge mean costs no accuracy") {
  CHECK(layer_norm(full({2, 3}, 5)).values() == V(6, 0));
  CHECK(layer_norm(full({1, 3}, 5), {}, tensor({1, 2, 3})).values() == V{1, 2, 3});
  const Tensor x = tensor({4096, 4097, 4098, 4099}, {1, 4});
  CHECK(distance(layer_norm(x), layer_norm(tensor({0, 1, 2, 3}, {1, 4}, DType::float64))) < 1e-6);
}

TEST_CASE("NaN and infinities stay in their row") {
  const V y = layer_norm(tensor({std::nan(""), 1, 1, 2, INFINITY, 1}, {3, 2})).values();
  CHECK(std::isnan(y[0]));
  CHECK(std::isnan(y[1]));
  CHECK(y[2] == doctest::Approx(-1).epsilon(1e-3));
  CHECK(std::isnan(y[4]));
}

TEST_CASE("no rows give no rows; the gradient of the weight is then 0") {
  CHECK(layer_norm(empty({0, 3})).shape() == Shape{0, 3});
  const auto dx = gradients([](const auto& v) { return layer_norm(v[0], v[1]); }, {empty({0, 3}), ones({3})});
  CHECK(dx[1].values() == V{0, 0, 0});
}

TEST_CASE("results do not depend on the number of threads") {
  const Tensor x = random({333, 129}, 12, DType::float32), weight = random({129}, 13, DType::float32);
  CHECK(same_on_any_threads([&] {
    auto all = gradients([](const auto& v) { return layer_norm(v[0], v[1], v[2]); }, {x, weight, weight});
    const auto add = [&all](const Tensor& y, const std::vector<Tensor>& dx) {
      all.push_back(y);
      all.insert(all.end(), dx.begin(), dx.end());
    };
    add(layer_norm(x, weight), gradients([](const auto& v) { return rms_norm(v[0], v[1]); }, {x, weight}));
    const auto sum_and_norm = [](const AddNorm& a) { return concat({a.sum(), a.y()}, 0); };
    const auto layer = [&](const auto& v) { return sum_and_norm(add_layer_norm(v[0], v[1], v[2], v[3])); };
    const auto rms = [&](const auto& v) { return sum_and_norm(add_rms_norm(v[0], v[1], v[2])); };
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      const Tensor y = cast(x, dtype);
      const std::vector<Tensor> xs = {y, y, weight, weight};
      add(layer(xs), gradients(layer, xs));
      add(rms(xs), gradients(rms, {y, y, weight}));
    }
    return all;
  }));
}

TEST_CASE("errors name the argument and the shapes") {
  const Tensor x = empty({2, 3});
  CHECK(error_of([&] { layer_norm(x, empty({2})); }) ==
        "layer_norm: weight has the shape [2], wanted [3], the size of the last axis of x [2, 3]");
  CHECK(error_of([&] {
          layer_norm(x, {}, empty({3, 1}));
        }).starts_with("layer_norm: bias has the shape [3, 1]"));
  CHECK(error_of([&] {
          rms_norm(empty({2, 3, 4}), empty({4, 3}));
        }) ==
        "rms_norm: weight has the shape [4, 3], wanted [3, 4], the sizes of the last axes of x [2, 3, 4]");
  CHECK(error_of([&] {
          layer_norm(x, empty({2, 3}), empty({3}));
        }).starts_with("layer_norm: bias has the shape [3], wanted [2, 3]"));
  CHECK(error_of([&] {
          rms_norm(empty({2, 0}));
        }) == "rms_norm: x has the shape [2, 0], wanted at least one element along its last axis");
  CHECK(error_of([&] { rms_norm(Tensor(1.0)); }).starts_with("rms_norm: x has the shape []"));
  CHECK(error_of([&] { layer_norm(x, {}, {}, -1); }) == "layer_norm: eps is -1, wanted at least 0");
  CHECK(error_of([&] { l2_normalize(empty({2}, DType::int32)); }).starts_with("l2_normalize: x is int32[2]"));
}

}  // namespace
}  // namespace vitrine::test
