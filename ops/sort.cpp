#include "ops/sort.h"

#include <algorithm>
#include <cmath>

#include "core/kernels.h"
#include "core/parallel.h"
#include "ops/index.h"
#include "ops/kernel_op.h"
#include "ops/kernels.h"

namespace vitrine {
namespace {

/// The first k in the order asked for. Values are gathered by the indices, and so get their gradient.
Sorted ordered(const char* op, const Tensor& x, int64_t axis, int64_t k, bool descending) {
  Tensor indices;
  {
    const Tape::Pause pause;
    const Tensor from = packed(move_axis(x, axis, -1));
    Shape shape = from.shape();
    shape.back() = k;
    indices = empty(shape, DType::int64, x.device());
    VITRINE_RUN(argsort, indices, from, descending);
    indices = packed(move_axis(indices, -1, axis));
  }
  return {gather(x, axis, indices), record_cut(op, x, indices)};
}

}  // namespace

Sorted sort(const Tensor& x, int64_t axis, bool descending) {
  const int at = check_axis("sort", x.shape(), axis);
  return ordered("sort", x, at, x.size(at), descending);
}

Sorted topk(const Tensor& x, int64_t k, int64_t axis, bool largest) {
  const int at = check_axis("topk", x.shape(), axis);
  check(k >= 0 && k <= x.size(at), "topk: k is {}, wanted 0 to {}, the size of axis {} of {}", k, x.size(at),
        at, x.shape());
  return ordered("topk", x, at, k, largest);
}

namespace {

/// One draw: the first index at which the running sum exceeds u·total.
int64_t draw_one(const double* weights, int64_t n, double total, double u) {
  double sum = 0;
  int64_t last = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (weights[i] == 0) continue;
    last = i;  // of rounding sums the last possible one catches what is left
    if ((sum += weights[i]) > u * total) break;
  }
  return last;
}

/// `count` draws without replacement: the indices of the smallest −log(u)/w. The first of several exponential
/// clocks of rates w to ring is i with probability wᵢ/Σw, and the others are as if just started. Efraimidis
/// and Spirakis 2006.
std::vector<int64_t> draw_different(const double* weights, int64_t n, int64_t count, Generator& generator) {
  std::vector<std::pair<double, int64_t>> clocks;
  for (int64_t i = 0; i < n; ++i) {
    const double u = 1 - generator.next_uniform();  // (0, 1]
    if (weights[i] > 0) clocks.emplace_back(-std::log(u) / weights[i], i);
  }
  std::partial_sort(clocks.begin(), clocks.begin() + count, clocks.end());
  std::vector<int64_t> drawn;
  for (int64_t i = 0; i < count; ++i) drawn.push_back(clocks[static_cast<size_t>(i)].second);
  return drawn;
}

}  // namespace

Tensor multinomial(const Tensor& weights, int64_t count, bool replacement, Generator& generator) {
  check(weights.rank() >= 1, "multinomial: weights is a scalar, wanted [..., V]");
  check(count >= 0, "multinomial: count is {}, wanted at least 0", count);
  const Tensor rows = copy_as(copy_to(weights, Device::cpu), DType::float64);
  const int64_t n = weights.size(-1);
  Shape shape = weights.shape();
  shape.back() = count;
  std::vector<int64_t> drawn;
  for (int64_t row = 0; row < (n == 0 ? 0 : rows.numel() / n); ++row) {
    const double* const w = rows.data<double>() + row * n;
    double total = 0;
    int64_t possible = 0;
    for (int64_t i = 0; i < n; ++i) {
      check(w[i] >= 0 && std::isfinite(w[i]),
            "multinomial: weight {} of row {} is {}, wanted a finite number of at least 0", i, row, w[i]);
      total += w[i];
      possible += w[i] > 0;
    }
    check(possible >= (replacement ? std::min<int64_t>(count, 1) : count),
          "multinomial: row {} has {} weights above 0, too few for {} draws {} replacement", row, possible,
          count, replacement ? "with" : "without");
    if (replacement) {
      for (int64_t i = 0; i < count; ++i) drawn.push_back(draw_one(w, n, total, generator.next_uniform()));
    } else {
      const auto different = draw_different(w, n, count, generator);
      drawn.insert(drawn.end(), different.begin(), different.end());
    }
  }
  check(static_cast<int64_t>(drawn.size()) == numel(shape),
        "multinomial: weights has the shape {}: there is nothing to draw from", weights.shape());
  return record_cut("multinomial", weights, index_tensor(drawn, shape, weights.device()));
}

namespace cpu {

void argsort(Tensor& indices, const Tensor& x, bool descending) {
  const int64_t n = x.size(-1), k = indices.size(-1), rows = k == 0 ? 0 : indices.numel() / k;
  visit_all(x.dtype(), [&](auto type) {
    using S = typename decltype(type)::type;
    using T = Wide<S>;
    parallel_for(0, rows, grain_for(16 * n), [&](int64_t b, int64_t e) {
      std::vector<std::pair<T, int64_t>> order(static_cast<size_t>(n));
      for (int64_t row = b; row < e; ++row) {
        for (int64_t i = 0; i < n; ++i)
          order[static_cast<size_t>(i)] = {static_cast<T>(x.data<S>()[row * n + i]), i};
        const auto before = [descending](const auto& a, const auto& b) {
          const bool a_is_nan = a.first != a.first, b_is_nan = b.first != b.first;
          if (a_is_nan != b_is_nan) return b_is_nan;
          if (a_is_nan || a.first == b.first) return a.second < b.second;
          return descending ? a.first > b.first : a.first < b.first;
        };
        std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
        for (int64_t i = 0; i < k; ++i)
          indices.data<int64_t>()[row * k + i] = order[static_cast<size_t>(i)].second;
      }
    });
  });
}

}  // namespace cpu
}  // namespace vitrine
