// LASER's anchors, values and cotangents for Hopper's attention (cuda/attention/laser_operands.h).
// Values are read twice: once for the ranges of all blocks in parallel, and once for F. In between,
// one thread per channel goes from block to block.
#include "cuda/attention/laser_operands.h"

#include "core/creation.h"
#include "cuda/instructions/exp2.h"
#include "cuda/vector.h"

namespace vitrine::cuda {
namespace {

using S = bfloat16;
constexpr int kPair = 2;                         // channels of a thread
constexpr int kMostPairs = 64, kRowsAtOnce = 4;  // of a block of threads
constexpr int kLaserThreads = kMostPairs * kRowsAtOnce;
constexpr float kNear = static_cast<float>(kLaserNear), kFar = static_cast<float>(kLaserFar);
constexpr float kMostWidening = 4;  // of a range, if queries see only some of its blocks
constexpr int kFewKeys = 32;        // too few for a meaningful range

using Pair = Vector<float, kPair>;

struct Range {
  float low = INFINITY, high = -INFINITY;

  __device__ void widen(float least, float most) {
    low = std::fmin(low, least), high = std::fmax(high, most);
  }
  __device__ bool is_empty() const { return low > high; }
  __device__ bool is_near() const { return is_empty() || high - low <= kFar; }
  /// The spread: F's rounding error is a share of it.
  __device__ float spread() const { return std::fmin(high - low, kNear); }
  /// The anchor of this range, after one of a narrower range.
  __device__ float anchor(float before) const {
    const float range = high - low, middle = low + range / 2;
    if (is_empty() || !is_near()) return before;
    if (range <= kNear) return std::fabs(before - middle) <= range / 4 ? before : middle;
    return before <= low + 1 && high - before <= kFar ? before : std::fmax(low - range / 4, high - kFar);
  }
};

/// Which keys count for the ranges of a head.
struct SeenKeys {
  Scores<float> scores;
  bool masks_keys;  // the mask is one of whole keys

