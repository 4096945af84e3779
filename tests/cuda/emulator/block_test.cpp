// The emulator itself: barriers, shuffles, shared memory, atomics, and the mistakes that it finds.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/parallel.h"
#include "cuda/launch.h"

namespace {

using namespace vitrine;

__global__ void reverse_kernel(int* y, const int* x, int n) {
  VITRINE_DYNAMIC_SHARED(int, buffer);
  const int i = static_cast<int>(threadIdx.x);
  buffer[i] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  y[blockIdx.x * blockDim.x + threadIdx.x] = buffer[n - 1 - i];
}

/// The same without its barrier.
__global__ void racing_kernel(int* y, const int* x, int n) {
  VITRINE_DYNAMIC_SHARED(int, buffer);
  const int i = static_cast<int>(threadIdx.x);
  buffer[i] = x[blockIdx.x * blockDim.x + threadIdx.x];
  y[blockIdx.x * blockDim.x + threadIdx.x] = buffer[n - 1 - i];
}

__global__ void warp_kernel(int* y) {
  const int lane = static_cast<int>(threadIdx.x % 32), at = static_cast<int>(threadIdx.x);
  int sum = lane;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  y[at] = sum;
  y[64 + at] = __shfl_down_sync(0xffffffffu, lane, 4u);
  y[128 + at] = __shfl_sync(0xffffffffu, lane, 3, 8);
  y[192 + at] = static_cast<int>(__ballot_sync(0xffffffffu, lane < 5));
}

__global__ void count_kernel(int* counter, float* total) {
  atomicAdd(counter, 1);
  atomicAdd(total, 0.5f);
}

__global__ void half_barrier_kernel(int) {
  if (threadIdx.x < 20) __syncthreads();
}

__global__ void two_barriers_kernel(int) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void half_warp_kernel(int* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
}

__global__ void index_kernel(int* y) {
  y[(blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x * blockDim.y + threadIdx.y * blockDim.x +
    threadIdx.x] = static_cast<int>(1000 * blockIdx.y + 100 * blockIdx.x + 10 * threadIdx.y + threadIdx.x);
}

/// Which thread came when, before a barrier and after it.
__global__ void arrival_kernel(int* arrivals, int* counters) {
  arrivals[atomicAdd(&counters[0], 1)] = static_cast<int>(threadIdx.x);
  __syncthreads();
  arrivals[32 + atomicAdd(&counters[1], 1)] = static_cast<int>(threadIdx.x);
}

std::vector<int> arrivals(uint64_t order) {
  std::vector<int> result(64);
  int counters[2] = {};
  emulator::set_thread_order(order);
  VITRINE_LAUNCH(arrival_kernel, 1, 32, 0, result.data(), &counters[0]);
  emulator::set_thread_order(0);
  return result;
}

std::vector<int> reversed(void (*kernel)(int*, const int*, int), uint64_t order) {
  std::vector<int> x(5 * 96), y(x.size());
  std::iota(x.begin(), x.end(), 0);
  emulator::set_thread_order(order);
  VITRINE_LAUNCH(kernel, 5, 96, 96 * sizeof(int), y.data(), x.data(), 96);
  emulator::set_thread_order(0);
  return y;
}

std::string message(void (*kernel)(int), unsigned threads) {
  try {
    VITRINE_LAUNCH(kernel, 1, threads, 0, 0);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a barrier makes shared memory of all threads visible, in any order of the threads") {
  for (const uint64_t order : {0, 1, 2, 3}) {
    const auto y = reversed(reverse_kernel, order);
    for (int i = 0; i < 5 * 96; ++i) CHECK(y[static_cast<size_t>(i)] == i / 96 * 96 + 95 - i % 96);
  }
}

TEST_CASE("a seed gives the threads an order, another one after each barrier, and the same when run again") {
  const auto first = arrivals(1);
  CHECK(first == arrivals(1));
  CHECK(first != arrivals(2));
  CHECK(first != arrivals(0));
  CHECK(!std::equal(first.begin(), first.begin() + 31,
                    first.begin() + 33));  // the last thread at a barrier goes on at once
  for (const int thread : {0, 7, 31}) CHECK(std::count(first.begin(), first.end(), thread) == 2);
}

TEST_CASE("a missing barrier shows: the result depends on the order of the threads or is wrong") {
  const auto right = reversed(reverse_kernel, 0);
  bool wrong = false;
  for (const uint64_t order : {0, 1, 2}) wrong = wrong || reversed(racing_kernel, order) != right;
  CHECK(wrong);
}

TEST_CASE("warp functions give the lanes that CUDA promises") {
  std::vector<int> y(256);
  VITRINE_LAUNCH(warp_kernel, 1, 64, 0, y.data());
  for (int i = 0; i < 64; ++i) {
    const auto at = static_cast<size_t>(i);
    const int lane = i % 32;
    CHECK(y[at] == 31 * 16);
    CHECK(y[64 + at] == (lane + 4 < 32 ? lane + 4 : lane));
    CHECK(y[128 + at] == lane / 8 * 8 + 3);
    CHECK(y[192 + at] == 31);
  }
}

TEST_CASE("blocks in parallel meet in atomics, and indices count as they should") {
  int counter = 0;
  float total = 0;
  VITRINE_LAUNCH(count_kernel, dim3(7, 3), dim3(32, 2), 0, &counter, &total);
  CHECK(counter == 21 * 64);
  CHECK(total == 21 * 32);
  std::vector<int> y(2 * 3 * 4 * 5);
  VITRINE_LAUNCH(index_kernel, dim3(3, 2), dim3(5, 4), 0, y.data());
  CHECK(y.back() == 1000 + 200 + 30 + 4);
  CHECK(y[5 * 4 + 5] == 110);
}

TEST_CASE("threads that miss a barrier are named") {
  const std::string half = message(half_barrier_kernel, 64);
  CHECK(half.find("kernel half_barrier_kernel") == std::string::npos);  // the launch names the expression
  CHECK(half.find("block (0, 0, 0): no thread can go on: thread (0, 0, 0) waits at block_test.cpp:") !=
        std::string::npos);
  CHECK(half.find("thread (20, 0, 0) has ended") != std::string::npos);
  CHECK(message(two_barriers_kernel, 32).find("waits at the barrier") != std::string::npos);
  CHECK(message([](int) { __syncthreads(); }, 64) == "");  // and the next kernel runs as if nothing had been
  std::vector<int> y(32);
  CHECK_THROWS_WITH(VITRINE_LAUNCH(half_warp_kernel, 1, 32, 0, y.data()),
                    doctest::Contains("every lane of its mask"));
}

TEST_CASE("impossible launches are refused, and CUDA's functions outside kernels") {
  int x = 0;
  CHECK_THROWS_WITH(VITRINE_LAUNCH(index_kernel, 1, 1025, 0, &x), doctest::Contains("1 to 1024 threads"));
  CHECK_THROWS_WITH(VITRINE_LAUNCH(index_kernel, 1, 1, size_t{300} << 10, &x),
                    doctest::Contains("shared memory"));
  CHECK_THROWS_WITH(__syncthreads(), "a function of CUDA threads was called outside a kernel");
}
