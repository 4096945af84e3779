// The softmax family over rows from one element to a million: each element of values and gradients
// is the float64 result, up to the roundings that the kernels must make.
#include "ops/softmax.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "tests/cuda/device.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using test::has_gpu;

namespace {

using Numbers = std::vector<double>;

struct Result {
  Numbers y, dx;
};

enum class Op { softmax, log_softmax, log_sum_exp };

Tensor apply(Op op, const Tensor& x) {
  switch (op) {
    case Op::softmax: return softmax(x);
    case Op::log_softmax: return log_softmax(x);
    default: return log_sum_exp(x, {-1});
  }
}

Result run(Op op, const Tensor& input, const Tensor& dy, DType dtype, Device device) {
  const auto moved = [&](const Tensor& t) { return to(copy_as(t, dtype), device); };
  Tape tape;
  const Tensor x = tape.watch(moved(input));
  const Tensor y = apply(op, x);
  return {y.values(), tape.gradient({y}, {x}, {moved(dy)})[0].values()};
}

/// What rounding `exact` to the nearest number of a dtype may change: half the distance of its
/// neighbours.
double rounding(DType dtype, double exact) {
  if (exact == 0) return 0;
  const double least = dtype == DType::float16 ? -14 : dtype == DType::float64 ? -1022 : -126;
  return 0.5 * epsilon(dtype) * std::exp2(std::max(std::floor(std::log2(std::abs(exact))), least));
}

double largest(const Numbers& x) {
  double most = 0;
  for (double v : x) most = std::max(most, std::abs(v));
  return most;
}

/// The largest error of an element, in units of what it may be.
double worst(const Numbers& got, const Numbers& want, const Numbers& allowed) {
  double share = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(got[i] - want[i]);
    if (error != 0) share = std::isnan(error) ? INFINITY : std::max(share, error / allowed[i]);
  }
  return share;
}

/// Each result is rounded to its dtype once; what is computed before, in float32 or float64, has
/// `wide` of its own. A backward reads y as it was rounded: p of softmax by half a unit, and e^y of
/// log_softmax by |y| times as much.
Result allowances(Op op, DType dtype, const Result& exact, const Numbers& dy, int64_t n) {
  const double unit = 0.5 * epsilon(dtype),
               wide = 16 * epsilon(dtype == DType::float64 ? dtype : DType::float32);
  const double most_y = largest(exact.y), most_dy = largest(dy);
  Result allowed;
  for (const double y : exact.y)
    allowed.y.push_back(rounding(dtype, y) + wide * (op == Op::softmax ? std::abs(y) : most_y));
  // Of a row: Σ dy, Σ |dy|, and what rounding p takes from Σ p·dy
  double sum = 0, sizes = 0, lost = 0;
  for (size_t i = 0; i < exact.dx.size(); ++i) {
    const double dx = exact.dx[i];
    if (op != Op::log_sum_exp && static_cast<int64_t>(i) % n == 0) {
      sum = sizes = lost = 0;
      for (size_t j = i; j < i + static_cast<size_t>(n); ++j)
        sum += dy[j], sizes += std::abs(dy[j]), lost += rounding(dtype, exact.y[j]) * std::abs(dy[j]);
    }
    double more = wide * std::abs(dx);
    if (op == Op::softmax) {
      const double p = exact.y[i];
      more += 2 * rounding(dtype, p) * most_dy + p * (lost + 3 * wide * most_dy);
    } else if (op == Op::log_softmax) {
      const double p = std::exp(exact.y[i]);
      more += p * (std::abs(sum) * std::abs(exact.y[i]) * unit + wide * sizes) + wide * std::abs(dy[i]);
    }
    allowed.dx.push_back(rounding(dtype, dx) + more);
  }
  return allowed;
}

}  // namespace

TEST_CASE("softmax, log_softmax and log_sum_exp of rows of any length: every element, forward and backward") {
  if (!has_gpu()) return;
  for (const Op op : {Op::softmax, Op::log_softmax, Op::log_sum_exp})
    for (const int64_t n : {1, 31, 33, 128, 129, 1000, 5000, 1000000})
      for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
#if defined(VITRINE_SANITIZED) || defined(VITRINE_KERNELS_TRACED)
        if (n > 5000 && dtype != DType::float32) continue;
#endif
        INFO("op ", static_cast<int>(op), " of rows of ", n, " in ", name(dtype));
        Generator g(8);
        const Tensor x = randn({n <= 5000 ? 3 : 1, n}, dtype, Device::cpu, 0, 3, g);
        const Tensor dy = copy_as(spec::draw_cotangent(copy_as(apply(op, x), DType::float64), 8), dtype);
        const Result want = run(op, x, dy, DType::float64, Device::cpu),
                     got = run(op, x, dy, dtype, Device::cuda);
        const Result allowed = allowances(op, dtype, want, dy.values(), n);
        CHECK(worst(got.y, want.y, allowed.y) <= 1);
        CHECK(worst(got.dx, want.dx, allowed.dx) <= 1);
        test::in_any_order([&] {
          const Result again = run(op, x, dy, dtype, Device::cuda);
          CHECK(got.y == again.y);
          CHECK(got.dx == again.dx);
        });
      }
}

TEST_CASE("rows with infinities: hidden elements have no share, equal ones have equal shares") {
  if (!has_gpu()) return;
  const double infinity = INFINITY;
  const Tensor x = tensor({-infinity, -infinity, 0, -infinity, 1, 1}, {3, 2});
  CHECK(softmax(to(x, Device::cuda)).values() == Numbers{0, 0, 1, 0, 0.5, 0.5});
}
