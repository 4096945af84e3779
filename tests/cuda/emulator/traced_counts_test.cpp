// The emulator's counts, against numbers that are computed by hand from the rules: transactions of
// 32 bytes, 32 banks of 4 bytes. This file is compiled with VITRINE_TRACE_OPTIONS.
#include <doctest/doctest.h>

#include "core/creation.h"
#include "cuda/emulator/counts.h"
#include "cuda/launch.h"
#include "ops/view.h"

namespace {

using namespace vitrine;
using emulator::Counts;

constexpr unsigned kTile = 32;

__global__ void transpose_kernel(float* y, const float* x, unsigned n) {
  const unsigned i = blockIdx.y * kTile + threadIdx.y, j = blockIdx.x * kTile + threadIdx.x;
  y[j * n + i] = x[i * n + j];
}

/// Rows of `kWidth` elements in shared memory: a column of 32 wide rows lies in one bank, of 33
/// wide ones in all.
template <unsigned kWidth>
__global__ void transpose_tiles_kernel(float* y, const float* x, unsigned n) {
  __shared__ float tile[kTile][kWidth];
  tile[threadIdx.y][threadIdx.x] =
      x[(blockIdx.y * kTile + threadIdx.y) * n + blockIdx.x * kTile + threadIdx.x];
  __syncthreads();
  y[(blockIdx.x * kTile + threadIdx.y) * n + blockIdx.y * kTile + threadIdx.x] =
      tile[threadIdx.x][threadIdx.y];
}

template <class T>
__global__ void strided_kernel(T* y, const T* x, unsigned stride) {
  __shared__ T buffer[32 * 8];
  buffer[threadIdx.x * stride] = x[threadIdx.x * stride];
  __syncthreads();
  y[threadIdx.x] = buffer[threadIdx.x * stride];
}

__global__ void broadcast_kernel(float* y, const float* x) {
  __shared__ float first;
  if (threadIdx.x == 0) first = x[0];
  __syncthreads();
  y[threadIdx.x] = x[0] + first;
}

/// Odd threads go another way, and have one access more before they meet the others again.
__global__ void divergent_kernel(float* y, const float* x) {
  float sum = 0;
  if (threadIdx.x % 2 == 1) sum = x[32 + threadIdx.x];
  __syncwarp();
  for (unsigned i = 0; i < 1 + threadIdx.x % 2; ++i) sum += x[i * 32 + threadIdx.x];
  y[threadIdx.x] = sum;
}

__global__ void atomics_kernel(int* y) { atomicAdd(&y[threadIdx.x % 4], 1); }

template <class T>
Tensor on_device(int64_t n) {
  return zeros({n}, sizeof(T) == 4 ? DType::float32 : DType::float64, Device::cuda);
}

template <class Kernel, class... Arguments>
Counts count(Kernel* counted, dim3 grid, dim3 block, Arguments... arguments) {
  emulator::count_kernels(true);
  VITRINE_LAUNCH(counted, grid, block, 0, arguments...);
  const auto all = emulator::kernel_counts();
  emulator::count_kernels(false);
  return all.at("counted");
}

template <class T>
Counts count_strided(unsigned stride) {
  const Tensor x = zeros({32 * 8 * 4}, DType::float32, Device::cuda);
  Tensor y = zeros({32 * 4}, DType::float32, Device::cuda);
  return count(strided_kernel<T>, 1, 32, static_cast<T*>(y.raw()), static_cast<const T*>(x.raw()), stride);
}

Counts count_transpose(void (*kernel)(float*, const float*, unsigned)) {
  const Tensor x = on_device<float>(64 * 64);
  Tensor y = on_device<float>(64 * 64);
  return count(kernel, dim3(2, 2), dim3(32, 32), y.data<float>(), x.data<float>(), 64u);
}

}  // namespace

