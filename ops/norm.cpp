#include "ops/norm.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/cpu/rows.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/kernels.h"
#include "ops/operands.h"
#include "ops/plain.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine {
namespace {

/// The number of last axes that are normalized over: as many as weight and bias have.
int normalized_axes(const Tensor& weight, const Tensor& bias) {
  return std::max({1, weight.defined() ? weight.rank() : 1, bias.defined() ? bias.rank() : 1});
}

void check_tail(const char* op, const char* argument, const Tensor& given, const Tensor& x, int axes) {
  if (!given.defined()) return;
  Shape wanted;
  for (int axis = std::max(0, x.rank() - axes); axis < x.rank(); ++axis) wanted.push_back(x.shape()[axis]);
  check(given.shape() == wanted, "{}: {} has the shape {}, wanted {}, the size{} of the last {} of x {}", op,
        argument, given.shape(), wanted, axes > 1 ? "s" : "", axes > 1 ? "axes" : "axis", x.shape());
}

void check_norm(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  check_floating(op, "x", x);
  check(x.rank() > 0 && x.size(-1) > 0,
        "{}: x has the shape {}, wanted at least one element along its last axis", op, x.shape());
  check(eps >= 0, "{}: eps is {}, wanted at least 0", op, eps);
  const int axes = normalized_axes(weight, bias);
  check_tail(op, "weight", weight, x, axes);
  check_tail(op, "bias", bias, x, axes);
}

/// x with the normalized axes merged into one, as the kernels require.
Tensor merged(const Tensor& x, int axes) { return x.defined() ? flatten(x, -axes) : x; }

/// The vector, or `value` everywhere if it is undefined. As kernels require, it is contiguous and
/// has the dtype of the statistics, so that a float32 weight on bfloat16 activations is not
/// rounded.
Tensor vector_or(const Tensor& vector, double value, const Tensor& x) {
  const DType dtype = accumulation_dtype(x.dtype());
  if (!vector.defined()) return full({x.size(-1)}, value, dtype, x.device());
  return vector.dtype() == dtype ? packed(vector) : copy_as(vector, dtype);
}

Tensor statistic(const Tensor& x) {
  return empty({x.numel() / x.size(-1)}, accumulation_dtype(x.dtype()), x.device());
}

/// The gradient from other uses of x so far, which the norm's kernel adds; undefined if there is
/// none. For a leaf the tape adds: its gradient stays in place, and is float32 if x has 16 bits.
Tensor sum_of_others(const Backward& b, DType dtype, bool leaf) {
  const Tensor sum = b.needs(0) && !leaf ? b.take_sum(0) : Tensor();
  if (!sum.defined()) return sum;
  return sum.dtype() == dtype ? packed(sum) : copy_as(sum, dtype);
}

/// Memory for the gradient of the weight or bias; undefined if it is not needed, and kernels then
/// skip it.
Tensor gradient_of_vector(const Tensor& x, bool wanted) {
  return wanted ? empty({x.size(-1)}, accumulation_dtype(x.dtype()), x.device()) : Tensor();
}

}  // namespace

