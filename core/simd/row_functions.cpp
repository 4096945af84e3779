#include "core/simd/row_functions.h"

#include "core/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/simd/row_functions.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace row {

using vecmath::Function;

#define VITRINE_CASE(name) \
  case Function::name:     \
    return map(            \
        n, y, [](Vec<AccumulatorOf<S>> v) HWY_ATTR { return HWY_NAMESPACE::name(v); }, x);

template <class S>
void apply(Function f, S* y, const S* x, size_t n) {
  switch (f) {
    VITRINE_CASE(exp)
    VITRINE_CASE(expm1)
    VITRINE_CASE(log)
    VITRINE_CASE(log1p)
    VITRINE_CASE(sqrt)
    VITRINE_CASE(rsqrt)
    VITRINE_CASE(sin)
    VITRINE_CASE(cos)
    VITRINE_CASE(tanh)
    VITRINE_CASE(erf)
  }
}
#undef VITRINE_CASE

/// The element that `better` prefers to all others. The comparison is false for NaN, so NaN is
/// detected separately.
template <class S, class F>
HWY_INLINE Vec<AccumulatorOf<S>> best(const S* x, size_t n, AccumulatorOf<S> start, F better) {
  using T = AccumulatorOf<S>;
  constexpr size_t N = kLanes<T>;
  Vec<T> a(start), b(start);
  Vec<T> nan_a(0), nan_b(0);  // stay 0 until a NaN is added
  const auto take = [&](Vec<T> v, Vec<T>& best, Vec<T>& nan) HWY_ATTR {
    best = better(best, v);
    nan = select(is_nan(v), v, nan);
  };
  size_t i = 0;
  for (; i + 2 * N <= n; i += 2 * N) {
    take(load(x + i), a, nan_a);
    take(load(x + i + N), b, nan_b);
  }
  for (; i + N <= n; i += N) take(load(x + i), a, nan_a);
  if (i < n) take(load_part(x + i, n - i, start), b, nan_b);
  const Vec<T> nan = nan_a + nan_b;
  return any(is_nan(nan)) ? Vec<T>(kNan<T>) : better(a, b);
}

template <class S>
AccumulatorOf<S> max(const S* x, size_t n) {
  using T = AccumulatorOf<S>;
  const Vec<T> v =
      best(x, n, -kInfinity<T>, [](Vec<T> a, Vec<T> b) HWY_ATTR { return max_of_numbers(a, b); });
  return any(is_nan(v)) ? kNan<T> : reduce_max(v);
}

template <class S>
AccumulatorOf<S> min(const S* x, size_t n) {
  using T = AccumulatorOf<S>;
  const Vec<T> v = best(x, n, kInfinity<T>, [](Vec<T> a, Vec<T> b) HWY_ATTR { return min_of_numbers(a, b); });
  return any(is_nan(v)) ? kNan<T> : reduce_min(v);
}

template <class S>
AccumulatorOf<S> sum(const S* x, size_t n) {
  using T = AccumulatorOf<S>;
  return map_sum<T>(
      n, [](Vec<T> v) HWY_ATTR { return v; }, x);
}

template <class S>
AccumulatorOf<S> sum_of_squares(const S* x, size_t n) {
  using T = AccumulatorOf<S>;
  return map_sum<T>(
      n, [](Vec<T> v) HWY_ATTR { return v * v; }, x);
}

template <class S>
AccumulatorOf<S> dot(const S* x, const S* y, size_t n) {
  using T = AccumulatorOf<S>;
  return map_sum<T>(
      n, [](Vec<T> v, Vec<T> w) HWY_ATTR { return v * w; }, x, y);
}

template <class S>
AccumulatorOf<S> sum_squared_deviation(const S* x, AccumulatorOf<S> mean, size_t n) {
  using T = AccumulatorOf<S>;
  const Vec<T> m(mean);
  return map_sum<T>(
      n, [m](Vec<T> v) HWY_ATTR { return (v - m) * (v - m); }, x);
}

template <class S>
AccumulatorOf<S> exp_shifted_sum(AccumulatorOf<S>* y, const S* x, AccumulatorOf<S> shift, size_t n) {
  using T = AccumulatorOf<S>;
  const Vec<T> s(shift);
  return map_and_sum<T>(
      n, y, [s](Vec<T> v) HWY_ATTR { return exp(v - s); }, x);
}