  static SeenKeys of(const Scores<float>& scores, const Tensor& allowed) {
    const auto same = [&](int axis) { return allowed.size(axis) == 1 || allowed.strides()[axis] == 0; };
    return {scores, allowed.defined() && same(1) && same(2)};
  }
  /// What tiles of queries see of the keys of an anchor (an anchor per block, or per head).
  enum Part { all, prefix, any };
  Part part(bool of_head) const {
    if (scores.left < scores.keys || (scores.allowed.data != nullptr && !masks_keys)) return any;
    const bool sees_last = scores.right >= scores.keys;
    const bool sees_own =
        (scores.keys - scores.queries + scores.right) % kLaserKeys == 0;  // blocks to their end
    return sees_last || (!of_head && sees_own) ? all : prefix;
  }
  __device__ bool has(int b, int j) const {
    return j >= scores.first_key(0) && j < scores.last_key(scores.queries - 1) &&
           (!masks_keys || scores.allowed.rows(b, 0).data[j * scores.allowed.column]);
  }
};

/// Ranges [B·Hkv, blocks, 2, Dv]: the smallest and the largest values. counts [B·Hkv, blocks]: the
/// numbers of keys.
__global__ void __launch_bounds__(kLaserThreads)
    laser_ranges_kernel(float* ranges, int* counts, Heads<S> values, SeenKeys seen, int channels) {
  __shared__ Pair least[kRowsAtOnce][kMostPairs], most[kRowsAtOnce][kMostPairs];
  const int pair = static_cast<int>(threadIdx.x) % kMostPairs,
            row = static_cast<int>(threadIdx.x) / kMostPairs;
  const int d = pair * kPair, b = static_cast<int>(blockIdx.z), h = static_cast<int>(blockIdx.y);
  const int begin = static_cast<int>(blockIdx.x) * kLaserKeys;
  const int64_t block = (int64_t{b} * gridDim.y + h) * gridDim.x + blockIdx.x;
  const HeadMatrix<S> v = values.rows(b, h);
  const int own = static_cast<int>(threadIdx.x);
  const int count = sum_block(own < kLaserKeys && seen.has(b, begin + own) ? 1 : 0);
  if (threadIdx.x == 0) counts[block] = count;
  Range mine[kPair];
  if (d < channels)
#pragma unroll 8
    for (int j = begin + row; j < begin + kLaserKeys; j += kRowsAtOnce)
      if (seen.has(b, j)) {
        const auto at = load<kPair>(v.row(j) + d);
#pragma unroll
        for (int e = 0; e < kPair; ++e) {
          const auto x = static_cast<float>(at.at[e]);
          mine[e].widen(x, x);
        }
      }
  for (int e = 0; e < kPair; ++e) least[row][pair].at[e] = mine[e].low, most[row][pair].at[e] = mine[e].high;
  __syncthreads();
  if (row > 0 || d >= channels) return;
  float* const out = ranges + block * 2 * channels + d;
  Pair low, high;
  for (int e = 0; e < kPair; ++e) {
    for (int r = 1; r < kRowsAtOnce; ++r) mine[e].widen(least[r][pair].at[e], most[r][pair].at[e]);
    low.at[e] = mine[e].low, high.at[e] = mine[e].high;
  }
  store(out, low), store(out + channels, high);
}

/// One block of threads per head, and one thread per channel.
__global__ void __launch_bounds__(kLaserThreads)
    laser_anchors_kernel(float* anchors, int* moved, int* near, const float* ranges, const int* counts,
                         int blocks, int channels, SeenKeys::Part part) {
  constexpr int kMoves = 1, kHasNone = 2;
  const int d = static_cast<int>(threadIdx.x);
  const int64_t head = blockIdx.x;
  Range range;
  float c = 0, narrowest = INFINITY;  // the smallest spread that a tile of queries may see
  int near_keys = kAllNear;
  // The ranges of several blocks are loaded together, and the results of the threads are merged at
  // once.
  constexpr int kAtOnce = 8;
  for (int first = 0; first < blocks; first += kAtOnce) {
    const int64_t at = head * blocks + first;
    const int count = blocks - first < kAtOnce ? blocks - first : kAtOnce;
    Range here[kAtOnce];
    int found = 0;
    if (d < channels) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (i < count) {
          const float* const of_block = ranges + (at + i) * 2 * channels + d;
          here[i] = {of_block[0], of_block[channels]};
        }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (i < count) {
          range.widen(here[i].low, here[i].high);
          if (part != SeenKeys::all && counts[at + i] >= kFewKeys)
            narrowest = std::fmin(narrowest, (part == SeenKeys::any ? here[i] : range).spread());
          const float before = c;
          c = range.anchor(before);
          anchors[(at + i) * channels + d] = c;
          const bool has_one = range.is_near() && range.spread() <= kMostWidening * narrowest;
          found |= ((c != before ? kMoves : 0) | (has_one ? 0 : kHasNone)) << 2 * i;
        }
    }
    found = merge_block(found, [](int x, int y) { return x | y; });
    for (int i = 0; i < count; ++i)
      if (near_keys == kAllNear && (found >> 2 * i & kHasNone) != 0) near_keys = (first + i) * kLaserKeys;
    if (d < count) moved[at + d] = found >> 2 * d & kMoves;
  }
  if (threadIdx.x == 0) near[head] = near_keys;
}

/// F of a block of keys; with `of_head`, by the anchors of the last block.
__global__ void __launch_bounds__(kLaserThreads)
    laser_values_kernel(Heads<S> f, Heads<S> values, LaserAnchors laser, int keys, bool of_head) {
  const int d = static_cast<int>(threadIdx.x) % kMostPairs * kPair,
            row = static_cast<int>(threadIdx.x) / kMostPairs;
  const int b = static_cast<int>(blockIdx.z), h = static_cast<int>(blockIdx.y);
  const int block = static_cast<int>(blockIdx.x), begin = block * kLaserKeys,
            head = b * static_cast<int>(gridDim.y) + h;
  if (d >= laser.channels) return;
  const auto c = load<kPair>((of_head ? laser.of_head(head) : laser.of_block(head, block)) + d);
  const HeadMatrix<S> from = values.rows(b, h), to = f.rows(b, h);
  const int end = begin + kLaserKeys < keys ? begin + kLaserKeys : keys;
#pragma unroll 8
  for (int j = begin + row; j < end; j += kRowsAtOnce)
    store(to.row(j) + d,
          map([](S x, float anchor) { return S(fast_expm1(laser_exponent(static_cast<float>(x), anchor))); },
              load<kPair>(from.row(j) + d), c));
}

struct CotangentInputs {
  Heads<S> dy;
  Heads<float> kept;
  const float* lse;
  LaserAnchors laser;
  int queries, group;
};

/// One warp per query.
__global__ void __launch_bounds__(kLaserThreads)
    laser_cotangents_kernel(Heads<S> cotangents, float* corrections, CotangentInputs in) {
  const int b = static_cast<int>(blockIdx.z), h = static_cast<int>(blockIdx.y);
  const int i = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / kWarp);
  const int head = b * static_cast<int>(gridDim.y) + h, key_head = head / in.group;
  if (i >= in.queries || !is_near(in.laser.near, key_head)) return;
  const int64_t row = int64_t{head} * in.queries + i;
  const bool sees_nothing = in.lse[row] == -INFINITY;
  const float* const anchors = in.laser.of_head(key_head);
  float sum = 0;
  for (int d = static_cast<int>(threadIdx.x % kWarp) * kPair; d < in.laser.channels; d += kWarp * kPair) {
    const auto dy = load<kPair>(in.dy.rows(b, h).row(i) + d);
    const auto o = load<kPair>(in.kept.rows(b, h).row(i) + d), c = load<kPair>(anchors + d);
    Vector<S, kPair> rounded;
#pragma unroll
    for (int e = 0; e < kPair; ++e) {
      const float up = static_cast<float>(dy.at[e]) * fast_exp2((c.at[e] - o.at[e]) * kLog2E);
      rounded.at[e] = S(sees_nothing ? 0 : up);
      sum =
          std::fma(static_cast<float>(rounded.at[e]), sees_nothing ? 0 : fast_expm1(o.at[e] - c.at[e]), sum);
    }
    store(cotangents.rows(b, h).row(i) + d, rounded);
  }
  sum = merge_warp(sum, [](float x, float y) { return x + y; });
  if (threadIdx.x % kWarp == 0) corrections[row] = sum;
}