Tensor define::layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const Tensor z = cast(x, accumulation_dtype(x.dtype()));
  const Tensor centered = z - mean(z, {-1}, KeepAxes::yes);
  Tensor y = centered * rsqrt(mean(square(centered), {-1}, KeepAxes::yes) + eps);
  if (weight.defined()) y = y * weight;
  if (bias.defined()) y = y + bias;
  return cast(y, x.dtype());
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  check_norm("layer_norm", x, weight, bias, eps);
  if (const int axes = normalized_axes(weight, bias); axes > 1)
    return reshape(layer_norm(merged(x, axes), merged(weight, axes), merged(bias, axes), eps), x.shape());
  if (const auto y =
          through_definition({x, weight, bias}, [&] { return define::layer_norm(x, weight, bias, eps); }))
    return *y;
  const Tensor scale = vector_or(weight, 1, x), from = packed(x);
  Tensor y = empty_like(x), mean = statistic(x), rstd = statistic(x);
  VITRINE_RUN(layer_norm, y, mean, rstd, from, scale, vector_or(bias, 0, x), eps);
  return record(
      "layer_norm", {x, weight, bias}, y,
      [x = Saved(from), scale = Saved(scale), mean = Saved(mean), rstd = Saved(rstd),
       leaf = x.requires_grad()](const Backward& b) -> Grads {
        Tensor dx = empty_like(x.get());
        Tensor dweight = gradient_of_vector(x, b.needs(1)), dbias = gradient_of_vector(x, b.needs(2));
        VITRINE_RUN_AS("layer_norm_backward", norm_backward, dx, dweight, dbias, packed(b.dy()),
                       sum_of_others(b, x->dtype(), leaf), x.get(), mean.get(), rstd.get(), scale.get());
        return {dx, dweight, dbias};
      });
}

void plain::layer_norm(Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const int64_t n = x.size(-1);
  for (int64_t row = 0; row < x.numel() / n; ++row) {
    const double* const from = x.data<double>() + row * n;
    const double mean = std::accumulate(from, from + n, 0.0) / static_cast<double>(n);
    double variance = 0;
    for (int64_t i = 0; i < n; ++i) variance += (from[i] - mean) * (from[i] - mean) / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i)
      y.data<double>()[row * n + i] =
          (from[i] - mean) / std::sqrt(variance + eps) * weight.data<double>()[i] + bias.data<double>()[i];
  }
}

/// With x̂ = (x − mean)·rstd, g = dy·weight and averages over the row:
///   dx = rstd·(g − avg(g) − x̂·avg(g·x̂)), dweight = Σ dy·x̂, dbias = Σ dy over the rows.
void plain::layer_norm_backward(Tensor& dx, Tensor& dweight, Tensor& dbias, const Tensor& dy, const Tensor& x,
                                const Tensor& weight, double eps) {
  const int64_t n = x.size(-1);
  const auto count = static_cast<double>(n);
  const double* const w = weight.data<double>();
  std::fill_n(dweight.data<double>(), n, 0);
  std::fill_n(dbias.data<double>(), n, 0);
  for (int64_t row = 0; row < x.numel() / n; ++row) {
    const double *const from = x.data<double>() + row * n, *const up = dy.data<double>() + row * n;
    const double mean = std::accumulate(from, from + n, 0.0) / count;
    double variance = 0, g = 0, gx = 0;
    for (int64_t i = 0; i < n; ++i) variance += (from[i] - mean) * (from[i] - mean) / count;
    const double rstd = 1 / std::sqrt(variance + eps);
    const auto normal = [&](int64_t i) { return (from[i] - mean) * rstd; };
    for (int64_t i = 0; i < n; ++i) {
      g += up[i] * w[i] / count;
      gx += up[i] * w[i] * normal(i) / count;
      dweight.data<double>()[i] += up[i] * normal(i);
      dbias.data<double>()[i] += up[i];
    }
    for (int64_t i = 0; i < n; ++i)
      dx.data<double>()[row * n + i] = rstd * (up[i] * w[i] - g - normal(i) * gx);
  }
}

void cpu::layer_norm(Tensor& y, Tensor& mean, Tensor& rstd, const Tensor& x, const Tensor& weight,
                     const Tensor& bias, double eps) {
  for_each_row("layer_norm", x, [&](auto type, int64_t row, int64_t at, size_t n) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const S* const from = x.data<S>() + at;
    const T m = vecmath::sum(from, n) / static_cast<T>(n);
    const T variance = vecmath::sum_squared_deviation(from, m, n) / static_cast<T>(n);
    const T r = 1 / std::sqrt(variance + static_cast<T>(eps));
    vecmath::normalize(y.data<S>() + at, from, m, r, weight.data<T>(), bias.data<T>(), n);
    mean.data<T>()[row] = m;
    rstd.data<T>()[row] = r;
  });
}

