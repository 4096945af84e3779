// CUDA's 16-bit floating types, __half and __nv_bfloat16, and pairs of them, in place of
// <cuda_fp16.h> and <cuda_bf16.h>.
//
// An operation is computed in float32 and then rounded. For + − × ÷ and square roots the result is
// the same as with one rounding, because float32 has more than twice the digits of the result, plus
// two. A fused multiply-add is computed in float64. Its inexact sums are rounded to odd, to the
// neighbour whose last bit is 1; so the second rounding, to nearest, is correct.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

#include "core/float16.h"
#include "cuda/emulator/atomics.h"
#include "cuda/emulator/vector_types.h"

namespace vitrine::emulator {

/// If the last bit of `rounded` is 0, returns its neighbour on the side of `rest`, the rounding
/// error.
template <class T, class Bits>
T to_odd(T rounded, double rest) {
  if (!(rest < 0 || rest > 0) || std::bit_cast<Bits>(rounded) % 2 == 1) return rounded;
  constexpr T kEnd = std::numeric_limits<T>::infinity();
  return std::nextafter(rounded, rest > 0 ? kEnd : -kEnd);
}
inline float to_odd_float(double x) {
  const float rounded = static_cast<float>(x);
  return to_odd<float, uint32_t>(rounded, x - rounded);
}
/// x + y, rounded to odd. The rounding error is computed as in Knuth (The Art of Computer
/// Programming 2, 4.2.2, theorem B).
inline double add_to_odd(double x, double y) {
  const double sum = x + y, of_y = sum - x;
  return to_odd<double, uint64_t>(sum, (x - (sum - of_y)) + (y - of_y));
}

// Operations that read or change a number in place do this for the kernel. They report the access,
// and are not inlined, so that the trace gets the line of the kernel.
#define VITRINE_IN_PLACE(T, operation)                                           \
  __attribute__((noinline)) VITRINE_UNTRACED T& operator operation##=(T other) { \
    note_access(this, sizeof(T), Access::read, __builtin_return_address(0));     \
    note_access(this, sizeof(T), Access::write, __builtin_return_address(0));    \
    return *this = *this operation other;                                        \
  }

/// __half and __nv_bfloat16; Storage is float16 or bfloat16.
template <class Storage>
class Number16 {
 public:
  Number16() = default;
  Number16(float x) : bits_(Storage(x).bits) {}
  Number16(double x) : Number16(to_odd_float(x)) {}
  template <std::integral Integer>
  Number16(Integer x) : Number16(static_cast<double>(x)) {}
  static Number16 of_bits(uint16_t bits) {
    Number16 x;
    x.bits_ = bits;
    return x;
  }
  uint16_t bits() const { return bits_; }

  __attribute__((noinline)) VITRINE_UNTRACED operator float() const {
    note_access(this, sizeof(*this), Access::read, __builtin_return_address(0));
    Storage x;
    x.bits = bits_;
    return x;
  }
  VITRINE_IN_PLACE(Number16, +)
  VITRINE_IN_PLACE(Number16, -)
  VITRINE_IN_PLACE(Number16, *)
  VITRINE_IN_PLACE(Number16, /)

  friend Number16 operator+(Number16 x, Number16 y) { return float(x) + float(y); }
  friend Number16 operator-(Number16 x, Number16 y) { return float(x) - float(y); }
  friend Number16 operator*(Number16 x, Number16 y) { return float(x) * float(y); }
  friend Number16 operator/(Number16 x, Number16 y) { return float(x) / float(y); }
  friend Number16 operator+(Number16 x) { return x; }
  friend Number16 operator-(Number16 x) { return -float(x); }
  friend bool operator==(Number16 x, Number16 y) { return float(x) == float(y); }
  friend bool operator!=(Number16 x, Number16 y) { return float(x) != float(y); }
  friend bool operator<(Number16 x, Number16 y) { return float(x) < float(y); }
  friend bool operator>(Number16 x, Number16 y) { return float(x) > float(y); }
  friend bool operator<=(Number16 x, Number16 y) { return float(x) <= float(y); }
  friend bool operator>=(Number16 x, Number16 y) { return float(x) >= float(y); }

  friend Number16 __hadd(Number16 x, Number16 y) { return x + y; }
  friend Number16 __hsub(Number16 x, Number16 y) { return x - y; }
  friend Number16 __hmul(Number16 x, Number16 y) { return x * y; }
  friend Number16 __hdiv(Number16 x, Number16 y) { return x / y; }
  friend Number16 __hfma(Number16 x, Number16 y, Number16 z) {
    return add_to_odd(double{float(x)} * double{float(y)}, double{float(z)});
  }
  friend Number16 __hneg(Number16 x) { return -x; }
  friend Number16 __habs(Number16 x) { return std::fabs(float(x)); }
  friend Number16 __hmax(Number16 x, Number16 y) { return std::fmax(float(x), float(y)); }
  friend Number16 __hmin(Number16 x, Number16 y) { return std::fmin(float(x), float(y)); }
  friend bool __heq(Number16 x, Number16 y) { return x == y; }
  friend bool __hne(Number16 x, Number16 y) { return x < y || x > y; }
  friend bool __hlt(Number16 x, Number16 y) { return x < y; }
  friend bool __hle(Number16 x, Number16 y) { return x <= y; }
  friend bool __hgt(Number16 x, Number16 y) { return x > y; }
  friend bool __hge(Number16 x, Number16 y) { return x >= y; }
  friend bool __hisnan(Number16 x) { return std::isnan(float(x)); }
  friend Number16 hexp(Number16 x) { return std::exp(float(x)); }
  friend Number16 hlog(Number16 x) { return std::log(float(x)); }
  friend Number16 hsqrt(Number16 x) { return std::sqrt(float(x)); }
  friend Number16 hrsqrt(Number16 x) { return 1 / std::sqrt(double{float(x)}); }
  friend Number16 hrcp(Number16 x) { return 1 / float(x); }

