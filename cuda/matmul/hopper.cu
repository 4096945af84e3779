// Step 5, for bfloat16 and float16 on Hopper: the copy engine loads tiles, and warpgroups multiply
// them in shared memory.
//
// The gain: in the previous step, every warp computes addresses, copies, reads fragments and
// multiplies, and a tensor core waits for all of these. Here
// - one thread requests whole tiles from the copy engine (TMA): no addresses, no bounds, no
//   registers for data;
// - `wgmma` reads both matrices from shared memory itself: a warpgroup multiplies 64 × 16 by 16 ×
//   256, 262144 products, in one instruction, and its threads hold only the sums: 128 × 256 per
//   block, so a tile of x is used for twice as many products;
// - warps are specialized: one warpgroup produces tiles, and two consume them. They share only a
//   ring of kStages tiles, with two mbarriers per tile. The producer needs few registers, and gives
//   the others to the consumers;
// - blocks are persistent, one per multiprocessor: while the consumers store one tile of z, the
//   producer already loads data for the next.
#include <algorithm>

#include "cuda/instructions/wgmma.h"
#include "cuda/matmul/kernel.h"

namespace vitrine::cuda {
namespace {

constexpr int kRows = 128, kColumns = 256, kStages = 4;  // of z
constexpr int kWarpgroup = 128, kConsumers = 2, kThreadsOfBlock = (1 + kConsumers) * kWarpgroup;
// Not used where the kernel is empty.
[[maybe_unused]] constexpr int kDepth = kBox;  // of the tiles along k
// Of x, and along k, for an instruction
[[maybe_unused]] constexpr int kRowsOfWarpgroup = 64, kStep = 16;

/// kWide rows of x (columns of y) by kDepth, as boxes of 64 rows.
template <bool kAlongK, int kWide>
struct SharedTile {
  alignas(1024) char boxes[kWide / kBox][kBoxBytes];

  /// Called by one thread. Elements outside the matrix become 0.
  __device__ void load(const TensorMap& map, int64_t first, int64_t k, Mbarrier& full) {
    for (int i = 0; i < kWide / kBox; ++i) {
      const int64_t row = first + i * kBox;
      load_box(boxes[i], map, kAlongK ? k : row, kAlongK ? row : k, full);
    }
  }

