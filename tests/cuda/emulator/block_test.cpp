// The emulator itself: barriers, shuffles, shared memory, atomics, and the mistakes that it finds.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/parallel.h"
#include "cuda/emulator/limits.h"
#include "cuda/launch.h"
#include "tests/cuda/device.h"

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

/// The votes of three barriers in a row: how many threads are odd, whether any is the last, whether
/// all are below n.
__global__ void vote_kernel(int* y, int n) {
  const int i = static_cast<int>(threadIdx.x), last = static_cast<int>(blockDim.x) - 1;
  y[4 * i] = __syncthreads_count(i % 2);
  y[4 * i + 1] = __syncthreads_or(i == last ? 2 : 0);
  y[4 * i + 2] = __syncthreads_and(i < n);
  y[4 * i + 3] = __syncthreads_count(i < n);
}

__constant__ int powers[3];

__global__ void constant_kernel(int* y) { y[threadIdx.x] = powers[threadIdx.x]; }

/// Calls itself `depth` times, with 4 KiB of variables each.
int deep(int depth) {
  volatile char room[4096];
  room[depth % 4096] = static_cast<char>(depth);
  return depth == 0 ? 0 : deep(depth - 1) + room[depth % 4096];
}
__global__ void deep_kernel(int* y, int depth) { *y = deep(depth); }

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

__global__ void shared_kernel(int* y) {
  VITRINE_DYNAMIC_SHARED(int, buffer);
  *y = buffer[0] = 1;
}

/// What CUDA offers and no kernel of Vitrine happens to use: the last block to come adds up what
/// the others have left.
__global__ void last_block_kernel(float* total, float4* of_block, unsigned* come, int* largest,
                                  const int* x) {
  const int lane = static_cast<int>(threadIdx.x), mine = x[blockIdx.x * 32 + threadIdx.x];
  int sum = mine;
  for (unsigned step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  sum = __shfl_sync(0xffffffffu, sum, 0);
  const bool positive = __all_sync(0xffffffffu, mine > 0);
  atomicMax(largest, mine);
  if (lane != 0) return;
  of_block[blockIdx.x] = {static_cast<float>(sum), positive ? 1.0f : 0.0f, 0, 0};
  __threadfence();
  if (atomicAdd(come, 1u) + 1 < gridDim.x) return;
  atomicExch(come, 0u);  // for the next launch
  for (unsigned b = 0; b < gridDim.x; ++b) total[0] += of_block[b].x, total[1] += of_block[b].y;
}

/// Which thread came when, before a barrier and after it.
__global__ void arrival_kernel(int* arrivals, int* counters) {
  arrivals[atomicAdd(&counters[0], 1)] = static_cast<int>(threadIdx.x);
  __syncthreads();
  arrivals[32 + atomicAdd(&counters[1], 1)] = static_cast<int>(threadIdx.x);
}

/// The first thread spins until the last one has written, in each of the ways that kernels do.
__global__ void spin_kernel(int* y) {
  __shared__ int ready, lock;
  if (threadIdx.x == 0) ready = lock = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    const volatile int* const seen = &ready;
    while (*seen < 1) __threadfence_block();
    y[0] = 1;
    while (*seen < 2) __nanosleep(20);
    y[1] = 2;
    while (atomicAdd(&ready, 0) < 3) {
    }
    y[2] = 3;
  } else if (threadIdx.x == blockDim.x - 1) {
    for (int i = 0; i < 3; ++i) atomicAdd(&ready, 1), __threadfence_block();
  }
  while (atomicCAS(&lock, 0, 1) != 0) {
  }
  y[3] += 1;
  __threadfence_block();
  atomicExch(&lock, 0);
}

