// Vec<T>: a value type for a vector of floats or doubles, as wide as the instruction set allows. It
// is a thin wrapper around Google Highway, so that a formula written for a scalar also compiles for
// vectors. It has operators, comparisons that give a Mask, select, and loads and stores (also of
// fewer elements than a vector has, and of 16-bit floats, which are converted). Read
// core/simd/dispatch.h first; the mathematical functions are in core/simd/vector_functions-inl.h.
#if defined(VITRINE_CORE_VEC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VITRINE_CORE_VEC_INL_H_
#undef VITRINE_CORE_VEC_INL_H_
#else
#define VITRINE_CORE_VEC_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/dtype.h"
#include "core/simd/dispatch.h"
#include "core/simd/pointers.h"
// Again for each set:
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;

/// Number of elements in a Vec<T>.
template <class T>
inline constexpr size_t kLanes = HWY_LANES(T);

/// One truth value per element of a Vec<T>. && and || evaluate both sides.
template <class T>
struct Mask {
  hn::Mask<Tag<T>> raw;

  friend HWY_INLINE Mask operator&&(Mask x, Mask y) { return {hn::And(x.raw, y.raw)}; }
  friend HWY_INLINE Mask operator||(Mask x, Mask y) { return {hn::Or(x.raw, y.raw)}; }
  friend HWY_INLINE Mask operator!(Mask x) { return {hn::Not(x.raw)}; }
};

template <class T>
struct Vec {
  using Scalar = T;
  using Raw = hn::Vec<Tag<T>>;
  Raw raw;

  Vec() = default;
  HWY_INLINE Vec(Raw r) : raw(r) {}
  HWY_INLINE Vec(T x) : raw(hn::Set(Tag<T>(), x)) {}
  /// Any other number type, so that T(0.5) and T(1) mean the same for a vector as for a scalar.
  template <class N>
  requires(std::is_arithmetic_v<N> && !std::is_same_v<N, T>) explicit HWY_INLINE Vec(N x)
      : Vec(static_cast<T>(x)) {}

  friend HWY_INLINE Vec operator+(Vec x, Vec y) { return hn::Add(x.raw, y.raw); }
  friend HWY_INLINE Vec operator-(Vec x, Vec y) { return hn::Sub(x.raw, y.raw); }
  friend HWY_INLINE Vec operator*(Vec x, Vec y) { return hn::Mul(x.raw, y.raw); }
  friend HWY_INLINE Vec operator/(Vec x, Vec y) { return hn::Div(x.raw, y.raw); }
  friend HWY_INLINE Vec operator-(Vec x) { return hn::Neg(x.raw); }
  HWY_INLINE Vec& operator+=(Vec y) { return *this = *this + y; }
  HWY_INLINE Vec& operator-=(Vec y) { return *this = *this - y; }
  HWY_INLINE Vec& operator*=(Vec y) { return *this = *this * y; }
  HWY_INLINE Vec& operator/=(Vec y) { return *this = *this / y; }

  friend HWY_INLINE Mask<T> operator==(Vec x, Vec y) { return {hn::Eq(x.raw, y.raw)}; }
  friend HWY_INLINE Mask<T> operator!=(Vec x, Vec y) { return !(x == y); }  // NaN differs from all
  friend HWY_INLINE Mask<T> operator<(Vec x, Vec y) { return {hn::Lt(x.raw, y.raw)}; }
  friend HWY_INLINE Mask<T> operator>(Vec x, Vec y) { return {hn::Gt(x.raw, y.raw)}; }
  friend HWY_INLINE Mask<T> operator<=(Vec x, Vec y) { return {hn::Le(x.raw, y.raw)}; }
  friend HWY_INLINE Mask<T> operator>=(Vec x, Vec y) { return {hn::Ge(x.raw, y.raw)}; }
};

template <class T>
HWY_INLINE Vec<T> select(Mask<T> condition, Vec<T> x, Vec<T> y) {
  return hn::IfThenElse(condition.raw, x.raw, y.raw);
}

/// x·y + z, rounded once where the machine has fused multiply-add.
template <class T>
HWY_INLINE Vec<T> mul_add(Vec<T> x, Vec<T> y, Vec<T> z) {
  return hn::MulAdd(x.raw, y.raw, z.raw);
}

/// The larger and the smaller of two numbers. Neither may be NaN.
template <class T>
HWY_INLINE Vec<T> max_of_numbers(Vec<T> x, Vec<T> y) {
  return hn::Max(x.raw, y.raw);
}
template <class T>
HWY_INLINE Vec<T> min_of_numbers(Vec<T> x, Vec<T> y) {
  return hn::Min(x.raw, y.raw);
}

template <class T>
HWY_INLINE bool any(Mask<T> mask) {
  return !hn::AllFalse(Tag<T>(), mask.raw);
}

