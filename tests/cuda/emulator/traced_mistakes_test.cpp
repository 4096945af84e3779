// Races and other mistakes between threads that the emulator finds in traced kernels. Next to each
// wrong kernel is the right kernel, for which there is no error. This file is compiled with
// VITRINE_TRACE_OPTIONS.
#include "cuda/block.h"
#include "tests/cuda/emulator/complaint.h"

namespace {

using namespace vitrine;
using namespace vitrine::test;

constexpr unsigned kThreads = 96;

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

/// All threads read one value, and one of them overwrites it: its own warp is ordered with it, the
/// others are not.
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

/// The thread that an atomic counter calls the last one reads what the others wrote before they
/// counted.
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

/// Two sums over the block, the second of what the first one gave. Without the barrier at the
/// beginning of a sum its writes overtake a slow thread that still reads the sum before.
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
__global__ void wait_in_branch_kernel(int) {
  if (threadIdx.x < 40) __syncthreads();
}
enum class Parts { bytes, word_then_byte, byte_then_word, read_then_write };

/// The first threads of three warps access a word or its bytes.
template <Parts kParts>
__global__ void parts_kernel(int* y) {
  __shared__ uint32_t word;
  auto* const bytes = reinterpret_cast<unsigned char*>(&word);
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) word = 7;
  __syncthreads();
  if (lane == 0) {
    if (kParts == Parts::bytes) bytes[warp] = static_cast<unsigned char>(warp);
    if (kParts == Parts::word_then_byte && warp == 0) word = 1;
    if (kParts == Parts::word_then_byte && warp == 2) bytes[3] = 1;
    if (kParts == Parts::byte_then_word && warp == 0) bytes[3] = 1;
    if (kParts == Parts::byte_then_word && warp == 2) word = 1;
    if (kParts == Parts::read_then_write && warp == 1) bytes[1] = 1;
    if (kParts == Parts::read_then_write && warp != 1) y[warp] = static_cast<int>(word);
  }
  __syncthreads();
  if (threadIdx.x == 0) y[0] = static_cast<int>(word);
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

TEST_CASE("threads may write different bytes of a word, but not a word and a byte of it") {
  Tensor y = unwritten(3);
  for (const uint64_t order : {0, 1, 2, 3}) {
    emulator::set_thread_order(order);
    INFO("order ", order);
    CHECK(complaint(parts_kernel<Parts::bytes>, kThreads, 0, y.data<int>()) == "");
    CHECK(contains(complaint(parts_kernel<Parts::word_then_byte>, kThreads, 0, y.data<int>()),
                   "race on word + "));
    CHECK(contains(complaint(parts_kernel<Parts::byte_then_word>, kThreads, 0, y.data<int>()),
                   "race on word + "));
    CHECK(contains(complaint(parts_kernel<Parts::read_then_write>, kThreads, 0, y.data<int>()),
                   "race on word + "));
  }
  emulator::set_thread_order(0);
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
#ifdef VITRINE_SANITIZED
__global__ void overflow_kernel(int* y, const int* x) { y[threadIdx.x] = x[threadIdx.x] + INT32_MAX; }

constexpr const char* kOverflows = "somebody adds beyond the largest integer in a kernel";

TEST_CASE(kOverflows* doctest::skip()) {
  Tensor y = unwritten(4), x = numbers(4);
  VITRINE_LAUNCH(overflow_kernel, 1, 4, 0, y.data<int>(), x.data<int>());
}

TEST_CASE("UndefinedBehaviorSanitizer finds in a kernel what it finds elsewhere") {
  const std::string found = test::told_by(kOverflows);
  CHECK_MESSAGE(contains(found, "traced_mistakes_test.cpp:"), found);
  CHECK_MESSAGE(contains(found, "signed integer overflow: 1 + 2147483647"), found);
}
#endif
TEST_CASE("a barrier that some threads never reach is told in traced kernels too") {
  const std::string found = complaint(wait_in_branch_kernel, 64, 0, 0);
  CHECK(contains(found, "thread (0, 0, 0) waits at traced_mistakes_test.cpp:"));
  CHECK(contains(found, "thread (40, 0, 0) has ended"));
}
