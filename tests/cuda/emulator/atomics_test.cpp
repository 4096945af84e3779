// Atomic operations: their results, and that no operation is lost in any order of the threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <vector>

#include "cuda/half.h"
#include "cuda/launch.h"

namespace {

using namespace vitrine;

constexpr unsigned kBlocks = 64, kThreads = 96, kTotal = kBlocks * kThreads;

/// Each thread's number is as large as its place.
template <class T>
__global__ void add_kernel(T* sum) {
  atomicAdd(sum, static_cast<T>(blockIdx.x * blockDim.x + threadIdx.x));
}

template <class T>
__global__ void subtract_kernel(T* left) {
  atomicSub(left, static_cast<T>(1));
}

/// Numbers on both sides of 0, also where T has no sign.
template <class T>
__global__ void extremes_kernel(T* least, T* most) {
  const T mine = static_cast<T>(static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) - 3000);
  atomicMin(least, mine);
  atomicMax(most, mine);
}

/// Clears, sets and turns over bit `threadIdx.x % 31` of a block's words.
template <class T>
__global__ void bits_kernel(T* cleared, T* set, T* turned) {
  const T bit = static_cast<T>(T{1} << threadIdx.x % 31);
  if (threadIdx.x % 3 == 0) atomicAnd(&cleared[blockIdx.x], ~bit);
  if (threadIdx.x % 3 == 0) atomicOr(&set[blockIdx.x], bit);
  atomicXor(&turned[blockIdx.x], bit);
}

/// How often each value was there before.
__global__ void wrap_kernel(unsigned* up, unsigned* down, unsigned* were_up, unsigned* were_down) {
  atomicAdd(&were_up[atomicInc(up, 6u)], 1u);
  atomicAdd(&were_down[atomicDec(down, 6u)], 1u);
}

/// Values change hands: each thread leaves its own, and takes one for the sum.
template <class T>
__global__ void exchange_kernel(T* place, unsigned long long* sum) {
  const T mine = static_cast<T>(blockIdx.x * blockDim.x + threadIdx.x + 1);
  atomicAdd(sum, static_cast<unsigned long long>(atomicExch(place, mine)));
}

/// The largest of float32 numbers, for which there is no atomicMax.
__global__ void largest_kernel(float* largest) {
  const float mine = 0.25f * static_cast<float>((blockIdx.x * blockDim.x + threadIdx.x) * 7919 % kTotal);
  auto* const bits = reinterpret_cast<int*>(largest);
  int old = atomicCAS(bits, 0, 0);  // what is there
  while (__int_as_float(old) < mine) {
    const int found = atomicCAS(bits, old, __float_as_int(mine));
    if (found == old) break;
    old = found;
  }
}

template <class T>
__global__ void add_ones_kernel(T* sum, T one) {
  atomicAdd(sum, one);
}

template <class F>
void in_orders(F&& check) {
  for (const uint64_t order : {0, 1, 2, 3}) {
    emulator::set_thread_order(order);
    check();
  }
  emulator::set_thread_order(0);
}

template <class T>
void check_add() {
  T sum = 0;
  VITRINE_LAUNCH(add_kernel<T>, kBlocks, kThreads, 0, &sum);
  CHECK(sum == static_cast<T>(uint64_t{kTotal} * (kTotal - 1) / 2));
}

template <class T>
void check_extremes() {
  T least = static_cast<T>(5), most = static_cast<T>(5);
  VITRINE_LAUNCH(extremes_kernel<T>, kBlocks, kThreads, 0, &least, &most);
  CHECK(least == (std::is_signed_v<T> ? static_cast<T>(-3000) : T{0}));
  CHECK(most == (std::is_signed_v<T> ? static_cast<T>(kTotal - 1 - 3000) : static_cast<T>(-1)));
}