  /// The descriptor of the elements from row `first` (a multiple of 64) and k on.
  __device__ uint64_t descriptor(int first, int k) const {
    return matrix_descriptor<kAlongK>(boxes[first / kBox] + (kAlongK ? k * 2 : k * 128));
  }
};

template <bool kXAlongK, bool kYAlongK>
struct Stage {
  SharedTile<kXAlongK, kRows> x;
  SharedTile<kYAlongK, kColumns> y;
};

/// `full` completes when a stage's tiles have arrived, `empty` when each warp of the consumers has
/// read them.
struct Barriers {
  Mbarrier full[kStages], empty[kStages];
};

/// Calls f(tile) for each tile of this block.
template <class F>
__device__ void for_tiles(const Tiling& tiling, F&& f) {
  constexpr int64_t kTogether = 16;  // 132 blocks then cover about a square of z
  for (int64_t t = blockIdx.x; t < tiling.rows * tiling.columns; t += gridDim.x)
    f(Tile::of(t, tiling, kTogether));
}

template <bool kXAlongK, bool kYAlongK>
__device__ void produce(Stage<kXAlongK, kYAlongK>* stages, Barriers& barriers, const Product& p,
                        const Tiling& tiling, const TensorMap& x, const TensorMap& y) {
  unsigned turn = 0;  // stages are filled in turn, round after round
  for_tiles(tiling, [&](const Tile& tile) {
    for (int64_t k = 0; k < p.K; k += kDepth, ++turn) {
      const unsigned stage = turn % kStages, round = turn / kStages;
      Mbarrier& full = barriers.full[stage];
      barriers.empty[stage].wait((round + 1) % 2);
      full.arrive_expecting(sizeof(stages[0]));
      stages[stage].x.load(x, tile.row * kRows, k, full);
      stages[stage].y.load(y, tile.column * kColumns, k, full);
    }
  });
}

/// Neighbouring elements of a row, which are loaded and stored at once.
template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Run {
  T values[kCount];
};
constexpr int kRun = 4;

/// A warp's 16 rows of z, 32 columns at a time. A thread's sums are pairs that are spread over
/// them. The sums are exchanged through shared memory, so that a warp stores whole rows. Lines are
/// 8 banks apart, so the pairs of four rows do not conflict.
constexpr int kStoreRows = 16, kStoreColumns = 32;
using StoreBuffer = Run<float, kRun>[kStoreRows][(kStoreColumns + 8) / kRun];

/// Stores z from (row, column) on. With `whole`, runs begin at multiples of their size.
template <class S, class SZ>
__device__ void store(const StoreBuffer& buffer, SZ* z, const Product& p, bool whole, int64_t row,
                      int64_t column) {
  constexpr int kRuns = kStoreColumns / kRun;  // in a row
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int r = lane / kRuns; r < kStoreRows; r += 32 / kRuns) {
    const int64_t i = row + r, j = column + lane % kRuns * kRun;
    if (i >= p.M) return;
    const Run<float, kRun> sums = buffer[r][lane % kRuns];
    if (whole && j + kRun <= p.N) {
      auto& out = *reinterpret_cast<Run<SZ, kRun>*>(&z[i * p.z.row + j]);
      Run<SZ, kRun> run = p.add ? out : Run<SZ, kRun>{};
#pragma unroll
      for (int e = 0; e < kRun; ++e) run.values[e] = SZ(finished<S>(p, j + e, sums.values[e], run.values[e]));
      out = run;
      if (p.active != nullptr) {
#pragma unroll
        for (int e = 0; e < kRun; ++e) run.values[e] = activated(run.values[e]);
        *reinterpret_cast<Run<SZ, kRun>*>(activation_of(p, &z[i * p.z.row + j])) = run;
      }
    } else {
#pragma unroll
      for (int e = 0; e < kRun; ++e)
        if (j + e < p.N) finish<S>(z, p, i, j + e, sums.values[e]);
    }
  }
}

template <class S, class SZ, bool kXAlongK, bool kYAlongK>
__device__ void consume(Stage<kXAlongK, kYAlongK>* stages, Barriers& barriers, StoreBuffer& buffer,
                        const Product& p, const Tiling& tiling, bool whole) {
  const int thread = static_cast<int>(threadIdx.x) - kWarpgroup, lane = thread % 32, warp = thread / 32;
  const int warpgroup_row = thread / kWarpgroup * kRowsOfWarpgroup;
  unsigned turn = 0;
  for_tiles(tiling, [&](const Tile& tile) {
    float sums[kColumns / 2] = {};
    WarpgroupProducts products;
    products.begin(sums);
    const auto release = [&](unsigned of_turn) {
      if (lane == 0) barriers.empty[of_turn % kStages].arrive();
    };
    for (int64_t k = 0; k < p.K; k += kDepth, ++turn) {
      const auto& [x, y] = stages[turn % kStages];
      barriers.full[turn % kStages].wait(turn / kStages % 2);
      products.fence();
#pragma unroll
      for (int at = 0; at < kDepth; at += kStep)
        products.multiply_accumulate<S, kXAlongK, kYAlongK>(sums, x.descriptor(warpgroup_row, at),
                                                            y.descriptor(0, at));
      products.commit();
      products.wait<1>();
      if (k > 0) release(turn - 1);
    }
    products.wait<0>();
    products.finish(sums);
    release(turn - 1);

    const int64_t row = tile.row * kRows + warp * kStoreRows, column = tile.column * kColumns;
#pragma unroll
    for (int j = 0; j < kColumns; j += kStoreColumns) {
#pragma unroll
      for (int e = 0; e < kStoreColumns / 2; e += 2) {  // pairs of elements
        auto* const line = reinterpret_cast<Run<float, 2>*>(buffer[lane / 4 + e / 2 % 2 * 8]);
        line[e / 4 * 4 + lane % 4] = {sums[j / 2 + e], sums[j / 2 + e + 1]};
      }
      __syncwarp();
      store<S>(buffer, static_cast<SZ*>(p.z_data), p, whole, row, column + j);
      __syncwarp();
    }
  });
}

template <bool kXAlongK, bool kYAlongK>
struct Shared {
  Stage<kXAlongK, kYAlongK> stages[kStages];
  StoreBuffer buffers[kConsumers * kWarpgroup / 32];
};

template <class S, class SZ, bool kXAlongK, bool kYAlongK>
__global__ void __launch_bounds__(kThreadsOfBlock, 1)
    matmul_hopper(const Product p, const Tiling tiling, const __grid_constant__ TensorMap x,
                  const __grid_constant__ TensorMap y, const bool whole) {
#if VITRINE_HAS_WGMMA
  __shared__ Barriers barriers;
  VITRINE_DYNAMIC_SHARED(char, memory);
  auto& shared = *reinterpret_cast<Shared<kXAlongK, kYAlongK>*>(
      memory + (1024 - reinterpret_cast<uintptr_t>(memory) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barriers.full[i].init(1);
      barriers.empty[i].init(kConsumers * kWarpgroup / 32);
    }
    Mbarrier::fence_init();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    give_registers<40>();
    if (threadIdx.x == 0) produce(shared.stages, barriers, p, tiling, x, y);
  } else {
    take_registers<232>();
    consume<S, SZ>(shared.stages, barriers, shared.buffers[threadIdx.x / 32 - kWarpgroup / 32], p, tiling,
                   whole);
  }
#endif
}

template <class S, class SZ, bool kXAlongK, bool kYAlongK>
void launch(const Product& p) {
  // To begin at a multiple of 1024
  constexpr size_t kShared = sizeof(Shared<kXAlongK, kYAlongK>) + 1024;
  const Tiling tiling(p, kRows, kColumns);
  const auto map = [&](const Operand& o, const void* data, int64_t rows, int64_t columns) {
    return o.by_rows() ? tensor_map(p.dtype, data, columns, rows, o.line())
                       : tensor_map(p.dtype, data, rows, columns, o.line());
  };
  const bool whole = p.z.column == 1 && p.z.row % kRun == 0 &&
                     reinterpret_cast<uintptr_t>(p.z_data) % (kRun * sizeof(SZ)) == 0 &&
                     reinterpret_cast<uintptr_t>(p.active) % (kRun * sizeof(SZ)) == 0;
  const unsigned blocks = std::min(tiling.blocks(p), static_cast<unsigned>(multiprocessors()));
  allow_shared<matmul_hopper<S, SZ, kXAlongK, kYAlongK>>();
  VITRINE_LAUNCH((matmul_hopper<S, SZ, kXAlongK, kYAlongK>), blocks, kThreadsOfBlock, kShared, p, tiling,
                 map(p.x, p.x_data, p.M, p.K), map(p.y, p.y_data, p.K, p.N), whole);
}

}  // namespace

bool hopper_supports(const Product& p) {
  return is_low_precision(p.dtype) && p.batch() == 1 && p.K > 0 && std::max({p.M, p.N, p.K}) < INT32_MAX &&
         is_aligned(p.x, p.x_data, 2) && is_aligned(p.y, p.y_data, 2) && has_wgmma();
}

void hopper_matmul(const Product& p) {
  visit_layouts(p, [&]<class S, class SZ>(Type<S>, Type<SZ>, auto x_along_k, auto y_along_k) {
    launch<S, SZ, x_along_k, y_along_k>(p);
  });
}

}  // namespace vitrine::cuda
