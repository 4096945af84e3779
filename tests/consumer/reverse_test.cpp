// A kernel that is written outside the library: the emulator runs it, and finds its race.
#include <doctest/doctest.h>
#include <vitrine/core/creation.h>
#include <vitrine/cuda/launch.h>
#include <vitrine/ops/view.h>

#include <string>
#include <vector>

using namespace vitrine;

namespace {

template <bool kBarrier>
__global__ void reverse_kernel(float* y, const float* x) {
  __shared__ float buffer[64];
  buffer[threadIdx.x] = x[threadIdx.x];
  if (kBarrier) __syncthreads();
  y[threadIdx.x] = buffer[blockDim.x - 1 - threadIdx.x];
}

}  // namespace

TEST_CASE("a kernel of one's own runs, and its missing barrier is a race") {
  const Tensor x = to(copy_as(arange(0, 64), DType::float32), Device::cuda);
  Tensor y = empty_like(x);
  VITRINE_LAUNCH(reverse_kernel<true>, 1, 64, 0, y.data<float>(), x.data<float>());
  CHECK(y.values()[0] == 63);
  const auto racing = [&] {
    VITRINE_LAUNCH(reverse_kernel<false>, 1, 64, 0, y.data<float>(), x.data<float>());
  };
  CHECK_THROWS_WITH(racing(), doctest::Contains("race on buffer + "));
}
