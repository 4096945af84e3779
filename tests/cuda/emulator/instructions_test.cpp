// The emulated twins of tensor-core and copy instructions: what the lanes of a warp hold, and when
// copies arrive.
#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/random.h"
#include "cuda/instructions/async_copy.h"
#include "cuda/instructions/mma.h"
#include "ops/matmul.h"
#include "ops/view.h"

namespace {

using namespace vitrine;
using cuda::AsyncCopies, cuda::Fragment;

/// z [16, 8] = x [16, 16] · y [16, 8] by one warp: each lane picks its elements by the
/// instruction's description.
template <class T>
__global__ void multiply(float* z, const T* x, const T* y) {
  const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
  const auto two = [](T low, T high) { return uint32_t{low.bits} | uint32_t{high.bits} << 16; };
  Fragment a;
  for (unsigned q = 0; q < 4; ++q) {
    const T* const at = &x[(g + q % 2 * 8) * 16 + 2 * t + q / 2 * 8];
    a.quarter[q] = two(at[0], at[1]);
  }
  const auto b = [&](unsigned k) { return two(y[k * 8 + g], y[(k + 1) * 8 + g]); };
  float sum[4] = {};
  cuda::multiply_accumulate<T>(sum, a, b(2 * t), b(2 * t + 8));
  for (unsigned e = 0; e < 4; ++e) z[(g + e / 2 * 8) * 8 + 2 * t + e % 2] = sum[e];
}

/// y[lane, quarter, 0 or 1] = what load_matrices gives of the numbers from 0 to 255.
template <bool kTransposed>
__global__ void load(int* y) {
  VITRINE_DYNAMIC_SHARED(uint16_t, numbers);
  const unsigned lane = threadIdx.x;
  for (unsigned i = 0; i < 8; ++i) numbers[lane * 8 + i] = static_cast<uint16_t>(lane * 8 + i);
  __syncwarp();
  const Fragment f = cuda::load_matrices<kTransposed>(&numbers[lane * 8]);
  for (unsigned q = 0; q < 4; ++q) {
    y[lane * 8 + 2 * q] = static_cast<int>(f.quarter[q] & 0xffff);
    y[lane * 8 + 2 * q + 1] = static_cast<int>(f.quarter[q] >> 16);
  }
}

/// y[0..3] before the copies are waited for, y[4..7] when the first group is there, y[8..11] when
/// both are.
__global__ void copy(float* y, const float* x) {
  VITRINE_DYNAMIC_SHARED(float, buffer);
  for (int i = 0; i < 8; ++i) buffer[i] = 7;
  AsyncCopies copies;
  copies.copy16(&buffer[0], &x[0], 16);
  copies.commit();
  copies.copy16(&buffer[4], &x[4], 4);
  copies.commit();
  for (int i = 0; i < 2; ++i) y[2 * i] = buffer[4 * i], y[2 * i + 1] = buffer[4 * i + 1];
  copies.wait<1>();
  for (int i = 0; i < 2; ++i) y[4 + 2 * i] = buffer[4 * i], y[4 + 2 * i + 1] = buffer[4 * i + 1];
  copies.wait<0>();
  for (int i = 0; i < 2; ++i) y[8 + 2 * i] = buffer[4 * i], y[8 + 2 * i + 1] = buffer[4 * i + 1];
}

template <class T>
void check_product() {
  Generator g(1);
  const Tensor x = copy_as(randn({16, 16}, DType::float32, Device::cpu, 0, 1, g), dtype_v<T>);
  const Tensor y = copy_as(randn({16, 8}, DType::float32, Device::cpu, 0, 1, g), dtype_v<T>);
  Tensor z = empty({16, 8}, DType::float32, Device::cuda);
  VITRINE_LAUNCH(multiply<T>, 1, 32, 0, z.data<float>(), to(x, Device::cuda).template data<T>(),
                 to(y, Device::cuda).template data<T>());
  const auto got = z.values(), want = matmul(copy_as(x, DType::float64), copy_as(y, DType::float64)).values();
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-5));
}

}  // namespace

TEST_CASE("the lanes of a warp multiply 16 × 16 by 16 × 8 matrices together") {
  check_product<bfloat16>();
  check_product<float16>();
}

TEST_CASE("load_matrices spreads rows, or columns, of 8 × 8 matrices over the lanes") {
  Tensor y = to(zeros({32, 4, 2}, DType::int32), Device::cuda);
  for (const bool transposed : {false, true}) {
    if (transposed) {
      VITRINE_LAUNCH(load<true>, 1, 32, 512, y.data<int>());
    } else {
      VITRINE_LAUNCH(load<false>, 1, 32, 512, y.data<int>());
    }
    const auto got = y.values();
    for (size_t lane = 0; lane < 32; ++lane)
      for (size_t q = 0; q < 4; ++q)
        for (size_t i = 0; i < 2; ++i) {
          const size_t row = lane / 4, column = 2 * (lane % 4) + i;
          const size_t want = 64 * q + (transposed ? 8 * column + row : 8 * row + column);
          CHECK(got[lane * 8 + 2 * q + i] == static_cast<double>(want));
        }
  }
}

TEST_CASE("an asynchronous copy arrives when it is waited for, and not before") {
  const Tensor x = to(tensor({1, 2, 3, 4, 5, 6, 7, 8}), Device::cuda);
  Tensor y = empty({12}, DType::float32, Device::cuda);
  VITRINE_LAUNCH(copy, 1, 1, 32, y.data<float>(), x.data<float>());
  const auto got = y.values();
  for (const size_t i : {0, 1, 2, 3, 6, 7}) CHECK(std::isnan(got[i]));
  CHECK(got[4] == 1);
  CHECK(got[5] == 2);
  CHECK(got[8] == 1);
  CHECK(got[10] == 5);
  CHECK(got[11] == 0);  // after the four bytes of the second copy
}
