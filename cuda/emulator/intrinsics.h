// Functions and intrinsics that CUDA has in addition to <math.h>. The fast functions lose some
// digits on a GPU, but are accurate here. Bits, conversions and rounding to nearest are the same.
#pragma once

#include <math.h>

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "cuda/emulator/block.h"

// Functions of float32 numbers. (glibc declares some of these names, without defining them.)
inline float __expf(float x) noexcept { return std::exp(x); }
inline float __exp10f(float x) noexcept { return std::pow(10.0f, x); }
inline float __logf(float x) noexcept { return std::log(x); }
inline float __log2f(float x) noexcept { return std::log2(x); }
inline float __log10f(float x) noexcept { return std::log10(x); }
inline float __sinf(float x) noexcept { return std::sin(x); }
inline float __cosf(float x) noexcept { return std::cos(x); }
inline float __tanf(float x) noexcept { return std::tan(x); }
inline float __powf(float x, float y) noexcept { return std::pow(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return std::fmin(std::fmax(x, 0.0f), 1.0f); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }

// max and min without std::. For a NaN and a number the result is the number.
#define VITRINE_LARGER_AND_SMALLER(T)              \
  inline T max(T x, T y) { return x < y ? y : x; } \
  inline T min(T x, T y) { return y < x ? y : x; }
VITRINE_LARGER_AND_SMALLER(int)
VITRINE_LARGER_AND_SMALLER(unsigned)
VITRINE_LARGER_AND_SMALLER(long)
VITRINE_LARGER_AND_SMALLER(unsigned long)
VITRINE_LARGER_AND_SMALLER(long long)
VITRINE_LARGER_AND_SMALLER(unsigned long long)
#undef VITRINE_LARGER_AND_SMALLER
inline float max(float x, float y) { return std::fmax(x, y); }
inline float min(float x, float y) { return std::fmin(x, y); }
inline double max(double x, double y) { return std::fmax(x, y); }
inline double min(double x, double y) { return std::fmin(x, y); }

// Bits. The position of the lowest set bit counts from 1, and is 0 if no bit is set.
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline int __ffsll(long long x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(x)) + 1;
}
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1) << (31 - i);
  return y;
}
inline unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
         __brev(static_cast<unsigned>(x >> 32));
}
inline int __mulhi(int x, int y) { return static_cast<int>((static_cast<long long>(x) * y) >> 32); }
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<unsigned long long>(x) * y) >> 32);
}

// The same bits as another type.
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

// Rounded to nearest (rn), towards zero (rz), down (rd) or up (ru). A number outside the range of
// int becomes the nearest int; a NaN becomes 0.
namespace vitrine::emulator {
inline int to_int(float whole) {
  constexpr int kLeast = std::numeric_limits<int>::min(), kMost = std::numeric_limits<int>::max();
  return std::isnan(whole)  ? 0
         : whole >= 0x1p31f ? kMost
         : whole < -0x1p31f ? kLeast
                            : static_cast<int>(whole);
}
}  // namespace vitrine::emulator
inline int __float2int_rn(float x) { return vitrine::emulator::to_int(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return vitrine::emulator::to_int(std::trunc(x)); }
inline int __float2int_rd(float x) { return vitrine::emulator::to_int(std::floor(x)); }
inline int __float2int_ru(float x) { return vitrine::emulator::to_int(std::ceil(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }

// Reads and writes with a cache hint. Not inlined, so that the trace gets the line of the kernel.
#define VITRINE_READ(name)                                                            \
  template <class T>                                                                  \
  __attribute__((noinline)) VITRINE_UNTRACED T name(const T* p) {                     \
    ::vitrine::emulator::note_access(p, sizeof(T), ::vitrine::emulator::Access::read, \
                                     __builtin_return_address(0));                    \
    return *p;                                                                        \
  }
#define VITRINE_WRITE(name)                                                                   \
  template <class T>                                                                          \
  __attribute__((noinline)) VITRINE_UNTRACED void name(T* p, std::type_identity_t<T> value) { \
    ::vitrine::emulator::note_access(p, sizeof(T), ::vitrine::emulator::Access::write,        \
                                     __builtin_return_address(0));                            \
    *p = value;                                                                               \
  }
VITRINE_READ(__ldg)
VITRINE_READ(__ldca)
VITRINE_READ(__ldcg)
VITRINE_READ(__ldcs)
VITRINE_WRITE(__stwb)
VITRINE_WRITE(__stcg)
VITRINE_WRITE(__stcs)
#undef VITRINE_READ
#undef VITRINE_WRITE
