// The functions of core/math.h for vectors. Google Highway's approximations are used where they are
// accurate, with corrections for infinities, NaN, zeros and arguments outside their range. Errors
// are given in ulp of the result; the tests measure them for each instruction set
// (tests/core/simd/row_functions_test.cpp).
#if defined(VITRINE_CORE_VEC_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VITRINE_CORE_VEC_MATH_INL_H_
#undef VITRINE_CORE_VEC_MATH_INL_H_
#else
#define VITRINE_CORE_VEC_MATH_INL_H_
#endif

#include <cmath>
#include <limits>

#include "core/math.h"
#include "core/simd/dispatch.h"
// After simd.h:
#include <hwy/contrib/math/math-inl.h>

#include "core/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vitrine {
namespace HWY_NAMESPACE {

// Keeps the scalar functions visible next to the vector functions of the same names.
using math::abs, math::cos, math::erf, math::exp, math::expm1, math::is_finite, math::is_nan, math::log,
    math::log1p;
using math::max, math::min, math::mul_add, math::pow, math::rsqrt, math::select, math::sign, math::sin,
    math::sqrt;
using math::tanh;

template <class T>
inline constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <class T>
inline constexpr T kNan = std::numeric_limits<T>::quiet_NaN();

template <class T>
HWY_INLINE Mask<T> is_nan(Vec<T> x) {
  return {hn::IsNaN(x.raw)};
}
template <class T>
HWY_INLINE Vec<T> abs(Vec<T> x) {
  return hn::Abs(x.raw);
}
template <class T>
HWY_INLINE Mask<T> is_finite(Vec<T> x) {
  return abs(x) <= Vec<T>(std::numeric_limits<T>::max());
}
/// NaN if either is NaN.
template <class T>
HWY_INLINE Vec<T> max(Vec<T> x, Vec<T> y) {
  return select(x > y || is_nan(x), x, y);
}
template <class T>
HWY_INLINE Vec<T> min(Vec<T> x, Vec<T> y) {
  return select(x < y || is_nan(x), x, y);
}
/// −1, 1, or x itself for zeros and NaN.
template <class T>
HWY_INLINE Vec<T> sign(Vec<T> x) {
  const Vec<T> zero(0);
  return select(x > zero, Vec<T>(1), select(x < zero, Vec<T>(-1), x));
}
template <class T>
HWY_INLINE Vec<T> sqrt(Vec<T> x) {
  return hn::Sqrt(x.raw);
}
template <class T>
HWY_INLINE Vec<T> rsqrt(Vec<T> x) {
  return Vec<T>(1) / sqrt(x);
}

namespace detail {

/// x clamped to [low, high]. NaN becomes low, so that it never reaches a conversion to an integer.
template <class T>
HWY_INLINE Vec<T> into_range(Vec<T> x, Vec<T> low, Vec<T> high) {
  return select(x > low, select(x < high, x, high), low);
}

/// f applied element by element, for functions that have no vector form here.
template <class T, class F, class... Vecs>
HWY_INLINE Vec<T> by_element(F f, Vecs... x) {
  constexpr size_t kArguments = sizeof...(Vecs);
  HWY_ALIGN T in[kArguments][kLanes<T>];
  HWY_ALIGN T out[kLanes<T>];
  size_t k = 0;
  (hn::Store(x.raw, Tag<T>(), in[k++]), ...);
  for (size_t i = 0; i < kLanes<T>; ++i) {
    if constexpr (kArguments == 1) {
      out[i] = f(in[0][i]);
    } else {
      out[i] = f(in[0][i], in[1][i]);
    }
  }
  return hn::Load(Tag<T>(), out);
}

template <class T, size_t N>
HWY_INLINE Vec<T> polynomial(Vec<T> x, const T (&coefficients)[N]) {
  Vec<T> y(coefficients[N - 1]);
  for (size_t i = N - 1; i-- > 0;) y = mul_add(y, x, Vec<T>(coefficients[i]));
  return y;
}

/// x·2^n for integers n in [-150, 128], rounded at most once, even if the result is denormal or
/// infinite. NaN stays NaN for every n.
HWY_INLINE Vec<float> scale_by_power_of_2(Vec<float> x, Vec<float> n) {
#if HWY_TARGET == HWY_AVX3
  return Vec<float>(Vec<float>::Raw{_mm512_scalef_ps(x.raw.raw, n.raw.raw)});
#else
  const hn::Rebind<int32_t, Tag<float> > d;
  const auto power = [d](auto e) HWY_ATTR {
    return Vec<float>(hn::BitCast(Tag<float>(), hn::ShiftLeft<23>(hn::Add(e, hn::Set(d, 127)))));
  };
  // In portable code the conversion is a cast, which is undefined for NaN; x stays NaN.
  if constexpr (HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR) n = select(is_nan(n), Vec<float>(0), n);
  const auto whole = hn::ConvertTo(d, n.raw),
             half = hn::ShiftRight<1>(whole);  // each half is a normal number
  return x * power(half) * power(hn::Sub(whole, half));
#endif
}

}  // namespace detail

/// e^x = 2^n·e^r with n = round(x/log 2) and r = x − n·log 2, where log 2 is split into two parts
/// (Cody and Waite 1980). e^r is the polynomial 1 + r + r²·q(r), with a relative error of at most
/// 3.8e-9.
HWY_INLINE Vec<float> exp(Vec<float> x) {
  using V = Vec<float>;
  constexpr float kLow = -104, kHigh = 89;  // beyond these the result is 0 or infinity
  // A product that underflows takes some 200 processor cycles, so results that become 0 (masked
  // scores, for example) are not computed.
  const Mask<float> vanishes = x < V(kLow);
  // NaN stays NaN, here and below
  const V z = select(x > V(kHigh), V(kHigh), select(vanishes, V(0), x));
  constexpr float kWhole = 0x1.8p23f;  // adding this rounds to an integer
  const V n = mul_add(z, V(1.44269504f), V(kWhole)) - V(kWhole);
  const V r = mul_add(n, V(-1.42860677e-6f), mul_add(n, V(-0.693145752f), z));
  const V q =
      detail::polynomial(r, {0.49999994f, 0.16666521132f, 0.04166838899f, 0.00836871751f, 0.00138145965f});
  return select(vanishes, V(0), detail::scale_by_power_of_2(mul_add(r * r, q, r) + V(1), n));
}

template <class T>
HWY_INLINE Vec<T> exp(Vec<T> x) {
  constexpr T kLow = sizeof(T) == 4 ? -104 : -746, kHigh = sizeof(T) == 4 ? 89 : 710;
  const Mask<T> vanishes = x < Vec<T>(kLow);
  const Vec<T> z = select(vanishes, Vec<T>(0), x);
  const Vec<T> y = hn::Exp(Tag<T>(), detail::into_range<T>(z, kLow, kHigh).raw);
  return select(is_nan(x), x, select(vanishes, Vec<T>(0), y));
}

template <class T>
HWY_INLINE Vec<T> expm1(Vec<T> x) {
  // Beyond these the result is −1 or infinity.
  constexpr T kLow = sizeof(T) == 4 ? -20 : -40, kHigh = sizeof(T) == 4 ? 89 : 710;
  const Vec<T> y = hn::Expm1(Tag<T>(), detail::into_range<T>(x, kLow, kHigh).raw);
  return select(is_nan(x) || x == Vec<T>(0), x, y);
}

template <class T>
HWY_INLINE Vec<T> log(Vec<T> x) {
  const Vec<T> y = hn::Log(Tag<T>(), x.raw);
  const Vec<T> edge = select(x == Vec<T>(0), Vec<T>(-kInfinity<T>), Vec<T>(kNan<T>));
  return select(x == Vec<T>(kInfinity<T>), x, select(x > Vec<T>(0), y, edge));
}

template <class T>
HWY_INLINE Vec<T> log1p(Vec<T> x) {
  const Vec<T> y = hn::Log1p(Tag<T>(), x.raw);
  const Vec<T> edge = select(x == Vec<T>(-1), Vec<T>(-kInfinity<T>), Vec<T>(kNan<T>));
  return select(x == Vec<T>(kInfinity<T>), x, select(x > Vec<T>(-1), y, edge));
}

template <class T>
HWY_INLINE Vec<T> tanh(Vec<T> x) {
  constexpr T kLimit = 20;  // beyond this tanh is 1 in either precision
  const Vec<T> y = hn::Tanh(Tag<T>(), detail::into_range<T>(x, -kLimit, kLimit).raw);
  return select(is_nan(x) || x == Vec<T>(0), x, y);
}

namespace detail {

/// x = r + q·π/2 + 2π·k with |r| ≤ π/4 and q in {0, 1, 2, 3}. Multiples of π/2 are subtracted in
/// four parts; the first parts have few bits, so that their products are exact (Cody and Waite).
/// For |x| below kSinCosLimit.
template <class T>
struct Quadrant {
  Vec<T> r, q;

