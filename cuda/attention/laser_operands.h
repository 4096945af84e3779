// The operands of Hopper's attention in place of LASER's values and cotangents, computed once for
// all tiles: F = e^(v − c) − 1 and H = dy·e^(c − o). The code in cuda/attention/laser.h computes an
// exponential for each element again in each tile. This would cost more than the products of
// Hopper's tensor cores.
//
// An anchor c belongs to a channel and a block of keys. It depends only on the values up to this
// block, so later keys change no bit of the result for tiles of queries that see only earlier
// blocks. The anchor changes only when it must, and then by a part of the range, so that sums are
// rarely rescaled:
//
//   high − low   new anchor                             kept while it is
//   up to 2      the middle                             within a quarter of the range from there
//   up to 60     a quarter of the range below `low`,    at most `low` + 1, at least `high` − 60
//                but at least `high` − 60
//
// Here `low` and `high` are the smallest and the largest value of the channel so far.
//
// Step tensor_core computes two kinds of blocks, and all blocks after them:
// - blocks that extend the range beyond 60: there the values are read exactly;
// - blocks that make the range four times the range that some tile of queries may see, if a tile
//   may see only some of the keys of an anchor. This is so with windows, masks, causality that does
//   not end at a block's end, and in the backward, which has one anchor per channel, with any
//   causality. The rounding error of F is a share of the range (of 2 at most), so results from a
//   narrow range would lose digits. In step tensor_core an anchor depends on the keys that a tile
//   sees. Here a tile may see any earlier block. A mask of single keys may hide the values that
//   make a block wide; this is not checked, and the error is 2⁻⁸ at most then.
#pragma once

#include "core/tensor.h"
#include "cuda/attention/scores.h"

namespace vitrine::cuda {

inline constexpr int kLaserKeys = 128;  // of a block

/// The anchors as an argument of kernels; empty for a mean.
struct LaserAnchors {
  const float* anchors = nullptr;  // [B·Hkv, blocks, Dv]
  // [B·Hkv, blocks]: whether any channel's anchor differs from the previous block
  const int* moved = nullptr;
  const int* near =
      nullptr;  // [B·Hkv]: keys before the first block without anchors; kAllNear if there is none
  int blocks = 0, channels = 0;

  __device__ const float* of_block(int key_head, int block) const {
    return anchors + (int64_t{key_head} * blocks + block) * channels;
  }
  /// The anchors of the last block, which the backward uses for the whole head.
  __device__ const float* of_head(int key_head) const { return of_block(key_head, blocks - 1); }
  __device__ bool moves(int key_head, int block) const {
    return anchors != nullptr && moved[int64_t{key_head} * blocks + block] != 0;
  }
};

inline constexpr int kAllNear = INT32_MAX;
/// Whether Hopper's kernel computes LASER's forward for the 128 queries of this query's block:
/// whether all blocks that they see have anchors.
template <class T>
__device__ bool is_near(const int* near, int key_head, const Scores<T>& scores, int query) {
  const int end = query / kLaserKeys * kLaserKeys + kLaserKeys;
  return near != nullptr &&
         scores.last_key((end < scores.queries ? end : scores.queries) - 1) <= near[key_head];
}
/// The same for the backward, which uses one anchor for the whole head.
__device__ inline bool is_near(const int* near, int key_head) {
  return near != nullptr && near[key_head] == kAllNear;
}

/// v − c, limited: a value that no query sees can be any number. It has weight 0, and its
/// exponential must stay finite.
__device__ inline float laser_exponent(float v, float c) {
  return math::min(v - c, static_cast<float>(kLaserFar));
}

/// The anchors of values [B, Hkv, Tk, Dv] in bfloat16, and F and H: with anchors per block for the
/// forward, and with anchors of the whole head for the backward. Keys that no query sees are
/// ignored, if the window or a mask of whole keys hides them. NaN is ignored too, and remains NaN
/// in F.
class LaserBlocks {
 public:
  LaserBlocks(const Tensor& v, const Scores<float>& scores, const Tensor& allowed, bool of_head);

  LaserAnchors anchors() const;
  const Tensor& near() const { return near_; }  ///< int32 [B·Hkv]
  /// F, in a layout for Hopper's copy engine.
  Tensor values(const Tensor& v) const;
  /// Writes H of near heads, and D [B, H, Tq] = Σ H·(e^(o − c) − 1); other heads are unchanged.
  /// `kept` is o before rounding.
  void cotangents(Tensor& h, Tensor& d, const Tensor& dy, const Tensor& kept, const Tensor& lse) const;

 private:
  Tensor anchors_, moved_, near_;
  bool of_head_;
};

/// An uninitialized tensor with the shape of `like` [B, H, T, D], in a layout for Hopper's copy
/// engine.
Tensor copyable_heads(const Tensor& like);

}  // namespace vitrine::cuda