/// The sum, the largest and the smallest of the elements, in an order that the instruction set
/// fixes. For the latter two no element may be NaN.
template <class T>
HWY_INLINE T reduce_sum(Vec<T> x) {
  return hn::GetLane(hn::SumOfLanes(Tag<T>(), x.raw));
}
template <class T>
HWY_INLINE T reduce_max(Vec<T> x) {
#if HWY_TARGET == HWY_EMU128  // MaxOfLanes there starts at the largest negative number, above −∞
  return *std::max_element(x.raw.raw, x.raw.raw + kLanes<T>);
#else
  return hn::GetLane(hn::MaxOfLanes(Tag<T>(), x.raw));
#endif
}
template <class T>
HWY_INLINE T reduce_min(Vec<T> x) {
#if HWY_TARGET == HWY_EMU128
  return *std::min_element(x.raw.raw, x.raw.raw + kLanes<T>);
#else
  return hn::GetLane(hn::MinOfLanes(Tag<T>(), x.raw));
#endif
}

// ---- Loads and stores ----
// S is the element type in memory: T itself, or for T = float also bfloat16 or float16.

template <class S>
inline constexpr bool is_16_bit = std::is_same_v<S, bfloat16> || std::is_same_v<S, float16>;

// AVX2 and later convert float16, and load and store under a mask without touching masked elements.
// Other sets convert float16 element by element with core/float16.h, and use a buffer for a part of
// a vector.
#undef VITRINE_AT_LEAST_AVX2
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define VITRINE_AT_LEAST_AVX2 1
#else
#define VITRINE_AT_LEAST_AVX2 0
#endif

namespace detail {

using Bits16 = hn::Rebind<uint16_t, Tag<float>>;
using Bits32 = hn::Rebind<uint32_t, Tag<float>>;

HWY_INLINE Vec<float> load_16_bit(const bfloat16* x) {
  const auto bits = hn::LoadU(Bits16(), reinterpret_cast<const uint16_t*>(x));
  return hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(hn::PromoteTo(Bits32(), bits)));
}

/// The upper halves of the bits of v plus `added`, which decides how v is rounded. A NaN stays a
/// quiet NaN.
template <class Bits>
HWY_INLINE void store_upper_halves(bfloat16* y, Vec<float> v, Bits added) {
  const Bits32 d;
  const auto bits = hn::BitCast(d, v.raw);
  const auto quiet = hn::Or(bits, hn::Set(d, 0x400000u));
  const auto is_number = hn::RebindMask(d, (v == v).raw);
  const auto kept = hn::ShiftRight<16>(hn::IfThenElse(is_number, hn::Add(bits, added), quiet));
  hn::StoreU(hn::TruncateTo(Bits16(), kept), Bits16(), reinterpret_cast<uint16_t*>(y));
}

/// Rounds to nearest, ties to even, by adding half a unit less the parity of the kept part.
HWY_INLINE void store_16_bit(bfloat16* y, Vec<float> v) {
  const Bits32 d;
  const auto odd = hn::And(hn::ShiftRight<16>(hn::BitCast(d, v.raw)), hn::Set(d, 1u));
  store_upper_halves(y, v, hn::Add(odd, hn::Set(d, 0x7fffu)));
}

HWY_INLINE Vec<float> load_16_bit(const float16* x) {
#if VITRINE_AT_LEAST_AVX2
  const hn::Rebind<hwy::float16_t, Tag<float>> d;
  return hn::PromoteTo(Tag<float>(), hn::LoadU(d, reinterpret_cast<const hwy::float16_t*>(x)));
#else
  HWY_ALIGN float wide[kLanes<float>];
  for (size_t i = 0; i < kLanes<float>; ++i) wide[i] = static_cast<float>(x[i]);
  return hn::Load(Tag<float>(), wide);
#endif
}

HWY_INLINE void store_16_bit(float16* y, Vec<float> v) {
#if VITRINE_AT_LEAST_AVX2
  const hn::Rebind<hwy::float16_t, Tag<float>> d;
  hn::StoreU(hn::DemoteTo(d, v.raw), d, reinterpret_cast<hwy::float16_t*>(y));
#else
  HWY_ALIGN float wide[kLanes<float>];
  hn::Store(v.raw, Tag<float>(), wide);
  for (size_t i = 0; i < kLanes<float>; ++i) y[i] = float16(wide[i]);
#endif
}

}  // namespace detail

/// x[0 … lanes).
template <class S>
HWY_INLINE Vec<AccumulatorOf<S>> load(const S* x) {
  if constexpr (is_16_bit<S>) {
    return detail::load_16_bit(x);
  } else {
    return hn::LoadU(Tag<S>(), x);
  }
}

template <class S>
HWY_INLINE void store(S* y, Vec<AccumulatorOf<S>> v) {
  if constexpr (is_16_bit<S>) {
    detail::store_16_bit(y, v);
  } else {
    hn::StoreU(v.raw, Tag<S>(), y);
  }
}

