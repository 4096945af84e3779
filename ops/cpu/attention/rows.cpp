#include "ops/cpu/attention/rows.h"

#include "ops/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention/rows.cpp"
#include "core/simd/dispatch.h"
#include "core/simd/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {
namespace {

template <class S, class T = AccumulatorOf<S>>
void laser_extend_range(T* low, T* high, const S* v, int64_t stride, int64_t rows, size_t n) {
  for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
    Vec<T> a = get(low), b = get(high);
    for (int64_t r = 0; r < rows; ++r) {
      const Vec<T> x = get(v + r * stride);
      a = min(a, x), b = max(b, x);
    }
    put(low, a), put(high, b);
  });
}

template <class T>
void laser_anchor(T* c, T* delta, const T* low, const T* high, size_t n) {
  using V = Vec<T>;
  const V half(T(0.5)), near(static_cast<T>(kLaserNear)), far(static_cast<T>(kLaserFar)), zero(T(0)),
      one(T(1));
  map(
      n, delta, [=](V a, V b) HWY_ATTR { return select(b - a <= far, one, zero); }, low, high);
  map(
      n, c,
      [=](V a, V b) HWY_ATTR {
        const V range = b - a;
        return select(range <= near, (a + b) * half, select(range <= far, a, b - far));
      },
      low, high);
}

template <class S, class T = AccumulatorOf<S>>
void laser_values(S* f, const S* v, const T* c, const T* delta, size_t n) {
  using V = Vec<T>;
  if (delta == nullptr)
    return map(
        n, f, [](V x, V a) HWY_ATTR { return expm1(x - a); }, v, c);
  map(
      n, f, [](V x, V a, V d) HWY_ATTR { return select(d == V(T(0)), exp(x - a), expm1(x - a)); }, v, c,
      delta);
}

template <class S, class T = AccumulatorOf<S>>
void laser_finish(S* y, const T* sum, const T* c, const T* delta, size_t n) {
  using V = Vec<T>;
  if (delta == nullptr)
    return map(
        n, y, [](V x, V a) HWY_ATTR { return a + log1p(x); }, sum, c);
  map(
      n, y, [](V x, V a, V d) HWY_ATTR { return a + select(d == V(T(0)), log(x), log1p(x)); }, sum, c, delta);
}

template <class S, class T = AccumulatorOf<S>>
T laser_cotangent(S* h, const S* dy, const T* sum, const T* delta, size_t n) {
  using V = Vec<T>;
  // What is subtracted from products of h must have its rounding. Where h overflows, the sum is
  // read exactly.
  if constexpr (!std::is_same_v<S, T>) {
    V total(T(0));
    for_each_vector<T>(n, [&](auto get, auto put) HWY_ATTR {
      const V x = get(sum);
      put(h, get(dy) / (get(delta) + x));
      const V rounded = get(static_cast<const S*>(h));
      total += select(abs(rounded) <= V(std::numeric_limits<T>::max()), rounded * x, V(T(0)));
    });
    return reduce_sum(total);
  }
  map(
      n, h, [](V up, V x, V d) HWY_ATTR { return up / (d + x); }, dy, sum, delta);
  return map_sum<T>(
      n, [](V up, V x, V d) HWY_ATTR { return up * select(d == V(T(0)), V(T(1)), x / (d + x)); }, dy, sum,
      delta);
}

template <class S, class T = AccumulatorOf<S>>
void laser_scale_value_gradient(T* dv, const S* f, const T* delta, size_t n) {
  using V = Vec<T>;
  map(
      n, dv, [](V x, V b, V d) HWY_ATTR { return x * (b + d); }, dv, f, delta);
}

template <class S, class T = AccumulatorOf<S>>
void laser_add_value_gradient(T* dv, const T* t, const S* f, const T* delta, size_t n) {
  using V = Vec<T>;
  map(
      n, dv, [](V x, V a, V b, V d) HWY_ATTR { return x + a * (b + d); }, dv, t, f, delta);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vitrine::cpu {

template <class S>
void laser_extend_range(AccumulatorOf<S>* low, AccumulatorOf<S>* high, const S* v, int64_t stride,
                        int64_t rows, size_t n) {
  VITRINE_DISPATCH(laser_extend_range<S>)(low, high, v, stride, rows, n);
}
template <class T>
void laser_anchor(T* c, T* delta, const T* low, const T* high, size_t n) {
  VITRINE_DISPATCH(laser_anchor<T>)(c, delta, low, high, n);
}
template <class S>
void laser_values(S* f, const S* v, const AccumulatorOf<S>* c, const AccumulatorOf<S>* delta, size_t n) {
  VITRINE_DISPATCH(laser_values<S>)(f, v, c, delta, n);
}
template <class S>
void laser_finish(S* y, const AccumulatorOf<S>* sum, const AccumulatorOf<S>* c, const AccumulatorOf<S>* delta,
                  size_t n) {
  VITRINE_DISPATCH(laser_finish<S>)(y, sum, c, delta, n);
}
template <class S>
AccumulatorOf<S> laser_cotangent(S* h, const S* dy, const AccumulatorOf<S>* sum,
                                 const AccumulatorOf<S>* delta, size_t n) {
  return VITRINE_DISPATCH(laser_cotangent<S>)(h, dy, sum, delta, n);
}
template <class S>
void laser_scale_value_gradient(AccumulatorOf<S>* dv, const S* f, const AccumulatorOf<S>* delta, size_t n) {
  VITRINE_DISPATCH(laser_scale_value_gradient<S>)(dv, f, delta, n);
}
template <class S>
void laser_add_value_gradient(AccumulatorOf<S>* dv, const AccumulatorOf<S>* t, const S* f,
                              const AccumulatorOf<S>* delta, size_t n) {
  VITRINE_DISPATCH(laser_add_value_gradient<S>)(dv, t, f, delta, n);
}

#define VITRINE_LASER(S, T)                                                        \
  template void laser_extend_range<S>(T*, T*, const S*, int64_t, int64_t, size_t); \
  template void laser_values<S>(S*, const S*, const T*, const T*, size_t);         \
  template void laser_finish<S>(S*, const T*, const T*, const T*, size_t);         \
  template T laser_cotangent<S>(S*, const S*, const T*, const T*, size_t);         \
  template void laser_scale_value_gradient<S>(T*, const S*, const T*, size_t);     \
  template void laser_add_value_gradient<S>(T*, const T*, const S*, const T*, size_t);
VITRINE_LASER(float, float)
VITRINE_LASER(double, double)
VITRINE_LASER(bfloat16, float)
#undef VITRINE_LASER
template void laser_anchor(float*, float*, const float*, const float*, size_t);
template void laser_anchor(double*, double*, const double*, const double*, size_t);

}  // namespace vitrine::cpu
#endif