template <class T>
void check_bits() {
  std::vector<T> cleared(kBlocks, static_cast<T>(-1)), set(kBlocks, 0), turned(kBlocks, 0);
  VITRINE_LAUNCH(bits_kernel<T>, kBlocks, kThreads, 0, cleared.data(), set.data(), turned.data());
  T some = 0, odd = 0;
  for (unsigned i = 0; i < kThreads; ++i) {
    if (i % 3 == 0) some |= static_cast<T>(T{1} << i % 31);
    odd ^= static_cast<T>(T{1} << i % 31);
  }
  CHECK(cleared == std::vector<T>(kBlocks, ~some));
  CHECK(set == std::vector<T>(kBlocks, some));
  CHECK(turned == std::vector<T>(kBlocks, odd));
}

template <class T>
void check_exchange() {
  T place = 0;
  unsigned long long sum = 0;
  VITRINE_LAUNCH(exchange_kernel<T>, kBlocks, kThreads, 0, &place, &sum);
  CHECK(sum + static_cast<unsigned long long>(place) == uint64_t{kTotal} * (kTotal + 1) / 2);
}

template <class T>
concept HasAtomicAdd = requires(T* p, T x) {
  atomicAdd(p, x);
};

}  // namespace

TEST_CASE("atomic sums and differences lose nothing, in every order of the threads") {
  in_orders([] {
    check_add<int>();
    check_add<unsigned>();
    check_add<unsigned long long>();
    check_add<double>();
    int left = kTotal;
    VITRINE_LAUNCH(subtract_kernel<int>, kBlocks, kThreads, 0, &left);
    CHECK(left == 0);
    unsigned below = kTotal - 1;
    VITRINE_LAUNCH(subtract_kernel<unsigned>, kBlocks, kThreads, 0, &below);
    CHECK(below == 0xffffffffu);
    float whole = 0;
    VITRINE_LAUNCH(add_ones_kernel<float>, kBlocks, kThreads, 0, &whole, 1.0f);
    CHECK(whole == kTotal);
  });
}

TEST_CASE("16-bit atomic sums round as single ones do: ones add up to where one more is lost") {
  in_orders([] {
    __half half = 0;
    VITRINE_LAUNCH(add_ones_kernel<__half>, kBlocks, kThreads, 0, &half, __half(1));
    CHECK(float(half) == 2048);
    __nv_bfloat162 pair(0, 0);
    VITRINE_LAUNCH(add_ones_kernel<__nv_bfloat162>, kBlocks, kThreads, 0, &pair, __nv_bfloat162(1, 2));
    CHECK(float(pair.x) == 256);
    CHECK(float(pair.y) == 512);
  });
}

TEST_CASE("atomic extremes, bits and exchanges are right in every order of the threads") {
  in_orders([] {
    check_extremes<int>(), check_extremes<unsigned>();
    check_extremes<long long>(), check_extremes<unsigned long long>();
    check_bits<int>(), check_bits<unsigned>(), check_bits<long long>(), check_bits<unsigned long long>();
    check_exchange<int>(), check_exchange<unsigned>();
    check_exchange<unsigned long long>(), check_exchange<float>();
  });
}

TEST_CASE("atomicInc and atomicDec go round, and atomicCAS makes any operation atomic") {
  in_orders([] {
    unsigned up = 0, down = 6;
    std::vector<unsigned> were_up(7), were_down(7);
    VITRINE_LAUNCH(wrap_kernel, 7, 64, 0, &up, &down, were_up.data(), were_down.data());
    CHECK(were_up == std::vector<unsigned>(7, 64));
    CHECK(were_down == std::vector<unsigned>(7, 64));
    float largest = -1;
    VITRINE_LAUNCH(largest_kernel, kBlocks, kThreads, 0, &largest);
    CHECK(largest == 0.25f * (kTotal - 1));
  });
  unsigned above = 9;
  std::vector<unsigned> were(10);
  VITRINE_LAUNCH(wrap_kernel, 1, 1, 0, &above, &above, were.data(), were.data());
  CHECK(above == 6);  // 9 goes up to 0, and 0 down to 6
}

TEST_CASE("atomic operations have the types that CUDA has") {
  CHECK(HasAtomicAdd<unsigned long long>);
  CHECK(HasAtomicAdd<__half2>);
  CHECK(!HasAtomicAdd<long>);
  CHECK(!HasAtomicAdd<long long>);
  CHECK(!HasAtomicAdd<short>);
}
