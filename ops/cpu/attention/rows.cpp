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

template <class T>
void laser_extend_range(T* low, T* high, const T* v, size_t n) {
  using V = Vec<T>;
  map(
      n, low, [](V a, V b) HWY_ATTR { return min(a, b); }, low, v);
  map(
      n, high, [](V a, V b) HWY_ATTR { return max(a, b); }, high, v);
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

template <class T>
void laser_values(T* f, const T* v, const T* c, const T* delta, size_t n) {
  using V = Vec<T>;
  map(
      n, f, [](V x, V a, V d) HWY_ATTR { return select(d == V(T(0)), exp(x - a), expm1(x - a)); }, v, c,
      delta);
}

template <class T>
void laser_finish(T* y, const T* sum, const T* c, const T* delta, size_t n) {
  using V = Vec<T>;
  map(
      n, y, [](V x, V a, V d) HWY_ATTR { return a + select(d == V(T(0)), log(x), log1p(x)); }, sum, c, delta);
}

template <class T>
T laser_cotangent(T* h, const T* dy, const T* sum, const T* delta, size_t n) {
  using V = Vec<T>;
  map(
      n, h, [](V up, V x, V d) HWY_ATTR { return up / (d + x); }, dy, sum, delta);
  return map_sum<T>(
      n, [](V up, V x, V d) HWY_ATTR { return up * select(d == V(T(0)), V(T(1)), x / (d + x)); }, dy, sum,
      delta);
}

template <class T>
void laser_add_value_gradient(T* dv, const T* t, const T* f, const T* delta, size_t n) {
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

template <class T>
void laser_extend_range(T* low, T* high, const T* v, size_t n) {
  VITRINE_DISPATCH(laser_extend_range<T>)(low, high, v, n);
}
template <class T>
void laser_anchor(T* c, T* delta, const T* low, const T* high, size_t n) {
  VITRINE_DISPATCH(laser_anchor<T>)(c, delta, low, high, n);
}
template <class T>
void laser_values(T* f, const T* v, const T* c, const T* delta, size_t n) {
  VITRINE_DISPATCH(laser_values<T>)(f, v, c, delta, n);
}
template <class T>
void laser_finish(T* y, const T* sum, const T* c, const T* delta, size_t n) {
  VITRINE_DISPATCH(laser_finish<T>)(y, sum, c, delta, n);
}
template <class T>
T laser_cotangent(T* h, const T* dy, const T* sum, const T* delta, size_t n) {
  return VITRINE_DISPATCH(laser_cotangent<T>)(h, dy, sum, delta, n);
}
template <class T>
void laser_add_value_gradient(T* dv, const T* t, const T* f, const T* delta, size_t n) {
  VITRINE_DISPATCH(laser_add_value_gradient<T>)(dv, t, f, delta, n);
}

#define VITRINE_LASER(T)                                                \
  template void laser_extend_range(T*, T*, const T*, size_t);           \
  template void laser_anchor(T*, T*, const T*, const T*, size_t);       \
  template void laser_values(T*, const T*, const T*, const T*, size_t); \
  template void laser_finish(T*, const T*, const T*, const T*, size_t); \
  template T laser_cotangent(T*, const T*, const T*, const T*, size_t); \
  template void laser_add_value_gradient(T*, const T*, const T*, const T*, size_t);
VITRINE_LASER(float)
VITRINE_LASER(double)
#undef VITRINE_LASER

}  // namespace vitrine::cpu
#endif
