#include "ops/cpu/attention/score_rows.h"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention/score_rows.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace {

/// The largest of n numbers and `least`. NaN may be lost: the sum of exponentials keeps it.
template <class T>
T largest_of(const T* x, size_t n, T least) {
  constexpr size_t N = kLanes<T>;
  Vec<T> largest(least);
  size_t i = 0;
  for (; i + N <= n; i += N) largest = max_of_numbers(largest, load(x + i));
  T result = reduce_max(largest);
  for (; i < n; ++i) result = std::max(result, x[i]);
  return result;
}

template <class S, class T = AccumulatorOf<S>>
void weights_of_row(S* w, const T* s, size_t n, cpu::RunningSoftmax<T>& running) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const T before = running.largest;
  running.largest = largest_of(s, n, before);
  const T shift = running.largest == -kInfinity ? 0 : running.largest;
  running.factor = before == running.largest || before == -kInfinity ? 1 : std::exp(before - shift);
  const T total = map_and_sum<T>(
      n, w, [=](Vec<T> x) HWY_ATTR { return exp(x - Vec<T>(shift)); }, s);
  T rounded = total;
  if constexpr (!std::is_same_v<S, T>)
    rounded = map_sum<T>(
        n, [](Vec<T> x) HWY_ATTR { return x; }, w);
  running.total = running.total * running.factor + total;
  running.rounded_total = running.rounded_total * running.factor + rounded;
}

template <class S, class T = AccumulatorOf<S>>
void attention_weights(const cpu::ScoreRows& at, S* w, const T* s, cpu::RunningSoftmax<T>* running) {
  for (int64_t r = 0; r < at.rows; ++r, w += at.stride, s += at.stride) {
    const auto [begin, end] = at.seen[r];
    running[r].factor = 1;
    if (begin >= end) {
      std::fill_n(w, at.columns, S(0));
      continue;
    }
    std::fill_n(w, begin, S(0));
    weights_of_row(w + begin, s + begin, static_cast<size_t>(end - begin), running[r]);
    std::fill(w + end, w + at.columns, S(0));
  }
}

/// The arrays of ScoreBackward at the first visible key of a row; p: weights before rounding.
template <class S, class T = AccumulatorOf<S>>
void gradients_of_row(S* w, S* ds, T* p, const T* s, const T* dp, size_t n, T lse, const T* correction,
                      T dlse, const T* slope, const T* exact, T* dbias) {
  using V = Vec<T>;
  const T total = map_and_sum<T>(
      n, p, [=](V x) HWY_ATTR { return exp(x - V(lse)); }, s);
  T shift;
  if (correction != nullptr)
    shift = *correction;
  else
    shift = map_sum<T>(
                n, [](V x, V y) HWY_ATTR { return x * y; }, p, dp) /
            std::max(total, std::numeric_limits<T>::min());
  if constexpr (!std::is_same_v<S, T>)
    map(
        n, w, [](V x) HWY_ATTR { return x; }, p);
  const V d(shift - dlse);
  if (dbias != nullptr) {
    map(
        n, dbias, [=](V x, V y) HWY_ATTR { return (x - d) * y; }, dp, p);
    if (exact != nullptr)
      map(
          n, dbias, [](V x, V e) HWY_ATTR { return x + e; }, dbias, exact);
    if (slope == nullptr)
      map(
          n, ds, [](V x) HWY_ATTR { return x; }, dbias);
    else
      map(
          n, ds, [](V x, V z) HWY_ATTR { return x * z; }, dbias, slope);
  } else if (slope == nullptr && exact == nullptr)
    map(
        n, ds, [=](V x, V y) HWY_ATTR { return (x - d) * y; }, dp, p);
  else if (exact == nullptr)
    map(
        n, ds, [=](V x, V y, V z) HWY_ATTR { return (x - d) * y * z; }, dp, p, slope);
  else if (slope == nullptr)
    map(
        n, ds, [=](V x, V y, V e) HWY_ATTR { return (x - d) * y + e; }, dp, p, exact);
  else
    map(
        n, ds, [=](V x, V y, V e, V z) HWY_ATTR { return ((x - d) * y + e) * z; }, dp, p, exact, slope);
}

