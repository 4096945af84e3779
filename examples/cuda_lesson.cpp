// A CUDA lesson without a GPU: kernels with mistakes and the emulator's messages, then three ways
// to transpose a matrix and their costs. docs/cuda.md explains it. With the compile options
// VITRINE_TRACE_OPTIONS the emulator sees each memory access of this file.
#include <fmt/format.h>

#include <cstdio>

#include "core/creation.h"
#include "cuda/emulator/counts.h"
#include "cuda/launch.h"
#include "ops/view.h"

using namespace vitrine;

namespace {

// Lesson 1: reverse an array through shared memory ------------------------------------------------

__global__ void reverse_too_soon(float* y, const float* x) {
  __shared__ float buffer[256];
  buffer[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = buffer[blockDim.x - 1 - threadIdx.x];  // has that thread written it yet?
}

__global__ void reverse(float* y, const float* x) {
  __shared__ float buffer[256];
  buffer[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = buffer[blockDim.x - 1 - threadIdx.x];
}

// Lesson 2: bounds, uninitialized memory, a barrier in a branch -----------------------------------

__global__ void scale_too_far(float* y, const float* x, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) y[i] = 2 * x[i];
}

__global__ void sum_of_unwritten(float* y, const float* x, unsigned n) {
  __shared__ float buffer[256];
  if (threadIdx.x < n) buffer[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  for (unsigned half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) buffer[threadIdx.x] += buffer[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) *y = buffer[0];
}

__global__ void barrier_in_branch(float* y, const float* x, unsigned n) {
  if (threadIdx.x < n) {
    y[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
  }
}

// Lesson 3: transpose -----------------------------------------------------------------------------

constexpr unsigned kTile = 32;

__global__ void transpose(float* y, const float* x, unsigned n) {
  const unsigned i = blockIdx.y * kTile + threadIdx.y, j = blockIdx.x * kTile + threadIdx.x;
  y[j * n + i] = x[i * n + j];
}

/// A tile passes through shared memory, so that both reads and writes are along rows.
template <unsigned kWidth>
__device__ void transpose_through(float (&tile)[kTile][kWidth], float* y, const float* x, unsigned n) {
  const unsigned i = blockIdx.y * kTile, j = blockIdx.x * kTile;
  tile[threadIdx.y][threadIdx.x] = x[(i + threadIdx.y) * n + j + threadIdx.x];
  __syncthreads();
  y[(j + threadIdx.y) * n + i + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

__global__ void transpose_tiled(float* y, const float* x, unsigned n) {
  __shared__ float tile[kTile][kTile];
  transpose_through(tile, y, x, n);
}

__global__ void transpose_padded(float* y, const float* x, unsigned n) {
  __shared__ float tile[kTile][kTile + 1];  // the elements of a column are in 32 different banks
  transpose_through(tile, y, x, n);
}

/// Runs a kernel and prints the error message of the emulator.
template <class F>
void attempt(const char* what, F&& run) {
  fmt::print("{}\n", what);
  try {
    run();
    fmt::print("  no errors found\n\n");
  } catch (const Error& e) {
    fmt::print("  {}\n\n", e.what());
  }
}

}  // namespace

int main() {
  const Tensor x = ones({256}, DType::float32, Device::cuda);
  Tensor y = zeros({256}, DType::float32, Device::cuda);
  float* const to = y.data<float>();
  const float* const from = x.data<float>();

  attempt("Reverse an array, without a barrier:",
          [&] { VITRINE_LAUNCH(reverse_too_soon, 1, 256, 0, to, from); });
  attempt("With __syncthreads():", [&] { VITRINE_LAUNCH(reverse, 1, 256, 0, to, from); });
  attempt("A bound with <= in place of <:",
          [&] { VITRINE_LAUNCH(scale_too_far, 2, 256, 0, to, from, 256u); });
  attempt("A sum of 256 elements, of which 200 were written:",
          [&] { VITRINE_LAUNCH(sum_of_unwritten, 1, 256, 0, to, from, 200u); });
  attempt("A barrier that only 200 of 256 threads reach:",
          [&] { VITRINE_LAUNCH(barrier_in_branch, 1, 256, 0, to, from, 200u); });

  constexpr unsigned n = 128;
  const Tensor matrix = ones({n, n}, DType::float32, Device::cuda);
  Tensor transposed = zeros({n, n}, DType::float32, Device::cuda);
  const dim3 grid(n / kTile, n / kTile), block(kTile, kTile);
  emulator::count_kernels(true);
  VITRINE_LAUNCH(transpose, grid, block, 0, transposed.data<float>(), matrix.data<float>(), n);
  VITRINE_LAUNCH(transpose_tiled, grid, block, 0, transposed.data<float>(), matrix.data<float>(), n);
  VITRINE_LAUNCH(transpose_padded, grid, block, 0, transposed.data<float>(), matrix.data<float>(), n);
  fmt::print("Three ways to transpose a {} x {} matrix:\n{}", n, n,
             emulator::to_table(emulator::kernel_counts()));
  return std::fflush(stdout) == 0 ? 0 : 1;  // 1: the output could not be printed completely
}
