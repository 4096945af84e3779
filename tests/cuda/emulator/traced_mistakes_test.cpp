// Mistakes that the emulator finds in kernels which tell their accesses: races, bounds, unwritten memory. Beside each stands the
// right kernel, about which it is silent. This file is compiled with VITRINE_TRACE_OPTIONS.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/creation.h"
#include "cuda/block.h"
#include "cuda/launch.h"
#include "cuda/vector.h"
#include "ops/view.h"

namespace {

using namespace vitrine;

constexpr unsigned kThreads = 96;

/// On the device: 0, 1, 2, …
Tensor numbers(int64_t n) { return to(arange(0, static_cast<double>(n), 1, DType::int32), Device::cuda); }
Tensor unwritten(int64_t n) { return empty({n}, DType::int32, Device::cuda); }

/// What the emulator says of a kernel of one or several blocks, "" when nothing.
template <class Kernel, class... Arguments>
std::string complaint(Kernel* suspect, unsigned threads, size_t shared, Arguments... arguments) {
  try {
    VITRINE_LAUNCH(suspect, 2, threads, shared, arguments...);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Races ------------------------------------------------------------------------------------------------------------

template <bool kBarrier>
__global__ void reverse_kernel(int* y, const int* x) {
  VITRINE_DYNAMIC_SHARED(int, buffer);
  buffer[threadIdx.x] = x[threadIdx.x];
  if (kBarrier) __syncthreads();
  y[threadIdx.x] = buffer[kThreads - 1 - threadIdx.x];
}

/// Without the second barrier the next round's writes overtake a slow thread's reads.
template <bool kBarrier>
__global__ void rotate_kernel(int* y, const int* x) {
  __shared__ int buffer[kThreads];
  int value = x[threadIdx.x];
  for (int round = 0; round < 2; ++round) {
    buffer[threadIdx.x] = value;
    __syncthreads();
    value = buffer[(threadIdx.x + 1) % kThreads];
    if (kBarrier) __syncthreads();
  }
  y[threadIdx.x] = value;
}

/// All threads read one value, and one of them overwrites it: its own warp is ordered with it, the others are not.
__global__ void broadcast_kernel(int* y, unsigned writer) {
  __shared__ int value;
  if (threadIdx.x == 0) value = 1;
  __syncthreads();
  y[threadIdx.x] = value;
  __syncwarp();
  if (threadIdx.x == writer) value = 2;
}

enum class Order { shuffle, warp, block };

/// Each thread reads what its neighbour `distance` further has written.
template <Order kOrder>
__global__ void neighbour_kernel(int* y, int distance) {
  __shared__ int buffer[kThreads];
  buffer[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (kOrder == Order::shuffle) __shfl_sync(0xffffffffu, 1, 0);
  if (kOrder == Order::warp) __syncwarp();
  if (kOrder == Order::block) __syncthreads();
  y[threadIdx.x] = buffer[threadIdx.x ^ static_cast<unsigned>(distance)];
}

template <bool kAtomic, bool kBarrier>
__global__ void count_kernel(int* y) {
  __shared__ int counter;
  if (threadIdx.x == 0) counter = 0;
  __syncthreads();
  if (kAtomic) {
    atomicAdd(&counter, 1);
  } else {
    ++counter;
  }
  if (kBarrier) __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = counter;
}

/// The thread that an atomic counter calls the last one reads what the others wrote before they counted.
__global__ void last_kernel(int* y) {
  __shared__ int counter, buffer[kThreads];
  if (threadIdx.x == 0) counter = 0;
  __syncthreads();
  buffer[threadIdx.x] = 1;
  __threadfence();
  if (atomicAdd(&counter, 1) != kThreads - 1) return;
  int sum = 0;
  for (unsigned i = 0; i < kThreads; ++i) sum += buffer[i];
  y[blockIdx.x] = sum;
}

/// Two sums over the block, the second of what the first one gave. Without the barrier at the beginning of a sum its writes overtake
/// a slow thread that still reads the sum before.
template <bool kBarrier>
__device__ int sum_of_warps(int mine) {
  __shared__ int of_warp[vitrine::cuda::kWarp];
  mine = vitrine::cuda::merge_warp(mine, [](int x, int y) { return x + y; });
  if (kBarrier) __syncthreads();
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  int all = 0;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) all += of_warp[warp];
  return all;
}

enum class Sums { of_library, with_barrier, without_barrier };

template <Sums kSums>
__global__ void sum_twice_kernel(int* y, const int* x) {
  const auto sum = [](int mine) {
    if constexpr (kSums == Sums::of_library) return vitrine::cuda::sum_block(mine);
    return sum_of_warps<kSums == Sums::with_barrier>(mine);
  };
  y[threadIdx.x] = sum(x[threadIdx.x] + sum(x[threadIdx.x]));
}

// Bounds -----------------------------------------------------------------------------------------------------------

__global__ void copy_kernel(int* y, const int* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = x[i];
}
__global__ void copy_one_more_kernel(int* y, const int* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i <= n) y[i] = x[i];
}

__global__ void shifted_kernel(int* y, int shift) {
  VITRINE_DYNAMIC_SHARED(int, buffer);
  buffer[threadIdx.x + static_cast<unsigned>(shift)] = 1;
  __syncthreads();
  y[threadIdx.x] = buffer[threadIdx.x];
}

/// Sixteen bytes at an element: whole in the middle, but not at the end.
__global__ void vector_kernel(float* y, const float* x, int at) {
  *reinterpret_cast<float4*>(y) = *reinterpret_cast<const float4*>(x + at);
}

// Unwritten memory -------------------------------------------------------------------------------------------------

__global__ void sum_kernel(int* y, const int* x, int n) {
  __shared__ int buffer[32];
  if (static_cast<int>(threadIdx.x) < n) buffer[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x != 0) return;
  int sum = 0;
  for (int i = 0; i < 32; ++i) sum += buffer[i];
  y[blockIdx.x] = sum;
}

/// What another block left in shared memory is not this one's.
__global__ void first_block_writes_kernel(int* y) {
  __shared__ int value;
  if (blockIdx.x == 0) value = 1;
  y[blockIdx.x] = value;
}

__global__ void add_kernel(int* y, const int* x) { y[threadIdx.x] += x[threadIdx.x]; }

/// Every second number is written, or all; then they are read four at a time.
__global__ void read_together_kernel(float* y, int step) {
  alignas(16) __shared__ float buffer[32];
  for (int i = 0; i < 32; i += step) buffer[i] = 1;
  vitrine::cuda::store(y, vitrine::cuda::load<4>(buffer + 4));
}
__global__ void read_far_together_kernel(float* y, const float* x) {
  vitrine::cuda::store(y, vitrine::cuda::load<4>(x));
}

struct Padded {
  float value;
  double place;
};

/// Copies a struct as a whole; with kBoth, after writing both of its members. The padding between them is never written.
template <bool kBoth>
__global__ void padded_kernel(Padded* y) {
  __shared__ Padded from;
  from.value = 1;
  if (kBoth) from.place = 2;
  *y = from;
}

__global__ void wait_in_branch_kernel(int) {
  if (threadIdx.x < 40) __syncthreads();
}

}  // namespace

TEST_CASE(
    "a missing barrier is a race in every order of the threads: kernel, block, threads, place and lines are "
    "told") {
  Tensor y = unwritten(kThreads), x = numbers(kThreads);
  for (const uint64_t order : {0, 1, 2, 3}) {
    emulator::set_thread_order(order);
    CHECK(complaint(reverse_kernel<true>, kThreads, 384, y.data<int>(), x.data<int>()) == "");
    const std::string found = complaint(reverse_kernel<false>, kThreads, 384, y.data<int>(), x.data<int>());
    INFO(found);
    CHECK(contains(found, "kernel suspect, block ("));
    CHECK(contains(found, "race on dynamic shared memory + "));
    CHECK(contains(found, " of 384 bytes: thread ("));
    CHECK(contains(found, " 4 bytes at traced_mistakes_test.cpp:"));
    CHECK(contains(found, "nothing orders the two"));
    CHECK(complaint(rotate_kernel<true>, kThreads, 0, y.data<int>(), x.data<int>()) == "");
    const std::string rotated = complaint(rotate_kernel<false>, kThreads, 0, y.data<int>(), x.data<int>());
    CHECK(contains(rotated, "race on buffer + "));
  }
  emulator::set_thread_order(0);
  const std::string found = complaint(reverse_kernel<false>, kThreads, 384, y.data<int>(), x.data<int>());
  INFO(found);
  CHECK(
      contains(found, "race on dynamic shared memory + 192 of 384 bytes: thread (48, 0, 0) writes 4 bytes"));
  CHECK(contains(found, "before it thread (47, 0, 0) read it at traced_mistakes_test.cpp:"));
}

TEST_CASE("a sum over a block that begins before all threads have read the sum before is a race") {
  Tensor y = unwritten(512), x = numbers(512);
  for (const unsigned threads : {64u, 96u, 128u, 512u})
    for (const uint64_t order : {0, 1, 2, 3}) {
      emulator::set_thread_order(order);
      INFO(threads, " threads in order ", order);
      CHECK(complaint(sum_twice_kernel<Sums::of_library>, threads, 0, y.data<int>(), x.data<int>()) == "");
      CHECK(complaint(sum_twice_kernel<Sums::with_barrier>, threads, 0, y.data<int>(), x.data<int>()) == "");
      CHECK(contains(
          complaint(sum_twice_kernel<Sums::without_barrier>, threads, 0, y.data<int>(), x.data<int>()),
          "race on of_warp + "));
    }
  emulator::set_thread_order(0);
}

TEST_CASE("__syncwarp orders the lanes of a warp, a shuffle none, and neither other warps") {
  Tensor y = unwritten(kThreads);
  CHECK(complaint(neighbour_kernel<Order::warp>, kThreads, 0, y.data<int>(), 1) == "");
  CHECK(complaint(neighbour_kernel<Order::block>, kThreads, 0, y.data<int>(), 1) == "");
  CHECK(complaint(neighbour_kernel<Order::block>, 64, 0, y.data<int>(), 32) == "");
  CHECK(contains(complaint(neighbour_kernel<Order::shuffle>, kThreads, 0, y.data<int>(), 1),
                 "race on buffer + "));
  CHECK(contains(complaint(neighbour_kernel<Order::warp>, 64, 0, y.data<int>(), 32), "race on buffer + "));
}

TEST_CASE("of many readers none is forgotten: whoever overwrites what other warps read is found") {
  Tensor y = unwritten(kThreads);
  for (const unsigned writer : {0u, 1u, 31u, 64u, 95u})
    CHECK(contains(complaint(broadcast_kernel, kThreads, 0, y.data<int>(), writer),
                   "race on value + 0 of 4 bytes"));
  CHECK(complaint(broadcast_kernel, 32, 0, y.data<int>(), 3u) == "");  // a single warp
}

TEST_CASE("atomics do not race with each other, and order what surrounds them") {
  Tensor y = unwritten(2);
  CHECK(complaint(count_kernel<true, true>, kThreads, 0, y.data<int>()) == "");
  CHECK(y.values() == std::vector<double>{kThreads, kThreads});
  CHECK(contains(complaint(count_kernel<false, true>, kThreads, 0, y.data<int>()),
                 "race on counter + 0 of 4 bytes"));
  CHECK(contains(complaint(count_kernel<true, false>, kThreads, 0, y.data<int>()), "atomically changes"));
  CHECK(complaint(last_kernel, kThreads, 0, y.data<int>()) == "");
  CHECK(y.values() == std::vector<double>{kThreads, kThreads});
}

TEST_CASE("a bound that is off by one is found where the access happens") {
  Tensor y = unwritten(100), x = numbers(100);
  CHECK(complaint(copy_kernel, 64, 0, y.data<int>(), x.data<int>(), 100) == "");
  const std::string found = complaint(copy_one_more_kernel, 64, 0, y.data<int>(), x.data<int>(), 100);
  INFO(found);
  CHECK(contains(found, "block (1, 0, 0): thread (36, 0, 0) reads 4 bytes at traced_mistakes_test.cpp:"));
  CHECK(contains(found, ", 0 bytes behind an allocation of 400 bytes"));
  CHECK(contains(complaint(copy_kernel, 64, 0, y.data<int>(), x.data<int>() - 1, 100),
                 "4 bytes before an allocation of 400 bytes"));
  const int of_the_host[100] = {};
  CHECK(contains(complaint(copy_kernel, 64, 0, y.data<int>(), &of_the_host[0], 100), "pointer of the host"));
}

TEST_CASE("shared memory ends where the launch said, and a wide access must be inside with all its bytes") {
  Tensor y = unwritten(32);
  CHECK(complaint(shifted_kernel, 32, 128, y.data<int>(), 0) == "");
  CHECK(contains(complaint(shifted_kernel, 32, 128, y.data<int>(), 1),
                 "thread (31, 0, 0) writes 4 bytes at traced_mistakes_test.cpp:"));
  CHECK(contains(complaint(shifted_kernel, 32, 128, y.data<int>(), 1),
                 "0 bytes behind the 128 bytes of dynamic shared memory"));
  Tensor to4 = empty({4}, DType::float32, Device::cuda), x = zeros({10}, DType::float32, Device::cuda);
  CHECK(complaint(vector_kernel, 1, 0, to4.data<float>(), x.data<float>(), 4) == "");
  CHECK(contains(complaint(vector_kernel, 1, 0, to4.data<float>(), x.data<float>(), 8),
                 "reads 16 bytes at traced_mistakes_test.cpp:"));
  CHECK(contains(complaint(vector_kernel, 1, 0, to4.data<float>(), x.data<float>(), 8),
                 "at byte 32 of an allocation of 40 bytes, which ends before"));
}

TEST_CASE("a read of shared or global memory that nothing has written is found") {
  Tensor y = unwritten(2), x = numbers(32);
  CHECK(complaint(sum_kernel, 32, 0, y.data<int>(), x.data<int>(), 32) == "");
  const std::string found = complaint(sum_kernel, 32, 0, y.data<int>(), x.data<int>(), 31);
  INFO(found);
  CHECK(contains(found, "thread (0, 0, 0) reads 4 bytes at traced_mistakes_test.cpp:"));
  CHECK(contains(found, "that no thread of the block has written: buffer + 124 of 128 bytes"));
  CHECK(contains(complaint(first_block_writes_kernel, 1, 0, y.data<int>()),
                 "block (1, 0, 0): thread (0, 0, 0) reads 4 bytes"));
  Tensor z = unwritten(32);
  CHECK(contains(complaint(add_kernel, 32, 0, z.data<int>(), x.data<int>()),
                 "that nothing has written: byte 0 of an allocation of 128 bytes"));
  z = zeros({32}, DType::int32, Device::cuda);  // by a kernel that is not traced
  CHECK(complaint(add_kernel, 32, 0, z.data<int>(), x.data<int>()) == "");
}

TEST_CASE("of numbers that are read together each one must be written") {
  Tensor y = empty({4}, DType::float32, Device::cuda), x = empty({4}, DType::float32, Device::cuda);
  CHECK(complaint(read_together_kernel, 1, 0, y.data<float>(), 1) == "");
  CHECK(contains(complaint(read_together_kernel, 1, 0, y.data<float>(), 2),
                 "thread (0, 0, 0) reads 16 bytes at traced_mistakes_test.cpp:"));
  cudaMemset(x.data<float>(), 0, 12);  // three of four
  const std::string found = complaint(read_far_together_kernel, 1, 0, y.data<float>(), x.data<float>());
  CHECK(contains(found, "that nothing has written: byte 0 of an allocation"));
  cudaMemset(x.data<float>() + 3, 0, 4);
  CHECK(complaint(read_far_together_kernel, 1, 0, y.data<float>(), x.data<float>()) == "");
}

TEST_CASE("padding of a struct need not be written, its members must") {
  Tensor y = empty({2}, DType::float64, Device::cuda);
  CHECK(complaint(padded_kernel<true>, 1, 0, static_cast<Padded*>(y.raw())) == "");
  CHECK(contains(complaint(padded_kernel<false>, 1, 0, static_cast<Padded*>(y.raw())),
                 "no thread of the block"));
}

TEST_CASE("a barrier that some threads never reach is told in traced kernels too") {
  const std::string found = complaint(wait_in_branch_kernel, 64, 0, 0);
  CHECK(contains(found, "thread (0, 0, 0) waits at traced_mistakes_test.cpp:"));
  CHECK(contains(found, "thread (40, 0, 0) has ended"));
}
