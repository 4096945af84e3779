#include "ops/cpu/rows.h"

#include "core/philox.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/rows.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace {

template <class S>
void add_rows(AccumulatorOf<S>* sums, const S* x, int64_t stride, int64_t rows, size_t n) {
  using V = Vec<AccumulatorOf<S>>;
  const AccumulatorOf<S>* const before = sums;
  int64_t r = 0;
  for (; r + 8 <= rows; r += 8) {
    const S* const p = x + r * stride;
    map(
        n, sums,
        [](V sum, V a, V b, V c, V d, V e, V f, V g, V h)
            HWY_ATTR { return sum + (((a + b) + (c + d)) + ((e + f) + (g + h))); },
        before, p, p + stride, p + 2 * stride, p + 3 * stride, p + 4 * stride, p + 5 * stride, p + 6 * stride,
        p + 7 * stride);
  }
  for (; r < rows; ++r)
    map(
        n, sums, [](V sum, V a) HWY_ATTR { return sum + a; }, before, x + r * stride);
}

template <class S>
void subtract_twice(S* y, const S* x, AccumulatorOf<S> a, AccumulatorOf<S> b, size_t n) {
  using V = Vec<AccumulatorOf<S>>;
  const V first(a), second(b);
  map(
      n, y, [first, second](V v) HWY_ATTR { return (v - first) - second; }, x);
}

template <class S>
void scaled_exp_minus(S* y, const S* x, AccumulatorOf<S> shift, AccumulatorOf<S> scale,
                      AccumulatorOf<S> offset, size_t n, bool stream) {
  using V = Vec<AccumulatorOf<S>>;
  const V s(shift), a(scale), b(offset);
  const auto f = [s, a, b](V v) HWY_ATTR { return a * exp(v - s) - b; };
  if constexpr (!is_16_bit<S>) {
    if (stream) return map_streaming(n, y, f, x);
  }
  map(n, y, f, x);
}

/// Block by block: the maximum of a block is found first. While the block is then summed from the
/// nearest cache, the next one is fetched from memory. The total so far is scaled down when the
/// maximum grows (Milakov and Gimelshein 2018).
template <class S>
cpu::SumExp<AccumulatorOf<S>> sum_exp(const S* x, size_t n) {
  using T = AccumulatorOf<S>;
  constexpr size_t kBlock = 8192;
  T shift = -kInfinity<T>;
  double total = 0;
  for (size_t i = 0; i < n; i += kBlock) {
    const size_t count = std::min(kBlock, n - i);
    const T largest = vecmath::max(x + i, count);
    if (largest == -kInfinity<T>) continue;
    if (!std::isfinite(largest)) return {0, vecmath::exp_shifted_sum<S>(nullptr, x, 0, n)};
    if (largest > shift) {
      total *= std::exp(static_cast<double>(shift - largest));
      shift = largest;
    }
    const Vec<T> s(shift);
    const S* next = x + i + count;
    total += map_sum<T>(
        count,
        [s, &next](Vec<T> v) HWY_ATTR {
          hwy::Prefetch(next);
          next += kLanes<T>;
          return exp(v - s);
        },
        x + i);
  }
  return {total == 0 ? 0 : shift, static_cast<T>(total)};
}

template <class S>
void subtract_scaled_exp(S* z, const S* x, AccumulatorOf<S> scale, const S* y, size_t n) {
  using V = Vec<AccumulatorOf<S>>;
  const V a(scale);
  map(
      n, z, [a](V v, V w) HWY_ATTR { return v - a * exp(w); }, x, y);
}

/// Two passes over a row: the first computes both sums, and the second writes all results. Neither
/// waits for memory: the first fetches the lines that the second writes, and the second fetches the
/// next row.
template <class S>
void norm_backward_row(const cpu::NormBackwardRow<S>& task, size_t n) {
  using T = AccumulatorOf<S>;
  using V = Vec<T>;
  const cpu::NormBackwardRow<S> t = task;  // a copy, so that no store can change it
  const V mean(t.mean), rstd(t.rstd);
  const auto normal = [mean, rstd](V x) HWY_ATTR { return (x - mean) * rstd; };
  const S* to = t.dx;
  const std::array<T, 2> sums = map_sums<T, 2>(
      n,
      [normal, &to](V dy, V x, V w) HWY_ATTR {
        hwy::Prefetch(to);
        to += kLanes<T>;
        const V g = dy * w;
        return std::array<V, 2>{g * normal(x), g};
      },
      t.dy, t.x, t.weight);
  const V slope(sums[0] / static_cast<T>(n)), average(t.centered ? sums[1] / static_cast<T>(n) : 0);
  const S *next_dy = t.dy + n, *next_x = t.x + n;
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    hwy::Prefetch(next_dy);
    hwy::Prefetch(next_x);
    next_dy += kLanes<T>, next_x += kLanes<T>;
    const V dy = get(t.dy), z = normal(get(t.x));
    if (t.dweight != nullptr) put(t.dweight, mul_add(dy, z, get(t.dweight)));
    if (t.dbias != nullptr) put(t.dbias, get(t.dbias) + dy);
    const V dx = rstd * (dy * get(t.weight) - slope * z - average);
    put(t.dx, t.dsum != nullptr ? dx + get(t.dsum) : dx);
  });
}

