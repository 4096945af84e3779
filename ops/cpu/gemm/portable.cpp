// Products of few rows on any CPU, in vectors that the compiler translates. OpenBLAS would pack all
// of B first, and reads 16-bit numbers only as floats.
#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "ops/cpu/gemm/task.h"

namespace vitrine::cpu {
namespace {

struct Portable {
  using V = float __attribute__((vector_size(16)));
  using Bits = uint32_t __attribute__((vector_size(16)));
  static constexpr int kWidth = 4, kPerUnit = 1;

  static V zero() { return V{}; }
  static V set(float x) { return V{x, x, x, x}; }
  static V add(V x, V y) { return x + y; }
  static V mul(V x, V y) { return x * y; }
  static V fma(V x, V y, V z) { return x * y + z; }
  static V fma_float(V x, V y, V z) { return x * y + z; }
  static V load(const float* p) {
    V x;
    std::memcpy(&x, p, sizeof x);
    return x;
  }
  template <class T>
  static V load_units(const T* p) {
    return V{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]),
             static_cast<float>(p[3])};
  }
  template <class T>
  static V load_units_partial(const T* p, int64_t n) {
    V x{};
    for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(p[i]);
    return x;
  }

  template <class T>
  static V load_partial(const T* p, int64_t n) {
    return load_units_partial(p, n);
  }
  template <class T>
  static void store_partial(T* p, V x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) p[i] = static_cast<T>(x[i]);
  }

  /// Numbers in 8 bits, less 128.
  static V levels(const uint8_t* p) {
    V x{};
    for (int i = 0; i < kWidth; ++i) x[i] = static_cast<float>(p[i] - 128);
    return x;
  }

  /// The first and the second number of each pair of bfloat16, as floats.
  static V low(V pairs) { return floats(bits(pairs) << kFirst); }
  static V high(V pairs) { return floats(bits(pairs) << kSecond & 0xffff0000u); }

  /// The sums of the lanes of four vectors.
  static void sum4(const V* x, float* to) {
    for (int i = 0; i < 4; ++i) to[i] = (x[i][0] + x[i][2]) + (x[i][1] + x[i][3]);
  }

 private:
  static constexpr int kFirst = std::endian::native == std::endian::little ? 16 : 0, kSecond = 16 - kFirst;
  static Bits bits(V x) { return reinterpret_cast<Bits>(x); }
  static V floats(Bits x) { return reinterpret_cast<V>(x); }
};

#include "ops/cpu/gemm/block_end-inl.h"
#include "ops/cpu/gemm/dots-inl.h"

}  // namespace

template <class T, class TC>
void portable::dots(const GemmTask<T, TC>& task) {
  thin_dots<Dots<Portable, T>>(task);
}
template <class T>
void portable::gemm_int8(const Int8Task<T>& task) {
  int8_dots<Portable>(task);
}
template void portable::gemm_int8(const Int8Task<float>&);
template void portable::gemm_int8(const Int8Task<bfloat16>&);
template void portable::gemm_int8(const Int8Task<float16>&);
template void portable::dots(const GemmTask<float, float>&);
template void portable::dots(const GemmTask<bfloat16, float>&);
template void portable::dots(const GemmTask<bfloat16, bfloat16>&);
template void portable::dots(const GemmTask<float16, float>&);
template void portable::dots(const GemmTask<float16, float16>&);

}  // namespace vitrine::cpu
