#include "ops/sort.h"

#include <algorithm>

#include "core/parallel.h"
#include "core/tensor_kernels.h"
#include "ops/index.h"
#include "ops/kernels.h"
#include "ops/operands.h"

namespace vitrine {
namespace {

/// The first k elements in the requested order. Values are gathered by the indices, which gives
/// them their gradient.
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

void cpu::argsort(Tensor& indices, const Tensor& x, bool descending) {
  const int64_t n = x.size(-1), k = indices.size(-1), rows = k == 0 ? 0 : indices.numel() / k;
  visit_all(x.dtype(), [&](auto type) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
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

}  // namespace vitrine