TEST_CASE(
    "a transpose: one side is not coalesced; tiles in shared memory mend it, padding removes their bank "
    "conflicts") {
  const Counts direct = count_transpose(transpose_kernel);
  CHECK(direct.launches == 1);
  CHECK(direct.loads == 4096);
  CHECK(direct.stores == 4096);
  CHECK(direct.bytes == 2 * 4 * 4096);
  CHECK(direct.accesses == 256);
  CHECK(direct.transactions == 128 * 4 + 128 * 32);
  CHECK(direct.least_transactions == 256 * 4);
  CHECK(direct.shared_accesses == 0);

  const Counts tiled = count_transpose(transpose_tiles_kernel<32>);
  CHECK(tiled.transactions == 256 * 4);
  CHECK(tiled.shared_loads == 4096);
  CHECK(tiled.shared_stores == 4096);
  CHECK(tiled.shared_accesses == 256);
  CHECK(tiled.bank_conflicts == 128 * 31);

  const Counts padded = count_transpose(transpose_tiles_kernel<33>);
  CHECK(padded.transactions == 256 * 4);
  CHECK(padded.bank_conflicts == 0);
}

TEST_CASE("transactions and bank conflicts of strided accesses of 4, 8 and 16 bytes") {
  // Stride 1: as few transactions as hold the bytes, and no conflict. The store to y is always
  // contiguous.
  CHECK(count_strided<float>(1).transactions == 4 + 4);
  CHECK(count_strided<double>(1).transactions == 8 + 8);
  CHECK(count_strided<float4>(1).transactions == 16 + 16);
  CHECK(count_strided<float>(1).bank_conflicts == 0);
  CHECK(count_strided<double>(1).bank_conflicts == 0);
  CHECK(count_strided<float4>(1).bank_conflicts == 0);
  // Stride 2: two words a bank for a store and a load. Of 8 bytes, two words for each half of the
  // warp.
  CHECK(count_strided<float>(2).transactions == 8 + 4);
  CHECK(count_strided<float>(2).least_transactions == 4 + 4);
  CHECK(count_strided<float>(2).bank_conflicts == 2 * 1);
  CHECK(count_strided<double>(2).bank_conflicts == 2 * 2 * 1);
  CHECK(count_strided<float4>(2).bank_conflicts == 2 * 4 * 1);
  CHECK(count_strided<float>(8).transactions == 32 + 4);
  CHECK(count_strided<float>(8).bank_conflicts == 2 * 7);
}

TEST_CASE("a word that all lanes read is one transaction, and no conflict") {
  const Tensor x = on_device<float>(1);
  Tensor y = on_device<float>(32);
  const Counts c = count(broadcast_kernel, 1, 32, y.data<float>(), x.data<float>());
  CHECK(c.transactions == 1 + 1 + 4);
  CHECK(c.shared_accesses == 2);
  CHECK(c.bank_conflicts == 0);
}

TEST_CASE("lanes that diverge make accesses of their own, and meet again after a barrier") {
  const Tensor x = on_device<float>(64);
  Tensor y = on_device<float>(32);
  const Counts c = count(divergent_kernel, 1, 32, y.data<float>(), x.data<float>());
  CHECK(c.loads == 16 + 32 + 16);
  CHECK(c.accesses == 4);  // the branch, two rounds of the loop, and the store
  CHECK(c.transactions == 4 * 4);
}

TEST_CASE("atomics are counted apart, and launches of untraced kernels at least by number") {
  Tensor y = to(zeros({4}, DType::int32), Device::cuda);
  const Counts c = count(atomics_kernel, 3, 64, y.data<int>());
  CHECK(c.atomics == 3 * 64);
  CHECK(c.loads == 0);
  CHECK(c.transactions == 3 * 2);
  CHECK(y.values()[0] == 48);
}

TEST_CASE("the table has a line a kernel, and says of which kernels only launches are known") {
  Counts known, unknown;
  known.launches = 2, known.loads = 64, known.accesses = 2, known.transactions = 64,
  known.least_transactions = 8;
  unknown.launches = 3, unknown.traced = false;
  const std::string table = emulator::to_table({{"known", known}, {"other", unknown}});
  CHECK(table.find("transactions  per access  coalesced") != std::string::npos);
  CHECK(table.find("        64        32.0       12 %") != std::string::npos);
  CHECK(table.find("other          3  not traced") != std::string::npos);
}
