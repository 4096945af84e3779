// The largest element of each window. The windows of a row are compared tap by tap, in vectors.
#include <algorithm>
#include <limits>
#include <vector>

#include "ops/cpu/rows.h"
#include "ops/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/pooling.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace pooling {

/// Tap number `tap` of n windows has the elements x. best becomes the largest element so far, or
/// NaN, and taps the number of its tap; −1 before the first one.
template <class S>
void choose_larger(AccumulatorOf<S>* best, AccumulatorOf<S>* taps, const S* x, AccumulatorOf<S> tap,
                   size_t n) {
  using T = AccumulatorOf<S>;
  for_each_vector<T>(n, [=](auto get, auto put) HWY_ATTR {
    const Vec<T> value = get(x), before = get(best), at = get(taps);
    const auto larger = value > before || (value != value && before == before) || at < Vec<T>(0);
    put(best, select(larger, value, before));
    put(taps, select(larger, Vec<T>(tap), at));
  });
}

}  // namespace pooling
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::cpu {

void max_pool(Tensor& y, Tensor& chosen, const Tensor& x, const Windows& w) {
  const int64_t count = w.columns.count, stride = w.columns.stride;
  // The distance of each tap from the first tap of its window.
  std::vector<int64_t> distances;
  for (int64_t i = 0; i < w.rows.kernel; ++i)
    for (int64_t j = 0; j < w.columns.kernel; ++j)
      distances.push_back(i * w.rows.dilation * w.columns.size + j * w.columns.dilation);

  visit_row_type(x.dtype(), "max_pool", [&]<class S>(Type<S>) {
    using T = AccumulatorOf<S>;
    parallel_for(0, x.size(0) * x.size(1), grain_for(w.taps() * w.count()), [&](int64_t begin, int64_t end) {
      std::vector<T> best(static_cast<size_t>(count)), taps(best.size());
      std::vector<S> line(best.size());
      for (int64_t n = begin * w.rows.count; n < end * w.rows.count; ++n) {
        const int64_t row = n % w.rows.count;
        const S* const image = x.data<S>() + n / w.rows.count * w.elements();
        std::fill(best.begin(), best.end(), -std::numeric_limits<T>::infinity());
        std::fill(taps.begin(), taps.end(), T(-1));
        for (int64_t i = 0; i < w.rows.kernel; ++i) {
          const int64_t h = w.rows.element(row, i);
          if (!w.rows.holds(h)) continue;
          for (int64_t j = 0; j < w.columns.kernel; ++j) {
            const int64_t first = w.columns.first(j), windows = w.columns.last(j) - first;
            if (windows == 0) continue;
            const S* seen = image + h * w.columns.size + w.columns.element(first, j);
            if (stride != 1) {
              for (int64_t k = 0; k < windows; ++k) line[static_cast<size_t>(k)] = seen[k * stride];
              seen = line.data();
            }
            VITRINE_DISPATCH(pooling::choose_larger<S>)
            (best.data() + first, taps.data() + first, seen, static_cast<T>(i * w.columns.kernel + j),
             static_cast<size_t>(windows));
          }
        }
        vecmath::convert(y.data<S>() + n * count, best.data(), best.size());
        int64_t* const at = chosen.data<int64_t>() + n * count;
        const int64_t origin = w.rows.element(row, 0) * w.columns.size + w.columns.element(0, 0);
        for (int64_t k = 0; k < count; ++k) {
          const auto tap = static_cast<int64_t>(taps[static_cast<size_t>(k)]);
          at[k] = tap < 0 ? -1 : origin + k * stride + distances[static_cast<size_t>(tap)];
        }
      }
    });
  });
}

}  // namespace vitrine::cpu
#endif
