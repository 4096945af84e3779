// CUDA's 16-bit types as kernels use them: each operation rounds once, to nearest with ties to
// even.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <type_traits>
#include <vector>

#include "cuda/half.h"
#include "cuda/launch.h"

namespace {

using namespace vitrine;

template <class T>
T of_bits(unsigned bits) {
  if constexpr (std::is_same_v<T, __half>)
    return __ushort_as_half(static_cast<unsigned short>(bits));
  else
    return __ushort_as_bfloat16(static_cast<unsigned short>(bits));
}
unsigned bits_of(__half x) { return __half_as_ushort(x); }
unsigned bits_of(__nv_bfloat16 x) { return __bfloat16_as_ushort(x); }

template <class T>
constexpr unsigned kInfinity = std::is_same_v<T, __half> ? 0x7c00 : 0x7f80;

/// By bits, the numbers from 0 on; in the place of infinity the one that would come next.
template <class T>
std::vector<double> numbers() {
  std::vector<double> result;
  for (unsigned bits = 0; bits < kInfinity<T>; ++bits) result.push_back(float(of_bits<T>(bits)));
  result.push_back(2 * result[result.size() - 1] - result[result.size() - 2]);
  return result;
}

/// The bits of the number that is nearest to x, of two the one whose last bit is 0. Written without
/// any arithmetic of the types.
template <class T>
unsigned nearest(double x) {
  static const std::vector<double> all = numbers<T>();
  const unsigned sign = std::signbit(x) ? 0x8000u : 0;
  const double size = std::abs(x);
  if (size >= all.back()) return sign | kInfinity<T>;
  const auto above = static_cast<unsigned>(std::upper_bound(all.begin(), all.end(), size) - all.begin());
  const double to_above = all[above] - size, to_below = size - all[above - 1];
  return sign | (to_above < to_below || (to_above == to_below && above % 2 == 0) ? above : above - 1);
}

/// Numbers in the middle between two neighbours, and next to it.
template <class T>
int wrong_conversions() {
  const auto all = numbers<T>();
  int wrong = 0;
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    const double middle = (all[i] + all[i + 1]) / 2;
    for (const double x : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, INFINITY), all[i]})
      for (const double signed_x : {x, -x}) {
        wrong += bits_of(T(signed_x)) != nearest<T>(signed_x);
        const float single = static_cast<float>(signed_x);
        wrong += bits_of(T(single)) != nearest<T>(single);
      }
  }
  return wrong;
}

struct Results {
  unsigned sum, difference, product, quotient, fused, root;
};

template <class T>
__global__ void compute_kernel(Results* y, const T* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const T a = x[3 * i], b = x[3 * i + 1], c = x[3 * i + 2];
  y[i] = {bits_of(a + b), bits_of(a - b),           bits_of(a * b),
          bits_of(a / b), bits_of(__hfma(a, b, c)), bits_of(hsqrt(__habs(a)))};
}

/// Operands of all sizes whose results are exact in float64, or too far from the middle of two
/// numbers for its rounding to matter.
template <class T>
void check_arithmetic() {
  constexpr int n = 20000;
  constexpr unsigned kSmallest = std::is_same_v<T, __half> ? 0 : 0x3000,
                     kLargest = std::is_same_v<T, __half> ? 0x7c00 : 0x4700;
  std::mt19937 random(1);
  std::vector<T> x;
  while (x.size() < 3 * n) {
    const unsigned bits = static_cast<unsigned>(random());
    if ((bits & 0x7fff) >= kSmallest && (bits & 0x7fff) < kLargest) x.push_back(of_bits<T>(bits & 0xffff));
  }
  std::vector<Results> y(n);
  VITRINE_LAUNCH(compute_kernel<T>, (n + 127) / 128, 128, 0, y.data(), x.data(), n);
  int wrong = 0;
  for (size_t i = 0; i < n; ++i) {
    const double a = float(x[3 * i]), b = float(x[3 * i + 1]), c = float(x[3 * i + 2]);
    wrong += y[i].sum != nearest<T>(a + b);
    wrong += y[i].difference != nearest<T>(a - b);
    wrong += y[i].product != nearest<T>(a * b);
    if (b != 0) wrong += y[i].quotient != nearest<T>(a / b);
    wrong += y[i].fused != nearest<T>(a * b + c);
    wrong += y[i].root != nearest<T>(std::sqrt(std::abs(a)));
  }
  CHECK(wrong == 0);
}