template <class S>
void exp_shifted_scaled(S* y, const S* x, AccumulatorOf<S> shift, AccumulatorOf<S> scale, size_t n) {
  using T = AccumulatorOf<S>;
  const Vec<T> s(shift), a(scale);
  map(
      n, y, [s, a](Vec<T> v) HWY_ATTR { return a * exp(v - s); }, x);
}

template <class S>
void scale(S* y, const S* x, AccumulatorOf<S> factor, size_t n, AccumulatorOf<S> shift) {
  using T = AccumulatorOf<S>;
  const Vec<T> a(factor), s(shift);
  map(
      n, y, [a, s](Vec<T> v) HWY_ATTR { return a * (v - s); }, x);
}

template <class S>
void axpy(AccumulatorOf<S>* y, AccumulatorOf<S> factor, const S* x, size_t n) {
  using T = AccumulatorOf<S>;
  const Vec<T> a(factor);
  map(
      n, y, [a](Vec<T> sum, Vec<T> v) HWY_ATTR { return mul_add(a, v, sum); }, static_cast<const T*>(y), x);
}

template <class S>
void multiply(S* z, const S* x, const S* y, size_t n) {
  using T = AccumulatorOf<S>;
  map(
      n, z, [](Vec<T> v, Vec<T> w) HWY_ATTR { return v * w; }, x, y);
}

template <class S>
void multiply_shifted(S* z, const S* x, AccumulatorOf<S> shift, const S* y, size_t n) {
  using T = AccumulatorOf<S>;
  const Vec<T> s(shift);
  map(
      n, z, [s](Vec<T> v, Vec<T> w) HWY_ATTR { return (v - s) * w; }, x, y);
}

template <class S>
void normalize(S* y, const S* x, AccumulatorOf<S> mean, AccumulatorOf<S> rstd, const AccumulatorOf<S>* weight,
               const AccumulatorOf<S>* bias, size_t n) {
  using T = AccumulatorOf<S>;
  const Vec<T> m(mean), r(rstd);
  if (weight != nullptr && bias != nullptr) {
    map(
        n, y, [m, r](Vec<T> v, Vec<T> w, Vec<T> b) HWY_ATTR { return mul_add((v - m) * r, w, b); }, x, weight,
        bias);
  } else if (weight != nullptr) {
    map(
        n, y, [m, r](Vec<T> v, Vec<T> w) HWY_ATTR { return (v - m) * r * w; }, x, weight);
  } else if (bias != nullptr) {
    map(
        n, y, [m, r](Vec<T> v, Vec<T> b) HWY_ATTR { return mul_add(v - m, r, b); }, x, bias);
  } else {
    map(
        n, y, [m, r](Vec<T> v) HWY_ATTR { return (v - m) * r; }, x);
  }
}

template <class D, class S>
void convert(D* y, const S* x, size_t n) {
  if constexpr (std::is_same_v<AccumulatorOf<D>, AccumulatorOf<S>>) {
    map(
        n, y, [](Vec<AccumulatorOf<S>> v) HWY_ATTR { return v; }, x);
  } else if constexpr (is_16_bit<D>) {
    for (size_t i = 0; i < n; ++i) y[i] = round_once<D>(x[i]);
  } else {
    for (size_t i = 0; i < n; ++i) y[i] = static_cast<D>(static_cast<AccumulatorOf<S>>(x[i]));
  }
}

void split(HalvesPointer y, const float* x, size_t n) {
  for_each_vector<float>(n, [&](auto get, auto put) HWY_ATTR { put(y, get(x)); });
}

