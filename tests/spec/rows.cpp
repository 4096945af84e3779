// The spec rows of the library's own operations.
#include <algorithm>
#include <cmath>

#include "core/adjoint.h"
#include "core/creation.h"
#include "core/random.h"
#include "core/recompute.h"
#include "ops/activation.h"
#include "ops/dropout.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/power_norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/sort.h"
#include "ops/toeplitz.h"
#include "ops/view.h"
#include "tests/spec/attention_rows.h"
#include "tests/spec/convolution_rows.h"
#include "tests/spec/ctc_rows.h"
#include "tests/spec/recurrent_rows.h"
#include "tests/spec/scan_rows.h"
#include "tests/spec/spec.h"

namespace vitrine::spec {
namespace {

using Xs = const std::vector<Tensor>&;

/// A row for a function of one tensor. Samples: [3, 5], a vector whose length no block size
/// divides, and an empty tensor.
Spec unary(std::string name, Tensor (*f)(const Tensor&), double low = -2, double high = 2) {
  return {std::move(name),
          [f](Xs x) { return f(x[0]); },
          {{{{3, 5}, low, high}}, {{{37}, low, high}}, {{{0, 5}, low, high}}}};
}

/// Two tensors of equal, of broadcast and of empty shapes. The second has its own range.
Spec binary(std::string name, Tensor (*f)(const Tensor&, const Tensor&), double low = -2, double high = 2,
            double low2 = -2, double high2 = 2) {
  return {std::move(name),
          [f](Xs x) { return f(x[0], x[1]); },
          {{{{3, 5}, low, high}, {{3, 5}, low2, high2}},
           {{{3, 1, 5}, low, high}, {{4, 1}, low2, high2}},
           {{{}, low, high}, {{7}, low2, high2}},
           {{{3, 0}, low, high}, {{3, 1}, low2, high2}}}};
}

Spec on(std::string name, Shape shape, Call call, double low = -2, double high = 2) {
  return {std::move(name), std::move(call), {{{std::move(shape), low, high}}}};
}

/// A function with kinks: samples from both sides of the first kink, and from beyond the second.
Spec kinked(std::string name, const Call& call, double kink = 0, double reach = 2, double kink2 = -INFINITY) {
  std::vector<std::vector<Input>> samples = {{{{3, 5}, kink + 0.1, kink + reach}},
                                             {{{37}, std::max(kink2 + 0.1, kink - reach), kink - 0.1}}};
  if (std::isfinite(kink2)) samples.push_back({{{3, 5}, kink2 - reach, kink2 - 0.1}});
  return {std::move(name), call, std::move(samples)};
}

Tensor indices(std::initializer_list<int64_t> values, const Shape& shape, Device device = Device::cpu) {
  return index_tensor(std::span(values.begin(), values.size()), shape, device);
}

/// With nu = 0 the gradient of PowerNorm is exact for a constant psi2.
Tensor power_norm_row(Xs x) {
  const DType wide = accumulation_dtype(x[0].dtype());
  const Shape channels = {x[0].size(-1)};
  const Tensor psi2 = full(channels, 0.7, wide, x[0].device()), nu = zeros(channels, wide, x[0].device());
  return power_norm(x[0], x[1], x[2], psi2, nu);
}

std::vector<Spec> elementwise_rows() {
  std::vector<Spec> r = {
      unary("neg", neg),
      kinked("abs", [](Xs x) { return abs(x[0]); }),
      unary("square", square),
      unary("reciprocal", reciprocal, 0.5, 3),
      unary("sqrt", sqrt, 0.3, 3),
      unary("rsqrt", rsqrt, 0.3, 3),
      unary("exp", exp),
      unary("expm1", expm1),
      unary("expm1", expm1, -8, -3),
      unary("log", log, 0.3, 3),
      unary("log1p", log1p, -0.6, 2),
      unary("sin", sin, -5, 5),
      unary("cos", cos, -5, 5),
      unary("tanh", tanh),
      unary("erf", erf),
      unary("sigmoid", sigmoid, -4, 4),
      kinked("relu", [](Xs x) { return relu(x[0]); }),
      unary("gelu", gelu, -3, 3),
      unary("gelu_tanh", gelu_tanh, -3, 3),
      unary("silu", silu, -4, 4),
      on("swiglu", {3, 8}, [](Xs x) { return swiglu(x[0]); }),
      kinked(
          "softplus", [](Xs x) { return softplus(x[0]); }, 0, 4),
      kinked(
          "softsign", [](Xs x) { return softsign(x[0]); }, 0, 3),
      unary("hardswish", hardswish, -2.9, 2.9),
      kinked(
          "hardswish", [](Xs x) { return hardswish(x[0]); }, 3, 2, -3),
      kinked(
          "mish", [](Xs x) { return mish(x[0]); }, 0, 3),
      kinked("leaky_relu", [](Xs x) { return leaky_relu(x[0], 0.1); }),
      kinked("elu", [](Xs x) { return elu(x[0], 1.3); }),
      on(
          "elu", {3, 5}, [](Xs x) { return elu(x[0], 1.3); }, -8, -3),
      kinked("elu_plus_one", [](Xs x) { return elu_plus_one(x[0]); }),
      on(
          "elu_plus_one", {3, 5}, [](Xs x) { return elu_plus_one(x[0]); }, -30, -3),
      kinked(
          "clamp", [](Xs x) { return clamp(x[0], -3, 1); }, 1, 2, -3),
      on("cast", {3, 5},
         [](Xs x) { return cast(x[0], x[0].device().is_cpu() ? DType::dual64 : DType::float64); }),
      on("add_scalar", {3, 5}, [](Xs x) { return x[0] + 1.5; }),
      on("mul_scalar", {3, 5}, [](Xs x) { return x[0] * -1.5; }),
      binary("add", add),
      binary("sub", sub),
      binary("mul", mul),
      binary("div", div, -2, 2, 0.5, 2),
      binary("pow", pow, 0.3, 2, -2, 2),
      {"maximum",
       [](Xs x) { return maximum(x[0], x[1]); },
       {{{{3, 5}, -2, -0.1}, {{3, 5}, 0.1, 2}}, {{{3, 5}, 0.1, 2}, {{5}, -2, -0.1}}}},
      {"minimum",
       [](Xs x) { return minimum(x[0], x[1]); },
       {{{{3, 5}, -2, -0.1}, {{3, 5}, 0.1, 2}}, {{{3, 5}, 0.1, 2}, {{5}, -2, -0.1}}}},
      {"where",
       [](Xs x) {
         return where(tensor({1, 0, 1, 0, 0}, DType::boolean, x[0].device()), x[0], x[1]);
       },
       {{{{3, 5}}, {{3, 5}}}, {{{3, 5}}, {{1}}}}},
  };
  for (Spec& s : r)
    if (s.name == "pow") {
      s.float32_units = 24;
      s.bfloat16_units = s.float16_units = 2;
      s.reason = "the gradient is a product of three rounded factors, one of them a rounded power";
    }
  return r;
}

std::vector<Spec> shape_rows() {
  return {
      on("reshape", {2, 3, 4},
         [](Xs x) {
           return reshape(x[0], {4, -1});
         }),
      on("permute", {2, 3, 4},
         [](Xs x) {
           return permute(x[0], {2, 0, 1});
         }),
      on("transpose", {2, 3, 4}, [](Xs x) { return transpose(x[0], 0, 2); }),
      on("squeeze", {3, 1, 4}, [](Xs x) { return squeeze(x[0], {1}); }),
      on("unsqueeze", {3, 4}, [](Xs x) { return unsqueeze(x[0], 1); }),
      on("flatten", {2, 3, 4}, [](Xs x) { return flatten(x[0], 1); }),
      on("split", {3, 7},
         [](Xs x) {
           const auto parts = split(x[0], std::vector<int64_t>{2, 5}, 1);
           return sum(parts[0], {1}) * sum(parts[1], {1});
         }),
      on("expand", {3, 1},
         [](Xs x) {
           return expand(x[0], {2, 3, 4});
         }),
      on("slice", {7, 5}, [](Xs x) { return slice(x[0], 0, 1, 6, 2); }),
      on("slice", {7, 5}, [](Xs x) { return flip(x[0], {1}); }),
      on("select", {3, 4}, [](Xs x) { return select(x[0], 1, -2); }),
      on("diagonal", {3, 4}, [](Xs x) { return diagonal(x[0], 1); }),
      on("toeplitz", {2, 7}, [](Xs x) { return toeplitz(x[0], 3); }),
      on("sum_diagonals", {2, 3, 5}, [](Xs x) { return sum_diagonals(x[0]); }),
      on("sum_diagonals", {4, 1}, [](Xs x) { return sum_diagonals(x[0]); }),
      {"recompute", [](Xs x) { return recompute([&] { return tanh(x[0] * x[1]); }); }, {{{{3, 4}}, {{4}}}}},
      on("clone", {3, 4}, [](Xs x) { return clone(transpose(x[0])); }),
      {"concat",
       [](Xs x) {
         return concat({x[0], x[1]}, 1);
       },
       {{{{3, 2}}, {{3, 4}}}}},
      {"stack",
       [](Xs x) {
         return stack({x[0], x[1]}, 1);
       },
       {{{{3, 2}}, {{3, 2}}}}},
      on("pad", {3, 4},
         [](Xs x) {
           return pad(x[0], {1, 0}, {2, 3});
         }),
      on("pad_reflect", {4, 4},
         [](Xs x) {
           return pad(x[0], {1, 2}, {2, 1}, PadMode::reflect);
         }),
      on("pad_edge", {3, 4},
         [](Xs x) {
           return pad(x[0], {1, 2}, {0, 3}, PadMode::edge);
         }),
      on("pad_wrap", {4, 4},
         [](Xs x) {
           return pad(x[0], {1, 2}, {2, 1}, PadMode::wrap);
         }),
      on("tile", {3, 2},
         [](Xs x) {
           return tile(x[0], {2, 3});
         }),
      on("repeat", {3, 2}, [](Xs x) { return repeat(x[0], 3, 0); }),
      on("tril", {3, 4}, [](Xs x) { return tril(x[0], 1); }),
      on("triu", {3, 4}, [](Xs x) { return triu(x[0]); }),
  };
}

std::vector<Spec> reduction_rows() {
  return {
      on("sum", {3, 5}, [](Xs x) { return sum(x[0]); }),
      on("sum", {3, 4, 5},
         [](Xs x) {
           return sum(x[0], {0, 2});
         }),
      on("sum", {37, 3}, [](Xs x) { return sum(x[0], {0}); }),
      on("sum", {0, 3}, [](Xs x) { return sum(x[0], {0}); }),
      on("mean", {3, 4, 5}, [](Xs x) { return mean(x[0], {1}, KeepAxes::yes); }),
      on(
          "prod", {3, 4}, [](Xs x) { return prod(x[0], {1}); }, 0.5, 2),
      {"max", [](Xs x) { return max(x[0], {1}); }, {{{{3, 5}, -2, 2, true}}}},
      {"min", [](Xs x) { return min(x[0], {0}); }, {{{{3, 5}, -2, 2, true}}}},
      on("var", {3, 5}, [](Xs x) { return var(x[0], {1}, 1); }),
      on("std", {3, 5}, [](Xs x) { return std(x[0], {1}); }),
      on("norm", {3, 5}, [](Xs x) { return norm(x[0], 2, {1}); }),
      on(
          "norm", {3, 5}, [](Xs x) { return norm(x[0], 3, {1}); }, 0.3, 2),
      on("cumsum", {3, 5}, [](Xs x) { return cumsum(x[0], 1); }),
      on("cumsum", {3, 5}, [](Xs x) { return cumsum(x[0], 0, true, true); }),
  };
}

std::vector<Spec> index_rows() {
  return {
      on("gather", {3, 5},
         [](Xs x) {
           return gather(x[0], 1, indices({0, 4, 4, 1, 2, -1}, {3, 2}, x[0].device()));
         }),
      {"scatter_add",
       [](Xs x) {
         return scatter_add(x[0], 1, indices({0, 4, 4, 1, 2, 2}, {3, 2}, x[0].device()), x[1]);
       },
       {{{{3, 5}}, {{3, 2}}}}},
      on("index_select", {4, 5},
         [](Xs x) {
           return index_select(x[0], 0, indices({3, 0, 3}, {3}, x[0].device()));
         }),
      on("embedding", {6, 4},
         [](Xs x) {
           return embedding(x[0], indices({5, 0, 5, 2}, {2, 2}, x[0].device()));
         }),
      {"sort", [](Xs x) { return sort(x[0], 1).values; }, {{{{3, 7}, -2, 2, true}}}},
      {"topk", [](Xs x) { return topk(x[0], 3, 1).values; }, {{{{3, 7}, -2, 2, true}}}},
  };
}

/// The ops with which a recorded backward adds up gradients of parts.
std::vector<Spec> adjoint_rows() {
  const Region columns{{3, 2}, {5, 1}, 2};  // the third and the fourth of [3, 5]
  const auto some_rows = [](const Tensor& x) { return indices({3, 0, 3}, {3}, x.device()); };
  return {
      on("region", {3, 5}, [=](Xs x) { return adjoint::region(x[0], columns); }),
      on("embed", {3, 2},
         [=](Xs x) {
           return adjoint::embed(x[0], columns, {3, 5});
         }),
      on("take_rows", {4, 5}, [=](Xs x) { return adjoint::take_rows(x[0], some_rows(x[0])); }),
      on("put_rows", {3, 5},
         [=](Xs x) {
           return adjoint::put_rows(x[0], some_rows(x[0]), {4, 5});
         }),
  };
}

std::vector<Spec> kernel_rows() {
  const Tensor targets = indices({1, 4, -100, 0}, {4});
  CrossEntropyOptions smooth;
  smooth.label_smoothing = 0.1;
  smooth.class_weights = tensor({1, 2, 0.5, 1, 3}, DType::float64);
  return {
      {"matmul",
       [](Xs x) { return matmul(x[0], x[1]); },
       {{{{3, 4}}, {{4, 5}}},
        {{{2, 3, 4}}, {{4, 5}}},
        {{{2, 1, 3, 4}}, {{5, 4, 2}}},
        {{{4}}, {{4, 3}}},
        {{{33, 17}}, {{17, 31}}},
        {{{0, 4}}, {{4, 5}}},
        {{{3, 0}}, {{0, 5}}}}},
      {"matmul", [](Xs x) { return matmul(x[0], transpose(x[1])); }, {{{{3, 4}}, {{5, 4}}}}},
      {"einsum",
       [](Xs x) { return einsum("bhid,bhjd->hbij", x); },
       {{{{2, 3, 4, 5}}, {{2, 3, 2, 5}}}, {{{1, 3, 4, 5}}, {{2, 1, 2, 5}}}}},
      {"einsum",
       [](Xs x) { return einsum("...ij,...j", x); },
       {{{{2, 3, 4}}, {{4}}}, {{{3, 4}}, {{2, 1, 4}}}}},
      {"einsum", [](Xs x) { return einsum("iji,kj->ik", x); }, {{{{3, 4, 3}}, {{5, 4}}}}},
      {"einsum", [](Xs x) { return einsum("i,ij,ik->kij", x); }, {{{{3}}, {{3, 4}}, {{3, 2}}}}},
      on("einsum", {3, 4, 3}, [](Xs x) { return einsum("iji->ji", x); }),
      {"linear",
       [](Xs x) { return linear(x[0], x[1], x[2]); },
       {{{{2, 3, 4}}, {{5, 4}}, {{5}}}, {{{1, 4}}, {{6, 4}}, {{6}}}, {{{0, 4}}, {{6, 4}}, {{6}}}}},
      {"linear_gelu_tanh",
       [](Xs x) { return linear_gelu_tanh(x[0], x[1], x[2]); },
       {{{{2, 3, 4}}, {{5, 4}}, {{5}}}, {{{1, 4}}, {{6, 4}}, {{6}}}, {{{0, 4}}, {{6, 4}}, {{6}}}}},
      {"linear_gelu_tanh", [](Xs x) { return linear_gelu_tanh(x[0], x[1]); }, {{{{3, 4}}, {{5, 4}}}}},
      on("softmax", {3, 5}, [](Xs x) { return softmax(x[0]); }),
      on("softmax", {0, 5}, [](Xs x) { return softmax(x[0]); }),
      on("softmax", {3, 5, 2}, [](Xs x) { return softmax(x[0], 1); }),
      on("log_softmax", {3, 5}, [](Xs x) { return log_softmax(x[0]); }),
      on("log_softmax", {0, 5}, [](Xs x) { return log_softmax(x[0]); }),
      on("log_sum_exp", {3, 5}, [](Xs x) { return log_sum_exp(x[0]); }),
      on("log_sum_exp", {3, 4, 2},
         [](Xs x) {
           return log_sum_exp(x[0], {0, 2}, KeepAxes::yes);
         }),
      on("log_sum_exp", {0, 5}, [](Xs x) { return log_sum_exp(x[0]); }),
      {"layer_norm",
       [](Xs x) { return layer_norm(x[0], x[1], x[2]); },
       {{{{3, 8}}, {{8}, 0.5, 2}, {{8}}}, {{{0, 8}}, {{8}, 0.5, 2}, {{8}}}}},
      {"layer_norm",
       [](Xs x) { return layer_norm(x[0], x[1], x[2]); },
       {{{{3, 2, 4}}, {{2, 4}, 0.5, 2}, {{2, 4}}}}},
      {"rms_norm", [](Xs x) { return rms_norm(x[0], x[1]); }, {{{{3, 2, 4}}, {{2, 4}, 0.5, 2}}}},
      on("layer_norm", {3, 37}, [](Xs x) { return layer_norm(x[0]); }),
      on("layer_norm", {0, 37}, [](Xs x) { return layer_norm(x[0]); }),
      {"rms_norm",
       [](Xs x) { return rms_norm(x[0], x[1]); },
       {{{{3, 8}}, {{8}, 0.5, 2}}, {{{0, 8}}, {{8}, 0.5, 2}}}},
      {"power_norm", power_norm_row, {{{{3, 2, 8}}, {{8}, 0.5, 2}, {{8}}}, {{{0, 8}}, {{8}, 0.5, 2}, {{8}}}}},
      {"power_norm_v",
       [](Xs x) { return power_norm_v(x[0], x[1], x[2]); },
       {{{{3, 2, 8}}, {{8}, 0.5, 2}, {{8}}}}},
      {"add_layer_norm",
       [](Xs x) {
         const AddNorm a = add_layer_norm(x[0], x[1], x[2], x[3]);
         return concat({a.sum(), a.y()}, 0);
       },
       {{{{3, 8}}, {{3, 8}}, {{8}, 0.5, 2}, {{8}}}, {{{2, 37}}, {{2, 37}}, {{37}, 0.5, 2}, {{37}}}}},
      {"add_rms_norm",
       [](Xs x) {
         const AddNorm a = add_rms_norm(x[0], x[1], x[2]);
         return concat({a.sum(), a.y()}, 0);
       },
       {{{{3, 8}}, {{3, 8}}, {{8}, 0.5, 2}}}},
      on("l2_normalize", {3, 8}, [](Xs x) { return l2_normalize(x[0]); }),
      on("cross_entropy", {4, 5},
         [targets](Xs x) { return cross_entropy(x[0], to(targets, x[0].device())); }),
      on("cross_entropy", {4, 5},
         [targets, smooth](Xs x) {
           CrossEntropyOptions o = smooth;
           o.class_weights = to(cast(smooth.class_weights, x[0].dtype()), x[0].device());
           return cross_entropy(x[0], to(targets, x[0].device()), o);
         }),
      on("nll_loss", {4, 5}, [targets](Xs x) { return nll_loss(x[0], to(targets, x[0].device())); }),
      {"mse_loss", [](Xs x) { return mse_loss(x[0], x[1]); }, {{{{3, 4}}, {{3, 4}}}}},
      on(
          "binary_cross_entropy", {5},
          [](Xs x) {
            const Tensor shares = tensor({0, 1, 0.25, 1, 0}, x[0].dtype(), x[0].device());
            return binary_cross_entropy(x[0], shares);
          },
          -4, 4),
      on("dropout", {5, 9},
         [](Xs x) {
           Generator generator(5);
           return dropout(x[0], 0.3, generator);
         }),
  };
}

}  // namespace

const std::vector<Spec>& rows() {
  static const std::vector<Spec> all = [] {
    std::vector<Spec> result;
    for (auto family :
         {elementwise_rows, shape_rows, reduction_rows, index_rows, adjoint_rows, kernel_rows, rotary_rows,
          additive_scores_rows, attention_rows, recurrent_rows, convolution_rows, scan_rows, ctc_rows})
      for (Spec& s : family()) result.push_back(std::move(s));
    for (Spec& s : result)
      for (const char* name :
           {"pow", "layer_norm", "rms_norm", "add_layer_norm", "add_rms_norm", "power_norm", "power_norm_v"})
        if (s.name == name) s.largest = 1e10;  // powers of larger numbers overflow in float32
    for (Spec& s : result)
      for (const char* name :
           {"pad_reflect", "pad_edge", "pad_wrap",     "swiglu",   "transpose", "squeeze",
            "unsqueeze",   "flatten",  "stack",        "tile",     "repeat",    "tril",
            "triu",        "mean",     "prod",         "var",      "std",       "sort",
            "topk",        "einsum",   "l2_normalize", "nll_loss", "mse_loss",  "binary_cross_entropy",
            "power_norm_v"})
        if (s.name == name) s.composite = true;
    return result;
  }();
  return all;
}

}  // namespace vitrine::spec