dim3 grid_of(int64_t x, const Tensor& heads) {
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(heads.size(1)),
              static_cast<unsigned>(heads.size(0)));
}

}  // namespace

LaserBlocks::LaserBlocks(const Tensor& v, const Scores<float>& scores, const Tensor& allowed, bool of_head)
    : of_head_(of_head) {
  const int64_t heads = v.size(0) * v.size(1), blocks = (v.size(2) + kLaserKeys - 1) / kLaserKeys;
  const auto channels = static_cast<int>(v.size(3));
  anchors_ = empty({heads, blocks, channels}, DType::float32, v.device());
  moved_ = empty({heads, blocks}, DType::int32, v.device());
  near_ = empty({heads}, DType::int32, v.device());
  Tensor ranges = empty({heads, blocks, 2, channels}, DType::float32, v.device());
  Tensor counts = empty({heads, blocks}, DType::int32, v.device());
  const SeenKeys seen = SeenKeys::of(scores, allowed);
  VITRINE_LAUNCH(laser_ranges_kernel, grid_of(blocks, v), kLaserThreads, 0, ranges.data<float>(),
                 counts.data<int32_t>(), Heads<S>::of(v), seen, channels);
  VITRINE_LAUNCH(laser_anchors_kernel, static_cast<unsigned>(heads), kMostPairs * kPair, 0,
                 anchors_.data<float>(), moved_.data<int32_t>(), near_.data<int32_t>(), ranges.data<float>(),
                 counts.data<int32_t>(), static_cast<int>(blocks), channels, seen.part(of_head));
}

LaserAnchors LaserBlocks::anchors() const {
  return {anchors_.data<float>(), moved_.data<int32_t>(), near_.data<int32_t>(),
          static_cast<int>(anchors_.size(1)), static_cast<int>(anchors_.size(2))};
}

Tensor LaserBlocks::values(const Tensor& v) const {
  Tensor f = copyable_heads(v);
  VITRINE_LAUNCH(laser_values_kernel, grid_of(anchors_.size(1), v), kLaserThreads, 0, Heads<S>::of(f),
                 Heads<S>::of(v), anchors(), static_cast<int>(v.size(2)), of_head_);
  return f;
}

void LaserBlocks::cotangents(Tensor& h, Tensor& d, const Tensor& dy, const Tensor& kept,
                             const Tensor& lse) const {
  const int64_t queries = dy.size(2), at_once = kLaserThreads / kWarp;
  const CotangentInputs in{
      Heads<S>::of(dy), Heads<float>::of(kept),    lse.data<float>(),
      anchors(),        static_cast<int>(queries), static_cast<int>(dy.size(0) * dy.size(1) / near_.size(0))};
  VITRINE_LAUNCH(laser_cotangents_kernel, grid_of((queries + at_once - 1) / at_once, dy), kLaserThreads, 0,
                 Heads<S>::of(h), d.data<float>(), in);
}

Tensor copyable_heads(const Tensor& like) {
  constexpr int64_t kAligned = 16 / sizeof(S);  // elements
  const int64_t row = (like.size(3) + kAligned - 1) / kAligned * kAligned;
  const Tensor padded = empty({like.size(0), like.size(1), like.size(2), row}, like.dtype(), like.device());
  return Tensor(padded.shared_storage(), like.shape(), padded.strides(), 0, like.dtype());
}

}  // namespace vitrine::cuda