Tensor define::rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  const Tensor z = cast(x, accumulation_dtype(x.dtype()));
  const Tensor y = z * rsqrt(mean(square(z), {-1}, KeepAxes::yes) + eps);
  return cast(weight.defined() ? y * weight : y, x.dtype());
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  check_norm("rms_norm", x, weight, {}, eps);
  if (const int axes = normalized_axes(weight, {}); axes > 1)
    return reshape(rms_norm(merged(x, axes), merged(weight, axes), eps), x.shape());
  if (const auto y = through_definition({x, weight}, [&] { return define::rms_norm(x, weight, eps); }))
    return *y;
  const Tensor scale = vector_or(weight, 1, x), from = packed(x);
  Tensor y = empty_like(x), rstd = statistic(x);
  VITRINE_RUN(rms_norm, y, rstd, from, scale, eps);
  return record("rms_norm", {x, weight}, y,
                [x = Saved(from), scale = Saved(scale), rstd = Saved(rstd),
                 leaf = x.requires_grad()](const Backward& b) -> Grads {
                  Tensor dx = empty_like(x.get()), dweight = gradient_of_vector(x, b.needs(1));
                  Tensor no_bias;
                  VITRINE_RUN_AS("rms_norm_backward", norm_backward, dx, dweight, no_bias, packed(b.dy()),
                                 sum_of_others(b, x->dtype(), leaf), x.get(), Tensor(), rstd.get(),
                                 scale.get());
                  return {dx, dweight};
                });
}

void cpu::rms_norm(Tensor& y, Tensor& rstd, const Tensor& x, const Tensor& weight, double eps) {
  for_each_row("rms_norm", x, [&](auto type, int64_t row, int64_t at, size_t n) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const S* const from = x.data<S>() + at;
    const T r = 1 / std::sqrt(vecmath::sum_of_squares(from, n) / static_cast<T>(n) + static_cast<T>(eps));
    vecmath::normalize<S>(y.data<S>() + at, from, 0, r, weight.data<T>(), nullptr, n);
    rstd.data<T>()[row] = r;
  });
}

/// Gradients of weight and bias are sums over rows. They are summed over chunks of a fixed number
/// of rows first, then over the chunks, in order.
void cpu::norm_backward(Tensor& dx, Tensor& dweight, Tensor& dbias, const Tensor& dy, const Tensor& dsum,
                        const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight) {
  constexpr int64_t kRows = 32;
  const int64_t n = x.size(-1), rows = x.numel() / n, chunks = (rows + kRows - 1) / kRows;
  const auto partial = [&](const Tensor& total) {
    return total.defined() ? zeros({1, chunks, n}, total.dtype()) : Tensor();
  };
  const Tensor dweights = partial(dweight), dbiases = partial(dbias);
  visit_row_type(x.dtype(), "norm_backward", [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    parallel_for(0, chunks, grain_for(kRows * n * 8), [&](int64_t b, int64_t e) {
      for (int64_t row = b * kRows; row < std::min(rows, e * kRows); ++row) {
        const int64_t at = row * n, sums = row / kRows * n;
        NormBackwardRow<S> task;
        task.dx = dx.data<S>() + at;
        task.dweight = dweights.defined() ? dweights.data<T>() + sums : nullptr;
        task.dbias = dbiases.defined() ? dbiases.data<T>() + sums : nullptr;
        task.dy = dy.data<S>() + at;
        task.dsum = dsum.defined() ? dsum.data<S>() + at : nullptr;
        task.x = x.data<S>() + at;
        task.weight = weight.data<T>();
        task.rstd = rstd.data<T>()[row];
        task.centered = mean.defined();
        task.mean = task.centered ? mean.data<T>()[row] : 0;
        norm_backward_row(task, static_cast<size_t>(n));
      }
    });
  });
  for (auto [total, parts] : {std::pair{&dweight, &dweights}, std::pair{&dbias, &dbiases}})
    if (total->defined()) sum(*total, *parts);
}