__global__ void spin_forever_kernel(int) {
  __shared__ int never;
  if (threadIdx.x == 0) never = 0;
  __syncthreads();
  while (atomicAdd(&never, 0) == 0) __threadfence_block();
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

TEST_CASE(
    "a thread that spins on memory lets those run that it waits for, and a block that only spins is told") {
  for (const uint64_t order : {0, 1, 2}) {
    int y[4] = {};
    emulator::set_thread_order(order);
    VITRINE_LAUNCH(spin_kernel, 1, 70, 0, &y[0]);
    emulator::set_thread_order(0);
    CHECK(std::vector<int>(y, y + 4) == std::vector<int>{1, 2, 3, 70});
  }
  const uint64_t most = emulator::most_passes();
  emulator::set_most_passes(10000);
  CHECK(message(spin_forever_kernel, 40) ==
        "kernel kernel, block (0, 0, 0): its threads do nothing but spin on memory: what they wait for "
        "is written by none of them, or by a block that has its turn after this one");
  emulator::set_most_passes(most);
}

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

TEST_CASE("barriers count votes, one after the other, in any order of the threads") {
  for (const uint64_t order : {0, 1, 2})
    for (const int n : {0, 70, 100}) {
      std::vector<int> y(4 * 100);
      emulator::set_thread_order(order);
      VITRINE_LAUNCH(vote_kernel, 1, 100, 0, y.data(), n);
      emulator::set_thread_order(0);
      for (size_t i = 0; i < 100; ++i) {
        CHECK(y[4 * i] == 50);
        CHECK(y[4 * i + 1] == 1);
        CHECK(y[4 * i + 2] == (n == 100 ? 1 : 0));
        CHECK(y[4 * i + 3] == n);
      }
    }
}

TEST_CASE("a GPU's properties, its constants, memory of both sides and in the order of a stream") {
  cudaDeviceProp p;
  REQUIRE(cudaGetDeviceProperties(&p, 1) == cudaSuccess);
  CHECK(p.warpSize == 32);
  CHECK(p.major == 9);
  CHECK(cudaGetDeviceProperties(&p, 7) == cudaErrorInvalidDevice);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK(std::string(cudaGetErrorName(cudaGetLastError())) == "cudaErrorInvalidDevice");
  CHECK(cudaPeekAtLastError() == cudaSuccess);

  const int numbers[] = {1, 10, 100, 1000};
  CHECK(cudaMemcpyToSymbol(powers, numbers, 4 * sizeof(int)) == cudaErrorInvalidValue);
  cudaGetLastError();
  CHECK(cudaMemcpyToSymbol(powers, numbers, 2 * sizeof(int)) == cudaSuccess);
  CHECK(cudaMemcpyToSymbol(powers, numbers + 3, sizeof(int), 2 * sizeof(int)) == cudaSuccess);
  int *both = nullptr, *pinned = nullptr, *passing = nullptr;
  REQUIRE(cudaMallocManaged(&both, 3 * sizeof(int)) == cudaSuccess);
  REQUIRE(cudaHostAlloc(&pinned, 3 * sizeof(int), cudaHostAllocDefault) == cudaSuccess);
  VITRINE_LAUNCH(constant_kernel, 1, 3, 0, both);
  cudaDeviceSynchronize();
  CHECK(std::vector<int>(both, both + 3) == std::vector<int>{1, 10, 1000});
  CHECK(cudaMemcpyFromSymbol(pinned, powers, sizeof(int), sizeof(int)) == cudaSuccess);
  CHECK(pinned[0] == 10);

  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
  const size_t before = emulator::device_memory_in_use();
  REQUIRE(cudaMallocAsync(&passing, 1000, stream) == cudaSuccess);
  CHECK(emulator::device_memory_in_use() == before + 1000);
  CHECK(cudaMemcpyAsync(passing, both, 3 * sizeof(int), cudaMemcpyDefault, stream) == cudaSuccess);
  CHECK(cudaFreeAsync(passing, stream) == cudaSuccess);
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(emulator::device_memory_in_use() == before);
  cudaGetLastError();
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaFree(both) == cudaSuccess);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

constexpr const char* kGoesDeep = "somebody goes deeper than the memory of a thread";
TEST_CASE(kGoesDeep* doctest::skip()) {
  int y = 0;
  VITRINE_LAUNCH(deep_kernel, 1, 1, 0, &y, 10);
  fmt::print(stderr, "10 deep\n");
  VITRINE_LAUNCH(deep_kernel, 1, 1, 0, &y, 500);
  fmt::print(stderr, "500 deep\n");
}

TEST_CASE("a thread whose variables do not fit is stopped, and writes into no other's") {
  const std::string told = test::told_by(kGoesDeep);
  CHECK_MESSAGE(told.find("10 deep\n") != std::string::npos, told);
  CHECK_MESSAGE(told.find("500 deep") == std::string::npos, told);
}

#if defined(__SANITIZE_ADDRESS__)
__global__ void astray_kernel(int* y, int i) {
  int own[4] = {1, 2, 3, 4};
  int* volatile p = own;
  *y = p[i];
}

constexpr const char* kGoesAstray = "somebody goes astray from an array of the thread";
TEST_CASE(kGoesAstray* doctest::skip()) {
  int y = 0;
  VITRINE_LAUNCH(astray_kernel, 1, 4, 0, &y, 3);
  fmt::print(stderr, "element 3\n");
  VITRINE_LAUNCH(astray_kernel, 1, 4, 0, &y, 4);
}

TEST_CASE("AddressSanitizer finds in a kernel what it finds elsewhere") {
  const std::string told = test::told_by(kGoesAstray);
  CHECK_MESSAGE(told.find("element 3\n") != std::string::npos, told);
  CHECK_MESSAGE(told.find("stack-buffer-overflow") != std::string::npos, told);
  CHECK_MESSAGE(told.find("block_test.cpp:") != std::string::npos, told);
}
#endif

constexpr const char* kRaces = "somebody forgets a barrier";

TEST_CASE(kRaces* doctest::skip()) {
  std::vector<int> x(96, 1), y(96);
  VITRINE_LAUNCH(racing_kernel, 1, 96, 96 * sizeof(int), y.data(), x.data(), 96);
  for (const int value : y) fmt::print(stderr, "{} ", value);
}

TEST_CASE("VITRINE_EMULATOR_SEED is such a seed for a whole program") {
  const auto told = [](const char* seed) {
    return test::told_by(kRaces, std::string("VITRINE_EMULATOR_SEED=") + seed);
  };
  CHECK(told("1") == told("1"));
  CHECK(told("1") != told("2"));
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

TEST_CASE("memory of one's own, a stream, votes, shuffles and atomics, as a homework uses them") {
  std::vector<int> x(4 * 32);
  std::iota(x.begin(), x.end(), -31);  // the first block has none above 0, the others no other
  void *on_gpu = nullptr, *results = nullptr;
  struct Results {
    float total[2];
    unsigned come;
    int largest;
    float4 of_block[4];
  } back{};
  cudaStream_t stream = nullptr;
  REQUIRE(cudaMalloc(&on_gpu, x.size() * sizeof(int)) == cudaSuccess);
  REQUIRE(cudaMalloc(&results, sizeof(Results)) == cudaSuccess);
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamDefault) == cudaSuccess);
  CHECK(cudaMemcpy(on_gpu, x.data(), x.size() * sizeof(int), cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(results, &back, sizeof(back), cudaMemcpyHostToDevice) == cudaSuccess);
  auto* const r = static_cast<Results*>(results);
  for (int i = 0; i < 2; ++i)
    emulator::launch("last_block_kernel", false, 4, 32, 0, stream, last_block_kernel, &r->total[0],
                     &r->of_block[0], &r->come, &r->largest, static_cast<const int*>(on_gpu));
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);  // which waits
  CHECK(cudaMemcpy(&back, results, sizeof(back), cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(back.total[0] == 2 * std::accumulate(x.begin(), x.end(), 0));
  CHECK(back.total[1] == 2 * 3);
  CHECK(back.come == 0);
  CHECK(back.largest == 96);
  CHECK(cudaFree(on_gpu) == cudaSuccess);
  CHECK(cudaFree(results) == cudaSuccess);
}

TEST_CASE("threads that miss a barrier are named") {
  const std::string half = message(half_barrier_kernel, 64);
  // The launch names the expression
  CHECK(half.find("kernel half_barrier_kernel") == std::string::npos);
  CHECK(half.find("block (0, 0, 0): no thread can go on: thread (0, 0, 0) waits at block_test.cpp:") !=
        std::string::npos);
  CHECK(half.find("thread (20, 0, 0) has ended") != std::string::npos);
  CHECK(message(two_barriers_kernel, 32).find("waits at the barrier") != std::string::npos);
  // And the next kernel runs as if nothing had been
  CHECK(message([](int) { __syncthreads(); }, 64) == "");
  std::vector<int> y(32);
  CHECK_THROWS_WITH(VITRINE_LAUNCH(half_warp_kernel, 1, 32, 0, y.data()),
                    doctest::Contains("every lane of its mask"));
}

TEST_CASE("impossible launches are refused, and CUDA's functions outside kernels") {
  int x = 0;
  CHECK_THROWS_WITH(VITRINE_LAUNCH(index_kernel, 1, 1025, 0, &x), doctest::Contains("1 to 1024 threads"));
  CHECK_THROWS_WITH(VITRINE_LAUNCH(index_kernel, 1, dim3(1, 1, 65), 0, &x),
                    doctest::Contains("64 at most along z"));
  CHECK_THROWS_WITH(VITRINE_LAUNCH(index_kernel, dim3(1, 65536), 1, 0, &x), doctest::Contains("65535"));
  CHECK_THROWS_WITH(VITRINE_LAUNCH(index_kernel, dim3(1, 1, 65536), 1, 0, &x), doctest::Contains("65535"));
  CHECK_THROWS_WITH(VITRINE_LAUNCH(index_kernel, 1, 1, size_t{300} << 10, &x),
                    doctest::Contains("shared memory"));
  const size_t most = cuda::most_shared();
  CHECK_NOTHROW(VITRINE_LAUNCH(shared_kernel, 1, 1, size_t{48} << 10, &x));
  CHECK_THROWS_WITH(VITRINE_LAUNCH(shared_kernel, 1, 1, most, &x), doctest::Contains("above 48 KiB"));
  CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(shared_kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             228 << 10) == cudaErrorInvalidValue);
  cuda::allow_shared<shared_kernel>();
  CHECK_THROWS_WITH(VITRINE_LAUNCH(shared_kernel, 1, 1, 1, &x), doctest::Contains("invalid argument"));
  CHECK_NOTHROW(VITRINE_LAUNCH(shared_kernel, 1, 1, most, &x));
  CHECK_THROWS_WITH(__syncthreads(), "a function of CUDA threads was called outside a kernel");
}
