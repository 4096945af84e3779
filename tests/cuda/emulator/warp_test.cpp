// The functions of a warp: the result of each lane, and lanes that do not take part.
#include <doctest/doctest.h>

#include <vector>

#include "cuda/launch.h"

namespace {

using namespace vitrine;

constexpr unsigned kAll = 0xffffffffu;

__global__ void wide_kernel(double* y, long long* z) {
  const int lane = static_cast<int>(threadIdx.x);
  y[lane] = __shfl_xor_sync(kAll, lane + 1e-12, 1);
  y[32 + lane] = __shfl_up_sync(kAll, 0.5 * lane, 3u, 16);
  z[lane] = __shfl_down_sync(kAll, (1ll << 40) + lane, 2u);
  z[32 + lane] = __shfl_sync(kAll, -1ll - lane, -1, 8);  // the last lane of each group
}

/// Odd lanes and even ones, each by themselves, of what x says.
__global__ void reduce_kernel(int* y, const int* x) {
  const unsigned lane = threadIdx.x, mask = lane % 2 == 0 ? 0x55555555u : 0xaaaaaaaau;
  const int mine = x[lane];
  const unsigned bits = static_cast<unsigned>(mine);
  const int results[] = {__reduce_add_sync(mask, mine),
                         __reduce_min_sync(mask, mine),
                         __reduce_max_sync(mask, mine),
                         static_cast<int>(__reduce_and_sync(mask, bits)),
                         static_cast<int>(__reduce_or_sync(mask, bits)),
                         static_cast<int>(__reduce_xor_sync(mask, bits)),
                         __any_sync(mask, mine == 5),
                         __all_sync(mask, mine >= -2),
                         static_cast<int>(__ballot_sync(mask, mine < 0))};
  for (unsigned i = 0; i < 9; ++i) y[9 * lane + i] = results[i];
}

/// Threads that count themselves in a branch: one atomic operation for all lanes that happen to be
/// there.
__global__ void count_odd_kernel(int* count, const int* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n || x[i] % 2 == 0) return;
  const unsigned here = __activemask();
  if (static_cast<int>(threadIdx.x) % warpSize == __ffs(static_cast<int>(here)) - 1)
    atomicAdd(count, __popc(here));
}

__global__ void down_in_mask_kernel(int* y, int width) {
  if (threadIdx.x < 8) y[threadIdx.x] = __shfl_down_sync(0xffu, static_cast<int>(threadIdx.x), 4u, width);
}

__global__ void last_warp_kernel(int* y, int step) {
  y[threadIdx.x] = __shfl_xor_sync(kAll, static_cast<int>(threadIdx.x), step);
}

__global__ void exited_lanes_kernel(int* y, int n) {
  if (static_cast<int>(threadIdx.x) >= n) return;
  y[threadIdx.x] = __shfl_sync(kAll, 1, 0);
}

__global__ void match_kernel(unsigned* y, int of_all) {
  const unsigned lane = threadIdx.x;
  y[lane] = __match_any_sync(0xffffffffu, lane / 5.0 < 1 ? -1.5 : static_cast<double>(lane % 3));
  int same = 7;
  y[32 + lane] = __match_all_sync(0xffffffffu, lane == 9 ? of_all : 4, &same);
  y[64 + lane] = static_cast<unsigned>(same);
}

}  // namespace

TEST_CASE("lanes find those that have their value, and whether all have") {
  std::vector<unsigned> y(96);
  for (const int of_all : {4, 5}) {
    VITRINE_LAUNCH(match_kernel, 1, 32, 0, y.data(), of_all);
    for (unsigned lane = 0; lane < 32; ++lane) {
      unsigned want = 0;
      for (unsigned other = 0; other < 32; ++other)
        if (lane < 5 ? other < 5 : other >= 5 && other % 3 == lane % 3) want |= 1u << other;
      CHECK(y[lane] == want);
      CHECK(y[32 + lane] == (of_all == 4 ? 0xffffffffu : 0u));
      CHECK(y[64 + lane] == (of_all == 4 ? 1u : 0u));
    }
  }
}