 private:
  uint16_t bits_;
};

/// __half2 and __nv_bfloat162: an operation on both.
template <class Storage>
struct alignas(4) Pair16 {
  using Number = Number16<Storage>;
  Number x, y;

  Pair16() = default;
  Pair16(Number first, Number second) : x(first), y(second) {}

  VITRINE_IN_PLACE(Pair16, +)
  VITRINE_IN_PLACE(Pair16, -)
  VITRINE_IN_PLACE(Pair16, *)
  VITRINE_IN_PLACE(Pair16, /)

  friend Pair16 operator+(Pair16 p, Pair16 q) { return {p.x + q.x, p.y + q.y}; }
  friend Pair16 operator-(Pair16 p, Pair16 q) { return {p.x - q.x, p.y - q.y}; }
  friend Pair16 operator*(Pair16 p, Pair16 q) { return {p.x * q.x, p.y * q.y}; }
  friend Pair16 operator/(Pair16 p, Pair16 q) { return {p.x / q.x, p.y / q.y}; }
  friend Pair16 operator-(Pair16 p) { return {-p.x, -p.y}; }
  friend bool operator==(Pair16 p, Pair16 q) { return p.x == q.x && p.y == q.y; }

  friend Pair16 __hadd2(Pair16 p, Pair16 q) { return p + q; }
  friend Pair16 __hsub2(Pair16 p, Pair16 q) { return p - q; }
  friend Pair16 __hmul2(Pair16 p, Pair16 q) { return p * q; }
  friend Pair16 __h2div(Pair16 p, Pair16 q) { return p / q; }
  friend Pair16 __hneg2(Pair16 p) { return -p; }
  friend Pair16 __hfma2(Pair16 p, Pair16 q, Pair16 r) {
    return {__hfma(p.x, q.x, r.x), __hfma(p.y, q.y, r.y)};
  }
  friend Pair16 __hmax2(Pair16 p, Pair16 q) { return {__hmax(p.x, q.x), __hmax(p.y, q.y)}; }
  friend Pair16 __hmin2(Pair16 p, Pair16 q) { return {__hmin(p.x, q.x), __hmin(p.y, q.y)}; }
  friend Pair16 h2exp(Pair16 p) { return {hexp(p.x), hexp(p.y)}; }
  friend float __low2float(Pair16 p) { return p.x; }
  friend float __high2float(Pair16 p) { return p.y; }
  friend Pair16 __lowhigh2highlow(Pair16 p) { return {p.y, p.x}; }
};

#undef VITRINE_IN_PLACE

}  // namespace vitrine::emulator

using __half = vitrine::emulator::Number16<vitrine::float16>;
using __half2 = vitrine::emulator::Pair16<vitrine::float16>;
using __nv_bfloat16 = vitrine::emulator::Number16<vitrine::bfloat16>;
using __nv_bfloat162 = vitrine::emulator::Pair16<vitrine::bfloat16>;
using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

// __float2half, __floats2half2_rn, __half22float2, __low2half, …; and with bfloat16 in place of
// half.
#define VITRINE_CONVERSIONS(name, number, pair)                                           \
  inline number __float2##name(float x) { return x; }                                     \
  inline number __float2##name##_rn(float x) { return x; }                                \
  inline number __double2##name(double x) { return x; }                                   \
  inline number __int2##name##_rn(int x) { return x; }                                    \
  inline float __##name##2float(number x) { return x; }                                   \
  inline number __ushort_as_##name(unsigned short bits) { return number::of_bits(bits); } \
  inline unsigned short __##name##_as_ushort(number x) { return x.bits(); }               \
  inline pair make_##name##2(number x, number y) { return {x, y}; }                       \
  inline pair __halves2##name##2(number x, number y) { return {x, y}; }                   \
  inline pair __##name##2##name##2(number x) { return {x, x}; }                           \
  inline pair __float2##name##2_rn(float x) { return {x, x}; }                            \
  inline pair __floats2##name##2_rn(float x, float y) { return {x, y}; }                  \
  inline pair __float22##name##2_rn(float2 x) { return {x.x, x.y}; }                      \
  inline float2 __##name##22float2(pair p) { return {p.x, p.y}; }                         \
  inline number __low2##name(pair p) { return p.x; }                                      \
  inline number __high2##name(pair p) { return p.y; }
VITRINE_CONVERSIONS(half, __half, __half2)
VITRINE_CONVERSIONS(bfloat16, __nv_bfloat16, __nv_bfloat162)
#undef VITRINE_CONVERSIONS

template <vitrine::emulator::OneOf<__half, __half2, __nv_bfloat16, __nv_bfloat162> T>
__attribute__((noinline)) VITRINE_UNTRACED T atomicAdd(T* address, std::type_identity_t<T> value) {
  return vitrine::emulator::change_atomically(address, __builtin_return_address(0),
                                              [value](T old) VITRINE_UNTRACED { return old + value; });
}