AddNorm define::add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight,
                               const Tensor& bias, double eps) {
  const Tensor sum = x + residual;
  return {sum, define::layer_norm(sum, weight, bias, eps)};
}

AddNorm define::add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, double eps) {
  const Tensor sum = x + residual;
  return {sum, define::rms_norm(sum, weight, eps)};
}

namespace {

/// Both ops; `definition` is that of the op. An rms_norm has no mean and no bias.
template <class D>
AddNorm add_norm(const char* op, const Tensor& x0, const Tensor& residual0, const Tensor& weight,
                 const Tensor& bias, double eps, bool centered, const D& definition) {
  check_norm(op, x0, weight, bias, eps);
  check_floating(op, "residual", residual0);
  check(x0.shape() == residual0.shape(), "{}: x is {} and residual is {}, wanted one shape", op, x0.shape(),
        residual0.shape());
  check(normalized_axes(weight, bias) == 1, "{}: wanted a weight and bias of one axis", op);
  const DType dtype = promote(x0.dtype(), residual0.dtype());
  const Tensor x = cast(x0, dtype), residual = cast(residual0, dtype);
  if (const auto result =
          through_definition({x, residual, weight, bias}, [&] { return definition(x, residual); }))
    return *result;
  const Tensor scale = vector_or(weight, 1, x), shift = centered ? vector_or(bias, 0, x) : Tensor();
  Tensor sum = empty_like(x), y = empty_like(x), rstd = statistic(x);
  Tensor mean = centered ? statistic(x) : Tensor();
  VITRINE_RUN_AS(op, add_norm, sum, y, mean, rstd, packed(x), packed(residual), scale, shift, eps);
  const auto backward = [sum = Saved(sum), scale = Saved(scale), mean = Saved(mean), rstd = Saved(rstd),
                         op](const Backward& b) -> Grads {
    const Tensor dsum = b.dy(0).defined() ? packed(b.dy(0)) : Tensor();
    if (!b.dy(1).defined()) return {dsum, dsum, Grad(), Grad()};
    Tensor dx = empty_like(sum.get());
    Tensor dweight = gradient_of_vector(sum, b.needs(2)), dbias = gradient_of_vector(sum, b.needs(3));
    VITRINE_RUN_AS(op, norm_backward, dx, dweight, dbias, packed(b.dy(1)), dsum, sum.get(), mean.get(),
                   rstd.get(), scale.get());
    return {dx, dx, dweight, dbias};
  };
  const std::vector<Tensor> results = record_all(op, {x, residual, weight, bias}, {sum, y}, backward);
  return {results[0], results[1]};
}

}  // namespace

AddNorm add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                       double eps) {
  return add_norm("add_layer_norm", x, residual, weight, bias, eps, true,
                  [&](const Tensor& x, const Tensor& residual) {
                    return define::add_layer_norm(x, residual, weight, bias, eps);
                  });
}

AddNorm add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, double eps) {
  return add_norm("add_rms_norm", x, residual, weight, {}, eps, false,
                  [&](const Tensor& x, const Tensor& residual) {
                    return define::add_rms_norm(x, residual, weight, eps);
                  });
}

Tensor l2_normalize(const Tensor& x, double eps) {
  check_norm("l2_normalize", x, {}, {}, eps);
  const Tensor z = cast(x, accumulation_dtype(x.dtype()));
  Tensor length = norm(z, 2, {-1}, KeepAxes::yes);
  // √(length² + eps) is computed as a norm too, so that its squares do not overflow.
  if (eps > 0)
    length = norm(concat({length, full(length.shape(), std::sqrt(eps), z.dtype(), z.device())}, -1), 2, {-1},
                  KeepAxes::yes);
  const Tensor some = not_equal(length, zeros({}, z.dtype(), z.device()));  // true for NaN
  return cast(where(some, z / where(some, length, 1.0), 0.0), x.dtype());
}

}  // namespace vitrine