  explicit HWY_INLINE Quadrant(Vec<T> x) {
    static constexpr T kFloatParts[] = {0x1.92p0, 0x1.fbp-12, 0x1.51p-22, 0x1.0b4612p-34};
    static constexpr T kDoubleParts[] = {0x1.921fb5p0, 0x1.110b46p-26, 0x1.1a6263p-54, 0x1.8a2e03707344ap-81};
    constexpr auto& kParts = sizeof(T) == 4 ? kFloatParts : kDoubleParts;
    const Vec<T> n = hn::Round((x * Vec<T>(0.63661977236758134308)).raw);
    r = x;
    for (T part : kParts) r = mul_add(-n, Vec<T>(part), r);
    q = n - Vec<T>(4) * Vec<T>(hn::Floor((n * Vec<T>(0.25)).raw));
  }
};

/// sin(r) and cos(r) for |r| ≤ π/4: r + r³·S(r²) and 1 − r²/2 + r⁴·C(r²). The minimax coefficients
/// are those of fdlibm's __kernel_sin and __kernel_cos for double, and of Cephes' sinf and cosf for
/// float.
template <class T>
HWY_INLINE Vec<T> sin_polynomial(Vec<T> r) {
  static constexpr float kFloat[] = {-1.6666654611e-1f, 8.3321608736e-3f, -1.9515295891e-4f};
  static constexpr double kDouble[] = {-1.66666666666666324348e-01, 8.33333333332248946124e-03,
                                       -1.98412698298579493134e-04, 2.75573137070700676789e-06,
                                       -2.50507602534068634195e-08, 1.58969099521155010221e-10};
  const Vec<T> r2 = r * r;
  if constexpr (sizeof(T) == 4)
    return mul_add(r2 * r, polynomial(r2, kFloat), r);
  else
    return mul_add(r2 * r, polynomial(r2, kDouble), r);
}
template <class T>
HWY_INLINE Vec<T> cos_polynomial(Vec<T> r) {
  static constexpr float kFloat[] = {4.166664568298827e-2f, -1.388731625493765e-3f, 2.443315711809948e-5f};
  static constexpr double kDouble[] = {4.16666666666666019037e-02, -1.38888888888741095749e-03,
                                       2.48015872894767294178e-05, -2.75573143513906633035e-07,
                                       2.08757232129817482790e-09, -1.13596475577881948265e-11};
  const Vec<T> r2 = r * r;
  const Vec<T> parabola = mul_add(r2, Vec<T>(-0.5), Vec<T>(1));
  if constexpr (sizeof(T) == 4)
    return mul_add(r2 * r2, polynomial(r2, kFloat), parabola);
  else
    return mul_add(r2 * r2, polynomial(r2, kDouble), parabola);
}

/// Above this limit the reduction loses digits, and sin and cos call the C library element by
/// element.
template <class T>
inline constexpr T kSinCosLimit = 25735;  // 2¹⁴ · π/2

}  // namespace detail

template <class T>
HWY_INLINE Vec<T> sin(Vec<T> x) {
  if (any(!(abs(x) < Vec<T>(detail::kSinCosLimit<T>))))
    return detail::by_element<T>([](T v) { return std::sin(v); }, x);
  const detail::Quadrant<T> in(x);
  const Vec<T> one(1), two(2);
  const Vec<T> y =
      select(in.q == one || in.q > two, detail::cos_polynomial(in.r), detail::sin_polynomial(in.r));
  return select(x == Vec<T>(0), x, select(in.q >= two, -y, y));
}

template <class T>
HWY_INLINE Vec<T> cos(Vec<T> x) {
  if (any(!(abs(x) < Vec<T>(detail::kSinCosLimit<T>))))
    return detail::by_element<T>([](T v) { return std::cos(v); }, x);
  const detail::Quadrant<T> in(x);
  const Vec<T> one(1), two(2);
  const Vec<T> y =
      select(in.q == one || in.q > two, detail::sin_polynomial(in.r), detail::cos_polynomial(in.r));
  return select(in.q == one || in.q == two, -y, y);
}

/// Element by element through std::pow.
template <class T>
HWY_INLINE Vec<T> pow(Vec<T> x, Vec<T> y) {
  return detail::by_element<T>([](T a, T b) { return std::pow(a, b); }, x, y);
}

/// x + x·P(x²) for |x| ≤ 1, else 1 − exp(Q(|x|)). From 3.95 on erf is 1 in float. P and Q are
/// minimax polynomials; with coefficients in float, the errors relative to erf are 8.7e-9 and
/// 1.7e-9.
HWY_INLINE Vec<float> erf(Vec<float> x) {
  using V = Vec<float>;
  const V a = min_of_numbers(abs(x), V(3.95f));
  const V p = detail::polynomial(x * x, {0.12837917f, -0.37612626f, 0.11283585f, -0.026853817f, 0.0051883347f,
                                         -0.00080102478f, 0.000078540266f});
  const V q = detail::polynomial(a, {-0.00034151296f, -1.127089262f, -0.63814473f, -0.10310682f, 0.021838095f,
                                     -0.0029476664f, 0.00018638006f});
  const V beyond = V(1) - exp(q);
  const V y = select(a <= V(1), mul_add(x, p, x), select(x < V(0), -beyond, beyond));
  return select(is_nan(x), x, y);
}

/// W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969):
/// x·A(x²)/B(x²) for |x| ≤ 0.46875, else 1 − exp(−x²)·C(|x|)/D(|x|). Cody's third range, |x| > 4,
/// is needed for erfc only: for erf the second range holds up to 6, where erf is 1 in double.
template <class T>
HWY_INLINE Vec<T> erf(Vec<T> x) {
  static constexpr T kA[] = {3.20937758913846947e03, 3.77485237685302021e02, 1.13864154151050156e02,
                             3.16112374387056560e00, 1.85777706184603153e-1};
  static constexpr T kB[] = {2.84423683343917062e03, 1.28261652607737228e03, 2.44024637934444173e02,
                             2.36012909523441209e01, 1.0};
  static constexpr T kC[] = {1.23033935479799725e03, 2.05107837782607147e03, 1.71204761263407058e03,
                             8.81952221241769090e02, 2.98635138197400131e02, 6.61191906371416295e01,
                             8.88314979438837594e00, 5.64188496988670089e-1, 2.15311535474403846e-8};
  static constexpr T kD[] = {1.23033935480374942e03, 3.43936767414372164e03, 4.36261909014324716e03,
                             3.29079923573345963e03, 1.62138957456669019e03, 5.37181101862009858e02,
                             1.17693950891312499e02, 1.57449261107098347e01, 1.0};
  using V = Vec<T>;
  const V a = min_of_numbers(abs(x), V(6));
  const V a2 = a * a;
  const auto near_zero = a <= V(0.46875);
  const V ratio = select(near_zero, detail::polynomial(a2, kA), detail::polynomial(a, kC)) /
                  select(near_zero, detail::polynomial(a2, kB), detail::polynomial(a, kD));
  const V beyond = V(1) - exp(-a2) * ratio;
  const V y = select(near_zero, x * ratio, select(x < V(0), -beyond, beyond));
  return select(is_nan(x), x, y);
}

}  // namespace HWY_NAMESPACE
}  // namespace vitrine
HWY_AFTER_NAMESPACE();

#endif  // VITRINE_CORE_VEC_MATH_INL_H_
