// Largest and smallest elements, their positions, and the reductions any and all. Declared in
// ops/reduce.h.
#include <numeric>

#include "ops/cpu/rows.h"
#include "ops/elementwise.h"
#include "ops/kernels.h"
#include "ops/reduce_axes.h"

namespace vitrine {
namespace {

template <class Run>
Tensor extreme(const char* op, const Tensor& x, const Axes& axes, KeepAxes keep, Run run) {
  const auto sorted = check_axes(op, x.shape(), axes);
  reduced_count(op, x.shape(), sorted);
  const Tensor kept = reduce_axes(x, sorted, x.dtype(), x.dtype(), run);
  const Shape shape = reduced_shape(x.shape(), sorted, keep);
  const Tensor y = kept.alias(shape, contiguous_strides(shape));
  return record(op, {x}, y, [x = Saved(x), kept = Saved(kept), sorted](const Tensor& dy) -> Grads {
    Tensor share;  // 1/k at each of k equal extremes; a constant
    {
      const Tape::Pause pause;
      // float16 counts to 65,504
      const Tensor chosen = cast(logical_or(equal(x, kept), is_nan(x)), accumulation_dtype(x->dtype()));
      share = cast(chosen / sum(chosen, {sorted.begin(), sorted.end()}, KeepAxes::yes), x->dtype());
    }
    return {reshape(dy, kept->shape()) * share};
  });
}

}  // namespace

namespace cpu {
namespace {

template <class S>
bool is_nan_element(const S& x) {
  return x != x;
}

/// True if y replaces x: the first extreme stays, and so does the first NaN.
template <bool kMax, class S>
bool beats(const S& y, const S& x) {
  return (kMax ? y > x : y < x) || (is_nan_element(y) && !is_nan_element(x));
}

template <bool kMax>
struct Extreme {
  template <class S>
  using Total = S;
  template <class S>
  static S row(const S* x, int64_t n) {
    if constexpr (is_row_type<S>) {
      const auto count = static_cast<size_t>(n);
      return S(kMax ? vecmath::max(x, count) : vecmath::min(x, count));
    } else {
      S best = x[0];
      for (int64_t i = 1; i < n; ++i)
        if (beats<kMax>(x[i], best)) best = x[i];
      return best;
    }
  }
  template <class S>
  static void rows(S* totals, const S* x, int64_t stride, int64_t rows, int64_t n) {
    using T = AccumulatorOf<S>;
    std::copy_n(x, n, totals);
    for (int64_t r = 1; r < rows; ++r)
      for (int64_t c = 0; c < n; ++c) {
        const S& candidate = x[r * stride + c];
        totals[c] =
            beats<kMax, T>(static_cast<T>(candidate), static_cast<T>(totals[c])) ? candidate : totals[c];
      }
  }
};

template <class Fold>
void fold(Tensor& y, const Tensor& x) {
  visit_all(x.dtype(), [&](auto type) {
    using S = typename decltype(type)::type;
    using Total = typename Fold::template Total<S>;
    reduce<Fold>(y.data<Total>(), static_cast<const S*>(x.data<S>()), x.size(0), x.size(1), x.size(2));
  });
}

}  // namespace
}  // namespace cpu

Tensor max(const Tensor& x, const Axes& axes, KeepAxes keep) {
  return extreme("max", x, axes, keep, [](Tensor& y, const Tensor& part) { VITRINE_RUN(max, y, part); });
}

void cpu::max(Tensor& y, const Tensor& x) { fold<Extreme<true>>(y, x); }

Tensor min(const Tensor& x, const Axes& axes, KeepAxes keep) {
  return extreme("min", x, axes, keep, [](Tensor& y, const Tensor& part) { VITRINE_RUN(min, y, part); });
}

void cpu::min(Tensor& y, const Tensor& x) { fold<Extreme<false>>(y, x); }

namespace {

template <class Run>
Tensor where_extreme(const char* op, const Tensor& x, const Axes& axes, KeepAxes keep, Run run) {
  const auto sorted = check_axes(op, x.shape(), axes);
  reduced_count(op, x.shape(), sorted);
  const Shape shape = reduced_shape(x.shape(), sorted, keep);
  Tensor grouped = x;
  auto together = sorted;
  if (!sorted.empty() && sorted.back() - sorted.front() >= static_cast<int>(sorted.size())) {
    // Positions count over all reduced axes in one pass, so these axes are moved to the end.
    Axes order;
    for (int axis = 0; axis < x.rank(); ++axis)
      if (!std::binary_search(sorted.begin(), sorted.end(), axis)) order.push_back(axis);
    std::iota(together.begin(), together.end(), static_cast<int>(order.size()));
    order.insert(order.end(), sorted.begin(), sorted.end());
    const Tape::Pause pause;
    grouped = permute(x, order);
  }
  const Tensor y = reduce_axes(grouped, together, DType::int64, DType::int64, run);
  return record_cut(op, x, y.alias(shape, contiguous_strides(shape)));
}

}  // namespace

namespace cpu {
namespace {

template <bool kMax, class S>
int64_t position(const S* x, int64_t n, int64_t stride) {
  using T = AccumulatorOf<S>;
  if constexpr (is_row_type<S>) {
    if (stride == 1) {  // find the value, then its position: two fast loops
      const T best = kMax ? vecmath::max(x, static_cast<size_t>(n)) : vecmath::min(x, static_cast<size_t>(n));
      int64_t i = 0;
      while (is_nan_element(best) ? !is_nan_element(static_cast<T>(x[i])) : static_cast<T>(x[i]) != best) ++i;
      return i;
    }
  }
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i)
    if (beats<kMax, T>(static_cast<T>(x[i * stride]), static_cast<T>(x[best * stride]))) best = i;
  return best;
}

template <bool kMax>
void positions(Tensor& y, const Tensor& x) {
  const int64_t n = x.size(1), inner = x.size(2);
  visit_all(x.dtype(), [&](auto type) {
    using S = typename decltype(type)::type;
    const S* const from = x.data<S>();
    int64_t* const to = y.data<int64_t>();
    parallel_for(0, y.numel(), grain_for(n), [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i)
        to[i] = position<kMax>(from + i / inner * n * inner + i % inner, n, inner);
    });
  });
}

}  // namespace
}  // namespace cpu

