// Compiles a file once per instruction set and calls the version for the set in use. A file of such
// kernels has the form
//
//   #undef HWY_TARGET_INCLUDE
//   // itself: Google Highway includes it again for each set
//   #define HWY_TARGET_INCLUDE "core/simd/row_functions.cpp"
//   #include "core/simd/dispatch.h"  // first, so that every set is known
//   #include "core/simd/vector-inl.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace vitrine::HWY_NAMESPACE { float kernel(const float* x, size_t n) { ... } }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   namespace vitrine {
//   float run(const float* x, size_t n) { return VITRINE_DISPATCH(kernel)(x, n); }
//   }
//   #endif
//
// A template compiles for a set only if it is *defined* between the two HWY_ macros. Code that
// works on vectors is therefore in headers named `-inl.h`, which are included again for each set,
// and lambdas in such code require HWY_ATTR.
#pragma once

// Three sets: the baseline of the architecture, AVX2, and AVX-512. SVE and RISC-V vectors have no
// fixed size, so they cannot be members of a class.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <type_traits>

#include "core/simd/isa.h"

namespace vitrine::detail {

/// The function for the set in use. A null pointer means that a set was not compiled.
template <class F>
F* choose(F* portable, std::type_identity_t<F*> avx2, std::type_identity_t<F*> avx512) {
  const Isa set = isa();
  if (set >= Isa::avx512 && avx512 != nullptr) return avx512;
  if (set >= Isa::avx2 && avx2 != nullptr) return avx2;
  return portable;
}

}  // namespace vitrine::detail

#if HWY_TARGETS & HWY_AVX2
#define VITRINE_AVX2_VERSION(...) &N_AVX2::__VA_ARGS__
#else
#define VITRINE_AVX2_VERSION(...) nullptr
#endif
#if HWY_TARGETS & HWY_AVX3
#define VITRINE_AVX512_VERSION(...) &N_AVX3::__VA_ARGS__
#else
#define VITRINE_AVX512_VERSION(...) nullptr
#endif
// At the end of the file, where HWY_ONCE holds, HWY_NAMESPACE is the namespace of the
// architecture's baseline.
#define VITRINE_PORTABLE_VERSION(...) &HWY_NAMESPACE::__VA_ARGS__

/// VITRINE_DISPATCH(kernel)(x, n) calls the version of HWY_NAMESPACE::kernel for the instruction
/// set in use. `kernel` is a function that is not overloaded, or a function template with its
/// arguments.
#define VITRINE_DISPATCH(...)                                                                          \
  (::vitrine::detail::choose(VITRINE_PORTABLE_VERSION(__VA_ARGS__), VITRINE_AVX2_VERSION(__VA_ARGS__), \
                             VITRINE_AVX512_VERSION(__VA_ARGS__)))