template <class S>
void dropout_row(S* y, const S* x, uint32_t limit, AccumulatorOf<S> scale, uint64_t seed, uint64_t offset,
                 size_t n) {
  using T = AccumulatorOf<S>;
  constexpr size_t kCounters = 16;  // side by side, to vectorize the rounds of Philox
  std::array<T, 4 * kCounters> factors;
  for (size_t begin = 0; begin < n; begin += factors.size()) {
    for (size_t i = 0; i < kCounters; ++i) {
      const auto words = philox(seed, offset + begin / 4 + i);
      for (size_t k = 0; k < 4; ++k) factors[4 * i + k] = words[k] >> 8 < limit ? T(0) : scale;
    }
    map(
        std::min(factors.size(), n - begin), y + begin,
        [](Vec<T> v, Vec<T> factor) HWY_ATTR { return select(factor == Vec<T>(0), Vec<T>(0), v * factor); },
        x + begin, factors.data());
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::cpu {

template <class S>
void add_rows(AccumulatorOf<S>* sums, const S* x, int64_t stride, int64_t rows, size_t n) {
  VITRINE_DISPATCH(add_rows<S>)(sums, x, stride, rows, n);
}

template <class S>
void subtract_twice(S* y, const S* x, AccumulatorOf<S> a, AccumulatorOf<S> b, size_t n) {
  VITRINE_DISPATCH(subtract_twice<S>)(y, x, a, b, n);
}

template <class S>
void scaled_exp_minus(S* y, const S* x, AccumulatorOf<S> shift, AccumulatorOf<S> scale,
                      AccumulatorOf<S> offset, size_t n, bool stream) {
  VITRINE_DISPATCH(scaled_exp_minus<S>)(y, x, shift, scale, offset, n, stream);
}

template <class S>
SumExp<AccumulatorOf<S>> sum_exp(const S* x, size_t n) {
  return VITRINE_DISPATCH(sum_exp<S>)(x, n);
}

template <class S>
void subtract_scaled_exp(S* z, const S* x, AccumulatorOf<S> scale, const S* y, size_t n) {
  VITRINE_DISPATCH(subtract_scaled_exp<S>)(z, x, scale, y, n);
}

template <class S>
void norm_backward_row(const NormBackwardRow<S>& task, size_t n) {
  VITRINE_DISPATCH(norm_backward_row<S>)(task, n);
}

template <class S>
void dropout_row(S* y, const S* x, uint32_t limit, AccumulatorOf<S> scale, uint64_t seed, uint64_t offset,
                 size_t n) {
  VITRINE_DISPATCH(dropout_row<S>)(y, x, limit, scale, seed, offset, n);
}

#define VITRINE_INSTANTIATE(S)                                                                               \
  template void add_rows(AccumulatorOf<S>*, const S*, int64_t, int64_t, size_t);                             \
  template void subtract_twice(S*, const S*, AccumulatorOf<S>, AccumulatorOf<S>, size_t);                    \
  template void scaled_exp_minus(S*, const S*, AccumulatorOf<S>, AccumulatorOf<S>, AccumulatorOf<S>, size_t, \
                                 bool);                                                                      \
  template SumExp<AccumulatorOf<S>> sum_exp(const S*, size_t);                                               \
  template void subtract_scaled_exp(S*, const S*, AccumulatorOf<S>, const S*, size_t);                       \
  template void dropout_row(S*, const S*, uint32_t, AccumulatorOf<S>, uint64_t, uint64_t, size_t);           \
  template void norm_backward_row(const NormBackwardRow<S>&, size_t);
VITRINE_INSTANTIATE(float)
VITRINE_INSTANTIATE(double)
VITRINE_INSTANTIATE(bfloat16)
VITRINE_INSTANTIATE(float16)
#undef VITRINE_INSTANTIATE

}  // namespace vitrine::cpu
#endif
