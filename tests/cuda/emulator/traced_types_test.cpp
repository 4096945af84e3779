// Accesses through CUDA's own types and functions are reported with the lines of the kernel:
// vectors, 16-bit numbers, reads through caches, atomic operations. This file is compiled with
// VITRINE_TRACE_OPTIONS.
#include <doctest/doctest.h>

#include <string>

#include "core/creation.h"
#include "cuda/emulator/counts.h"
#include "cuda/half.h"
#include "cuda/launch.h"
#include "ops/view.h"

namespace {

using namespace vitrine;

template <class T>
__global__ void copy_kernel(T* y, const T* x) {
  y[threadIdx.x] = x[threadIdx.x];
}
template <class T>
__global__ void cached_copy_kernel(T* y, const T* x) {
  __stcs(&y[threadIdx.x], __ldg(&x[threadIdx.x]));
}

enum class By { operation, conversion, in_place, atomics };

constexpr int kFirstLine = __LINE__;
template <By kBy, class T>
__global__ void add_one_kernel(T* y) {
  T* const mine = &y[threadIdx.x];
  if constexpr (kBy == By::operation) *mine = *mine + T(1.0f);
  if constexpr (kBy == By::conversion) *mine = T(float(*mine) + 1);
  if constexpr (kBy == By::in_place) *mine += T(1.0f);
  if constexpr (kBy == By::atomics) atomicAdd(mine, T(1.0f));
}
constexpr int kLastLine = __LINE__;

/// What the emulator counts in one warp.
template <class Kernel, class... Arguments>
emulator::Counts counts(Kernel* counted, Arguments... arguments) {
  emulator::count_kernels(true);
  VITRINE_LAUNCH(counted, 1, 32, 0, arguments...);
  const emulator::Counts result = emulator::kernel_counts().at("counted");
  emulator::count_kernels(false);
  return result;
}

template <class T>
void check_copies(Tensor& y, const Tensor& x) {
  auto* const to = static_cast<T*>(y.raw());
  const auto* const from = static_cast<const T*>(x.raw());
  for (const auto& c : {counts(copy_kernel<T>, to, from), counts(cached_copy_kernel<T>, to, from)}) {
    CHECK(c.loads == 32);
    CHECK(c.stores == 32);
    CHECK(c.bytes == 64 * sizeof(T));
    CHECK(c.accesses == 2);
    CHECK(c.transactions == 2 * sizeof(T));
  }
}

template <By kBy, class T>
void check_16_bits() {
  Tensor y = zeros({32}, DType::float16, Device::cuda);  // 0 is 0 in bfloat16, too
  const auto c = counts(add_one_kernel<kBy, T>, static_cast<T*>(y.raw()));
  CHECK(c.loads + c.stores + 2 * c.atomics == 64);
  CHECK(c.bytes == (kBy == By::atomics ? 64 : 128));
  CHECK(c.accesses == (kBy == By::atomics ? 1 : 2));
  try {
    VITRINE_LAUNCH((add_one_kernel<kBy, T>), 1, 33, 0, static_cast<T*>(y.raw()));
    FAIL("the last thread was beyond the end");
  } catch (const Error& e) {
    const std::string what = e.what(), file = "traced_types_test.cpp:";
    INFO(what);
    CHECK(what.find("thread (32, 0, 0)") != std::string::npos);
    REQUIRE(what.find(file) != std::string::npos);
    const int line = std::stoi(what.substr(what.find(file) + file.size()));
    CHECK(line > kFirstLine);
    CHECK(line < kLastLine);
  }
}

}  // namespace

TEST_CASE("a vector's access is one of its size, also through a cache") {
  const Tensor x = zeros({32 * 4}, DType::float32, Device::cuda);
  Tensor y = zeros({32 * 4}, DType::float32, Device::cuda);
  check_copies<float>(y, x);
  check_copies<float2>(y, x);
  check_copies<float4>(y, x);
  check_copies<uchar4>(y, x);
  check_copies<short4>(y, x);
  check_copies<double2>(y, x);
  check_copies<__half2>(y, x);
}

TEST_CASE("accesses to 16-bit numbers belong to the line of the kernel that makes them") {
  check_16_bits<By::operation, __half>();
  check_16_bits<By::conversion, __half>();
  check_16_bits<By::in_place, __half>();
  check_16_bits<By::atomics, __half>();
  check_16_bits<By::in_place, __nv_bfloat16>();
  check_16_bits<By::atomics, __nv_bfloat16>();
}

TEST_CASE("memory that cudaMemset has filled is written") {
  int* y = nullptr;
  REQUIRE(cudaMalloc(&y, 32 * sizeof(int)) == cudaSuccess);
  REQUIRE(cudaMemset(y, 1, 31 * sizeof(int)) == cudaSuccess);
  CHECK_THROWS_WITH(VITRINE_LAUNCH(cached_copy_kernel<int>, 1, 32, 0, y, y),
                    doctest::Contains("that nothing has written: byte 124 of an allocation of 128 bytes"));
  REQUIRE(cudaMemset(y, 1, 32 * sizeof(int)) == cudaSuccess);
  CHECK_NOTHROW(VITRINE_LAUNCH(cached_copy_kernel<int>, 1, 32, 0, y, y));
  CHECK(cudaFree(y) == cudaSuccess);
}