void join(float* y, HalvesPointer x, size_t n) {
  for_each_vector<float>(n, [&](auto get, auto put) HWY_ATTR { put(y, get(x)); });
}

}  // namespace row
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::vecmath {

template <class S>
void apply(Function f, S* y, const S* x, size_t n) {
  VITRINE_DISPATCH(row::apply<S>)(f, y, x, n);
}

template <class S>
AccumulatorOf<S> max(const S* x, size_t n) {
  return VITRINE_DISPATCH(row::max<S>)(x, n);
}

template <class S>
AccumulatorOf<S> min(const S* x, size_t n) {
  return VITRINE_DISPATCH(row::min<S>)(x, n);
}

template <class S>
AccumulatorOf<S> sum(const S* x, size_t n) {
  return VITRINE_DISPATCH(row::sum<S>)(x, n);
}

template <class S>
AccumulatorOf<S> sum_of_squares(const S* x, size_t n) {
  return VITRINE_DISPATCH(row::sum_of_squares<S>)(x, n);
}

template <class S>
AccumulatorOf<S> dot(const S* x, const S* y, size_t n) {
  return VITRINE_DISPATCH(row::dot<S>)(x, y, n);
}

template <class S>
AccumulatorOf<S> sum_squared_deviation(const S* x, AccumulatorOf<S> mean, size_t n) {
  return VITRINE_DISPATCH(row::sum_squared_deviation<S>)(x, mean, n);
}

template <class S>
AccumulatorOf<S> exp_shifted_sum(AccumulatorOf<S>* y, const S* x, AccumulatorOf<S> shift, size_t n) {
  return VITRINE_DISPATCH(row::exp_shifted_sum<S>)(y, x, shift, n);
}

template <class S>
void exp_shifted_scaled(S* y, const S* x, AccumulatorOf<S> shift, AccumulatorOf<S> scale, size_t n) {
  VITRINE_DISPATCH(row::exp_shifted_scaled<S>)(y, x, shift, scale, n);
}

template <class S>
void scale(S* y, const S* x, AccumulatorOf<S> a, size_t n, AccumulatorOf<S> shift) {
  VITRINE_DISPATCH(row::scale<S>)(y, x, a, n, shift);
}

template <class S>
void axpy(AccumulatorOf<S>* y, AccumulatorOf<S> a, const S* x, size_t n) {
  VITRINE_DISPATCH(row::axpy<S>)(y, a, x, n);
}

template <class S>
void multiply(S* z, const S* x, const S* y, size_t n) {
  VITRINE_DISPATCH(row::multiply<S>)(z, x, y, n);
}

template <class S>
void multiply_shifted(S* z, const S* x, AccumulatorOf<S> shift, const S* y, size_t n) {
  VITRINE_DISPATCH(row::multiply_shifted<S>)(z, x, shift, y, n);
}

template <class S>
void normalize(S* y, const S* x, AccumulatorOf<S> mean, AccumulatorOf<S> rstd, const AccumulatorOf<S>* weight,
               const AccumulatorOf<S>* bias, size_t n) {
  VITRINE_DISPATCH(row::normalize<S>)(y, x, mean, rstd, weight, bias, n);
}

template <class D, class S>
void convert(D* y, const S* x, size_t n) {
  VITRINE_DISPATCH(row::convert<D, S>)(y, x, n);
}

void split(HalvesPointer y, const float* x, size_t n) { VITRINE_DISPATCH(row::split)(y, x, n); }

void join(float* y, HalvesPointer x, size_t n) { VITRINE_DISPATCH(row::join)(y, x, n); }

#define VITRINE_INSTANTIATE(S)                                                                       \
  template void apply(Function, S*, const S*, size_t);                                               \
  template AccumulatorOf<S> max(const S*, size_t);                                                   \
  template AccumulatorOf<S> min(const S*, size_t);                                                   \
  template AccumulatorOf<S> sum(const S*, size_t);                                                   \
  template AccumulatorOf<S> sum_of_squares(const S*, size_t);                                        \
  template AccumulatorOf<S> dot(const S*, const S*, size_t);                                         \
  template AccumulatorOf<S> sum_squared_deviation(const S*, AccumulatorOf<S>, size_t);               \
  template AccumulatorOf<S> exp_shifted_sum(AccumulatorOf<S>*, const S*, AccumulatorOf<S>, size_t);  \
  template void exp_shifted_scaled(S*, const S*, AccumulatorOf<S>, AccumulatorOf<S>, size_t);        \
  template void scale(S*, const S*, AccumulatorOf<S>, size_t, AccumulatorOf<S>);                     \
  template void axpy(AccumulatorOf<S>*, AccumulatorOf<S>, const S*, size_t);                         \
  template void multiply(S*, const S*, const S*, size_t);                                            \
  template void multiply_shifted(S*, const S*, AccumulatorOf<S>, const S*, size_t);                  \
  template void normalize(S*, const S*, AccumulatorOf<S>, AccumulatorOf<S>, const AccumulatorOf<S>*, \
                          const AccumulatorOf<S>*, size_t);                                          \
  template void convert(float*, const S*, size_t);                                                   \
  template void convert(double*, const S*, size_t);                                                  \
  template void convert(bfloat16*, const S*, size_t);                                                \
  template void convert(float16*, const S*, size_t);

VITRINE_INSTANTIATE(float)
VITRINE_INSTANTIATE(double)
VITRINE_INSTANTIATE(bfloat16)
VITRINE_INSTANTIATE(float16)
#undef VITRINE_INSTANTIATE

}  // namespace vitrine::vecmath
#endif