TEST_CASE("shuffles carry 8 bytes, by groups, and a source is meant modulo the group's width") {
  std::vector<double> y(64);
  std::vector<long long> z(64);
  VITRINE_LAUNCH(wide_kernel, 1, 32, 0, y.data(), z.data());
  for (int lane = 0; lane < 32; ++lane) {
    const auto at = static_cast<size_t>(lane);
    CHECK(y[at] == (lane ^ 1) + 1e-12);
    CHECK(y[32 + at] == 0.5 * (lane % 16 < 3 ? lane : lane - 3));
    CHECK(z[at] == (1ll << 40) + (lane < 30 ? lane + 2 : lane));
    CHECK(z[32 + at] == -1ll - (lane / 8 * 8 + 7));
  }
}

TEST_CASE("reductions and votes are those of the lanes in the mask, in every order of the threads") {
  std::vector<int> x(32);
  for (int i = 0; i < 32; ++i) x[static_cast<size_t>(i)] = i % 2 == 0 ? i / 2 - 2 : 7 | i << 8;
  for (const uint64_t order : {0, 1, 2, 3}) {
    emulator::set_thread_order(order);
    std::vector<int> y(9 * 32);
    VITRINE_LAUNCH(reduce_kernel, 1, 32, 0, y.data(), x.data());
    emulator::set_thread_order(0);
    for (size_t lane = 0; lane < 32; ++lane) {
      const std::vector<int> got(&y[9 * lane], &y[9 * lane] + 9);
      if (lane % 2 == 0) {  // −2, −1, …, 13
        CHECK(got == std::vector<int>{88, -2, 13, 0, -1, -2 ^ -1 ^ 1, 1, 1, 0b101});
      } else {  // 0x107, 0x307, …, 0x1f07
        CHECK(got == std::vector<int>{16 * 7 + 256 * 256, 0x107, 0x1f07, 0x107, 0x1f07, 0, 0, 1, 0});
      }
    }
  }
}

TEST_CASE("of the lanes of a warp none is sure to run in step with this one") {
  std::vector<int> x(100);
  for (int i = 0; i < 100; ++i) x[static_cast<size_t>(i)] = i / 3;
  int count = 0, want = 0;
  for (const int value : x) want += value % 2;
  VITRINE_LAUNCH(count_odd_kernel, 2, 64, 0, &count, x.data(), 100);
  CHECK(count == want);
}

TEST_CASE(
    "a shuffle that reads from a lane outside of its mask or its block is an error that names both lanes") {
  std::vector<int> y(64);
  VITRINE_LAUNCH(down_in_mask_kernel, 1, 32, 0, y.data(), 8);
  for (int i = 0; i < 8; ++i) CHECK(y[static_cast<size_t>(i)] == (i < 4 ? i + 4 : i));
  CHECK_THROWS_WITH(
      VITRINE_LAUNCH(down_in_mask_kernel, 1, 32, 0, y.data(), 32),
      doctest::Contains("lane 7 reads from lane 11, which takes no part: the mask is 0x000000ff"));
  VITRINE_LAUNCH(last_warp_kernel, 1, 40, 0, y.data(), 4);  // the last warp has 8 lanes
  CHECK(y[37] == 33);
  CHECK_THROWS_WITH(VITRINE_LAUNCH(last_warp_kernel, 1, 40, 0, y.data(), 8),
                    doctest::Contains("which takes no part: the mask is 0x000000ff"));
}

TEST_CASE("a shuffle whose mask names lanes that have ended is an error") {
  std::vector<int> y(64);
  VITRINE_LAUNCH(exited_lanes_kernel, 1, 64, 0, y.data(), 64);
  CHECK_THROWS_WITH(VITRINE_LAUNCH(exited_lanes_kernel, 1, 64, 0, y.data(), 50),
                    doctest::Contains("thread (32, 0, 0) waits at warp_test.cpp:"));
}
