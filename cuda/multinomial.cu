// Draws by weights, with the CPU's indices (ops/formulas_multinomial.h). One thread per number; a
// warp adds 32 neighbouring numbers.
#include "core/math.h"
#include "cuda/block.h"
#include "cuda/runtime/device_error.h"
#include "ops/formulas_multinomial.h"
#include "ops/kernels.h"

namespace vitrine::cuda {
namespace {

/// One block per row.
__global__ void __launch_bounds__(kMostThreads)
    check_weights_kernel(double* weights, int64_t n, int64_t count, bool replacement, int64_t needed,
                         DeviceError* error) {
  double* const row = weights + blockIdx.x * n;
  int64_t positive = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    if (row[i] > 0) ++positive;
    if (row[i] >= 0 && row[i] <= kLargestWeight) continue;
    leave(error, {.kind = DeviceError::Kind::weight, .index = i, .position = blockIdx.x, .number = row[i]});
    row[i] = 0;
  }
  positive = sum_block(positive);
  if (threadIdx.x == 0 && positive < needed)
    leave(error, {.kind = replacement ? DeviceError::Kind::few_with_replacement : DeviceError::Kind::few,
                  .index = positive,
                  .position = blockIdx.x,
                  .high = count});
}

/// The lanes of a warp add in the order of merge_warp.
__global__ void sum_neighbours_kernel(double* sums, const double* weights, int64_t n, int64_t groups,
                                      int64_t count) {
  const unsigned lane = threadIdx.x % kWarp;
  for (int64_t i = first_index() / kWarp; i < count; i += grid_stride() / kWarp) {
    const int64_t at = i % groups * kWarp + lane;
    const double mine = at < n ? weights[i / groups * n + at] : 0;
    const double sum = merge_warp(mine, [](double x, double y) { return x + y; });
    if (lane == 0) sums[i] = sum;
  }
}

__device__ double uniform(const Draw& draw, int64_t i) {
  return to_fine_uniform(philox(draw.seed, draw.offset + static_cast<uint64_t>(i)));
}

__global__ void draw_indices_kernel(int64_t* drawn, SumTree tree, int64_t per_row, int64_t count, Draw draw) {
  const Draw from = draw.now();
  for (int64_t i = first_index(); i < count; i += grid_stride())
    drawn[i] = tree.find(i / per_row, uniform(from, i));
}

__global__ void first_times_kernel(double* times, const double* weights, int64_t count, Draw draw) {
  const Draw from = draw.now();
  for (int64_t i = first_index(); i < count; i += grid_stride())
    times[i] = first_time(1 - uniform(from, i), weights[i]);
}

}  // namespace

void check_weights(Tensor& weights, int64_t count, bool replacement) {
  const int64_t n = weights.size(-1);
  VITRINE_LAUNCH(check_weights_kernel, grid_of(weights.numel() / n, "multinomial", "rows"), threads_for(n), 0,
                 weights.data<double>(), n, count, replacement, needed_weights(count, replacement),
                 device_error());
}

void sum_neighbours(Tensor& sums, const Tensor& weights) {
  static_assert(SumTree::kWidth == kWarp);
  VITRINE_LAUNCH(sum_neighbours_kernel, blocks_for(sums.numel() * kWarp), kThreads, 0, sums.data<double>(),
                 weights.data<double>(), weights.size(-1), sums.size(-1), sums.numel());
}

void draw_indices(Tensor& drawn, const std::vector<Tensor>& sums, Draw draw) {
  if (drawn.numel() == 0) return;
  VITRINE_LAUNCH(draw_indices_kernel, blocks_for(drawn.numel()), kThreads, 0, drawn.data<int64_t>(),
                 SumTree(sums), drawn.size(-1), drawn.numel(), draw);
}

void first_times(Tensor& times, const Tensor& weights, Draw draw) {
  VITRINE_LAUNCH(first_times_kernel, blocks_for(times.numel()), kThreads, 0, times.data<double>(),
                 weights.data<double>(), times.numel(), draw);
}

}  // namespace vitrine::cuda
