// Mistakes that the emulator cannot report, because every access is valid: a missing mask, or a
// wrong lane. The comparison with the definition finds them. This file is compiled with
// VITRINE_TRACE_OPTIONS.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/creation.h"
#include "core/random.h"
#include "cuda/block.h"
#include "cuda/launch.h"
#include "ops/view.h"

namespace {

using namespace vitrine;
using cuda::kWarp;

enum class Mistake { none, missing_mask, wrong_lane };

template <Mistake kMistake>
__device__ float sum_lanes(float mine) {
  for (int step = kWarp / 2; step > 0; step /= 2)
    mine += cuda::lane_xor(mine, kMistake == Mistake::wrong_lane ? step ^ 1 : step);
  return mine;
}

/// y[t] = Σ_{s ≤ t} exp(scores[t, s]) v[s] / Σ_{s ≤ t} exp(scores[t, s]) for t < T: one channel of
/// causal attention. A warp has a query, and takes the keys in tiles of 32, of which the last one
/// is not seen as a whole.
template <Mistake kMistake>
__global__ void causal_attention_kernel(float* y, const float* scores, const float* v, int T) {
  const int t = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x);
  float largest = -INFINITY, sum = 0, weighted = 0;
  for (int first = 0; first <= t; first += static_cast<int>(kWarp)) {
    const int s = first + lane;
    const bool seen = kMistake == Mistake::missing_mask || s <= t;
    const float score = seen ? scores[t * T + s] : -INFINITY;
    const float before = largest;
    largest = fmaxf(before, cuda::merge_warp(score, [](float a, float b) { return fmaxf(a, b); }));
    const float p = expf(score - largest), shrink = expf(before - largest);
    sum = sum * shrink + sum_lanes<kMistake>(p);
    weighted = weighted * shrink + sum_lanes<kMistake>(seen ? p * v[s] : 0);
  }
  if (lane == 0) y[t] = weighted / sum;
}

std::vector<double> definition(const std::vector<double>& scores, const std::vector<double>& v) {
  const size_t T = v.size();
  std::vector<double> y(T);
  for (size_t t = 0; t < T; ++t) {
    double sum = 0;
    for (size_t s = 0; s <= t; ++s) {
      const double p = std::exp(scores[t * T + s]);
      sum += p;
      y[t] += p * v[s];
    }
    y[t] /= sum;
  }
  return y;
}

/// Rows of whole tiles, so that a tile without its mask is within bounds.
constexpr int kLength = 3 * kWarp;

/// By how much the kernel misses the definition at most. An error of the emulator's would be
/// thrown.
template <Mistake kMistake>
double largest_error(uint64_t order) {
  Generator g(3);
  const Tensor scores = randn({kLength, kLength}, DType::float32, Device::cpu, 0, 1, g);
  const Tensor v = randn({kLength}, DType::float32, Device::cpu, 0, 1, g);
  Tensor y = empty({kLength}, DType::float32, Device::cuda);
  emulator::set_thread_order(order);
  VITRINE_LAUNCH(causal_attention_kernel<kMistake>, kLength, kWarp, 0, y.data<float>(),
                 to(scores, Device::cuda).data<float>(), to(v, Device::cuda).data<float>(), kLength);
  emulator::set_thread_order(0);
  const auto got = y.values(), want = definition(scores.values(), v.values());
  double error = 0;
  for (size_t t = 0; t < got.size(); ++t) error = std::max(error, std::abs(got[t] - want[t]));
  return error;
}

}  // namespace

TEST_CASE(
    "a missing mask and a wrong lane make no access wrong, but the result differs from the definition") {
  for (const uint64_t order : {0, 1, 2, 3}) {
    CHECK(largest_error<Mistake::none>(order) < 1e-6);  // rounding of sums of 96 float32 numbers
    CHECK(largest_error<Mistake::missing_mask>(order) > 0.1);
    CHECK(largest_error<Mistake::wrong_lane>(order) > 0.1);
  }
}