Tensor argmax(const Tensor& x, const Axes& axes, KeepAxes keep) {
  return where_extreme("argmax", x, axes, keep,
                       [](Tensor& y, const Tensor& part) { VITRINE_RUN(argmax, y, part); });
}

void cpu::argmax(Tensor& y, const Tensor& x) { positions<true>(y, x); }

Tensor argmin(const Tensor& x, const Axes& axes, KeepAxes keep) {
  return where_extreme("argmin", x, axes, keep,
                       [](Tensor& y, const Tensor& part) { VITRINE_RUN(argmin, y, part); });
}

void cpu::argmin(Tensor& y, const Tensor& x) { positions<false>(y, x); }

namespace {

template <class Run>
Tensor truth(const char* op, const Tensor& x, const Axes& axes, KeepAxes keep, Run run) {
  const auto sorted = check_axes(op, x.shape(), axes);
  const Tensor y = reduce_axes(x, sorted, DType::boolean, DType::boolean, run);
  const Shape shape = reduced_shape(x.shape(), sorted, keep);
  return record_cut(op, x, y.alias(shape, contiguous_strides(shape)));
}

}  // namespace

namespace cpu {
namespace {

template <bool kAll>
struct Truth {
  template <class S>
  using Total = bool;
  template <class S>
  static bool row(const S* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      if (convert<bool>(x[i]) != kAll) return !kAll;
    return kAll;
  }
  template <class S>
  static void rows(bool* totals, const S* x, int64_t stride, int64_t rows, int64_t n) {
    std::fill_n(totals, n, kAll);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < n; ++c)
        if (convert<bool>(x[r * stride + c]) != kAll) totals[c] = !kAll;
  }
};

}  // namespace
}  // namespace cpu

Tensor any(const Tensor& x, const Axes& axes, KeepAxes keep) {
  return truth("any", x, axes, keep, [](Tensor& y, const Tensor& part) { VITRINE_RUN(any, y, part); });
}

void cpu::any(Tensor& y, const Tensor& x) { fold<Truth<false>>(y, x); }

Tensor all(const Tensor& x, const Axes& axes, KeepAxes keep) {
  return truth("all", x, axes, keep, [](Tensor& y, const Tensor& part) { VITRINE_RUN(all, y, part); });
}

void cpu::all(Tensor& y, const Tensor& x) { fold<Truth<true>>(y, x); }

}  // namespace vitrine