/// x[0 … n) for n < lanes, followed by `fill`. Nothing from x[n] on is read.
template <class S>
HWY_INLINE Vec<AccumulatorOf<S>> load_part(const S* x, size_t n, AccumulatorOf<S> fill = 0) {
  using T = AccumulatorOf<S>;
  const Mask<T> first = {hn::FirstN(Tag<T>(), n)};
  if constexpr (VITRINE_AT_LEAST_AVX2 && !is_16_bit<S>) {
    return select<T>(first, hn::MaskedLoad(first.raw, Tag<T>(), x), fill);
  } else {
    S buffer[kLanes<T>] = {};
    std::memcpy(buffer, x, n * sizeof(S));
    return select<T>(first, load(buffer), fill);
  }
}

/// Writes the first n < lanes elements.
template <class S>
HWY_INLINE void store_part(S* y, Vec<AccumulatorOf<S>> v, size_t n) {
  using T = AccumulatorOf<S>;
  if constexpr (VITRINE_AT_LEAST_AVX2 && !is_16_bit<S>) {
    hn::BlendedStore(v.raw, hn::FirstN(Tag<T>(), n), Tag<T>(), y);
  } else {
    S buffer[kLanes<T>];
    store(buffer, v);
    std::memcpy(y, buffer, n * sizeof(S));
  }
}

template <class S>
HWY_INLINE Vec<AccumulatorOf<S>> load(ScaledPointer<S> x) {
  return load(x.x) * Vec<AccumulatorOf<S>>(x.factor);
}
template <class S>
HWY_INLINE Vec<AccumulatorOf<S>> load_part(ScaledPointer<S> x, size_t n) {
  return load_part(x.x, n) * Vec<AccumulatorOf<S>>(x.factor);
}

// Floats in two halves (core/halves.h).

HWY_INLINE Vec<float> load(HalvesPointer x) {
  const detail::Bits32 d;
  const auto high = hn::LoadU(detail::Bits16(), reinterpret_cast<const uint16_t*>(x.high));
  const auto low = hn::PromoteTo(d, hn::LoadU(detail::Bits16(), x.low));
  const auto truncated = hn::Sub(hn::PromoteTo(d, high), hn::ShiftRight<15>(low));
  return hn::BitCast(Tag<float>(), hn::Or(hn::ShiftLeft<16>(truncated), low));
}

HWY_INLINE void store(HalvesPointer y, Vec<float> v) {
  const detail::Bits32 d;
  const auto bits = hn::BitCast(d, v.raw);
  const auto is_nan = hn::RebindMask(d, (v != v).raw);
  const auto quiet = hn::Or(bits, hn::Set(d, 0x400000u));
  const auto rounded = hn::Add(bits, hn::Set(d, 0x8000u));
  const auto high = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  hn::StoreU(hn::TruncateTo(detail::Bits16(), high), detail::Bits16(), reinterpret_cast<uint16_t*>(y.high));
  hn::StoreU(hn::TruncateTo(detail::Bits16(), hn::IfThenZeroElse(is_nan, bits)), detail::Bits16(), y.low);
}

HWY_INLINE Vec<float> load_part(HalvesPointer x, size_t n) {
  bfloat16 high[kLanes<float>] = {};
  uint16_t low[kLanes<float>] = {};
  std::memcpy(high, x.high, n * sizeof(bfloat16));
  std::memcpy(low, x.low, n * sizeof(uint16_t));
  return load(HalvesPointer{high, low});
}

HWY_INLINE void store_part(HalvesPointer y, Vec<float> v, size_t n) {
  bfloat16 high[kLanes<float>];
  uint16_t low[kLanes<float>];
  store(HalvesPointer{high, low}, v);
  std::memcpy(y.high, high, n * sizeof(bfloat16));
  std::memcpy(y.low, low, n * sizeof(uint16_t));
}

// bfloat16 with stochastic rounding: round_stochastically and random_bits16 for vectors.

HWY_INLINE Vec<float> load(StochasticPointer x) { return load(static_cast<const bfloat16*>(x.x)); }
HWY_INLINE Vec<float> load_part(StochasticPointer x, size_t n) {
  return load_part(static_cast<const bfloat16*>(x.x), n);
}

HWY_INLINE void store(StochasticPointer y, Vec<float> v) {
  const detail::Bits32 d;
  // Iota(d, y.i) would write the numbers to memory one by one.
  const auto i = hn::Add(hn::Iota(d, 0u), hn::Set(d, y.i));
  auto h = hn::Xor(i, hn::Set(d, y.key));
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(d, 0x85ebca6bu));
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<13>(h)), hn::Set(d, 0xc2b2ae35u));
  detail::store_upper_halves(y.x, v, hn::ShiftRight<16>(h));
}

HWY_INLINE void store_part(StochasticPointer y, Vec<float> v, size_t n) {
  bfloat16 buffer[kLanes<float>];
  store(StochasticPointer{buffer, y.i, y.key}, v);
  std::memcpy(y.x, buffer, n * sizeof(bfloat16));
}

}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#endif  // VITRINE_CORE_VEC_INL_H_