/// As in a homework: a row's scale in pairs, its sum in float32, and a result in place.
__global__ void scale_kernel(__half2* y, float* sum, __half factor) {
  const unsigned i = threadIdx.x;
  y[i] *= __half2half2(factor);
  y[i] = __hfma2(y[i], __float2half2_rn(1.0f), __halves2half2(__half(0.5f), __half(0)));
  const float2 both = __half22float2(y[i]);
  float mine = both.x + both.y;
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, step);
  if (i == 0) *sum = mine;
}

}  // namespace

TEST_CASE("numbers are rounded to nearest, also where float32 would round them first") {
  CHECK(wrong_conversions<__half>() == 0);
  CHECK(wrong_conversions<__nv_bfloat16>() == 0);
  CHECK(float(__half(70000)) == INFINITY);
  CHECK(float(__nv_bfloat16(1 << 30)) == 0x1p30f);
  CHECK(std::isnan(float(__half(std::nan("")))));
}

TEST_CASE("sums, products, quotients, roots and fused multiply-adds in 16 bits round once") {
  check_arithmetic<__half>();
  check_arithmetic<__nv_bfloat16>();
}

TEST_CASE("what is far below the last digit still decides a tie of a fused multiply-add") {
  // a·b = 1.12890625, in the middle
  const __nv_bfloat16 a(1 + 0x1p-4), b(1 + 0x1p-4), tiny(0x1p-120);
  CHECK(float(a * b) == 1.125f);
  CHECK(float(__hfma(a, b, __nv_bfloat16(0))) == 1.125f);
  CHECK(float(__hfma(a, b, tiny)) == 1.1328125f);
  CHECK(float(__hfma(a, b, -tiny)) == 1.125f);
  CHECK(float(__hfma(-a, b, -tiny)) == -1.1328125f);
}

TEST_CASE("pairs of 16-bit numbers are computed with, and lie, as CUDA has them") {
  CHECK(sizeof(__half) == 2);
  CHECK(alignof(__half2) == 4);
  CHECK(sizeof(__nv_bfloat162) == 4);
  CHECK(std::is_trivial_v<__half>);
  std::vector<__half2> y(32);
  for (int i = 0; i < 32; ++i) y[static_cast<size_t>(i)] = __floats2half2_rn(static_cast<float>(i), 1.0f);
  float sum = 0;
  VITRINE_LAUNCH(scale_kernel, 1, 32, 0, y.data(), &sum, __float2half(0.25f));
  CHECK(sum == 31 * 16 * 0.25f + 32 * 0.75f);
  CHECK(__low2float(y[5]) == 1.75f);
  CHECK(float(__high2half(y[5])) == 0.25f);
  const __nv_bfloat162 p = __floats2bfloat162_rn(1, 3), q = __hadd2(p, __bfloat162bfloat162(p.y)) / p;
  CHECK(q == make_bfloat162(4, 2));
  CHECK(__bfloat162float(__low2bfloat16(__lowhigh2highlow(q))) == 2);
}

TEST_CASE("comparisons of 16-bit numbers are those of what they stand for, and false for a NaN") {
  const __half one = 1, two = 2, nan = of_bits<__half>(0x7e00);
  CHECK((one < two && two > one && one <= one && one >= one && one == one && one != two));
  CHECK((__hlt(one, two) && __hle(one, one) && __hgt(two, one) && __hge(two, two) && __heq(one, one) &&
         __hne(one, two)));
  CHECK(!(nan < one || nan > one || nan == nan || __hne(nan, one)));
  CHECK(nan != nan);
  CHECK((__hisnan(nan) && !__hisnan(one)));
  CHECK(__hmax(nan, one) == one);
  CHECK(__hmin(two, one) == one);
  CHECK(__hneg(one) == __half(-1));
}