template <class S>
void attention_score_gradients(const cpu::ScoreRows& at, const cpu::ScoreBackward<S>& x) {
  using T = AccumulatorOf<S>;
  T memory[std::is_same_v<S, T> ? 1 : cpu::kKeysPerBlock];
  for (int64_t r = 0; r < at.rows; ++r) {
    const int64_t row = r * at.stride;
    int64_t begin = at.seen[r].begin, end = at.seen[r].end;
    if (x.lse[r] == -std::numeric_limits<T>::infinity() || begin >= end) begin = end = 0;
    for (S* const to : {x.w + row, x.ds + row}) {
      std::fill_n(to, begin, S(0));
      std::fill(to + end, to + at.columns, S(0));
    }
    const auto at_row = [&](auto* of, int64_t place) { return of == nullptr ? of : of + place + begin; };
    T* p = memory;  // weights before they are rounded
    if constexpr (std::is_same_v<S, T>) p = x.w + row + begin;
    gradients_of_row(x.w + row + begin, x.ds + row + begin, p, x.s + row + begin, x.dp + row + begin,
                     static_cast<size_t>(end - begin), x.lse[r],
                     x.correction == nullptr ? nullptr : x.correction + r,
                     x.dlse == nullptr ? T(0) : x.dlse[r], at_row(x.slope, row), at_row(x.exact, row),
                     at_row(x.dbias, r * x.dbias_stride));
  }
}

template <class S, class T = AccumulatorOf<S>>
void scale_rows(int64_t rows, int64_t columns, S* y, S* error, int64_t stride_y, int64_t stride_error,
                const T* x, int64_t stride_x, const T* factor) {
  using V = Vec<T>;
  const auto n = static_cast<size_t>(columns);
  for (int64_t r = 0; r < rows; ++r) {
    const V a(factor == nullptr ? T(1) : factor[r]);
    const T* const from = x + r * stride_x;
    S* const to = y + r * stride_y;
    map(
        n, to, [=](V v) HWY_ATTR { return v * a; }, from);
    if (error != nullptr)
      map(
          n, error + r * stride_error, [=](V v, V rounded) HWY_ATTR { return v * a - rounded; }, from, to);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::cpu {

template <class S>
void attention_weights(const ScoreRows& at, S* w, const AccumulatorOf<S>* s,
                       RunningSoftmax<AccumulatorOf<S>>* running) {
  VITRINE_DISPATCH(attention_weights<S>)(at, w, s, running);
}
template <class S>
void attention_score_gradients(const ScoreRows& at, const ScoreBackward<S>& x) {
  VITRINE_DISPATCH(attention_score_gradients<S>)(at, x);
}
template <class S>
void scale_rows(int64_t rows, int64_t columns, S* y, S* error, int64_t stride_y, int64_t stride_error,
                const AccumulatorOf<S>* x, int64_t stride_x, const AccumulatorOf<S>* factor) {
  VITRINE_DISPATCH(scale_rows<S>)(rows, columns, y, error, stride_y, stride_error, x, stride_x, factor);
}

#define VITRINE_SCORE_ROWS(S, T)                                                          \
  template void attention_weights<S>(const ScoreRows&, S*, const T*, RunningSoftmax<T>*); \
  template void attention_score_gradients<S>(const ScoreRows&, const ScoreBackward<S>&);  \
  template void scale_rows<S>(int64_t, int64_t, S*, S*, int64_t, int64_t, const T*, int64_t, const T*);
VITRINE_SCORE_ROWS(float, float)
VITRINE_SCORE_ROWS(double, double)
VITRINE_SCORE_ROWS(bfloat16, float)
#undef VITRINE_SCORE_ROWS

}  // namespace vitrine::cpu
#endif
