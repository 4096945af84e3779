// What Hopper's attention is given in place of LASER's values and cotangents, computed once for all
// tiles that meet them: F = e^(v − c) − 1 and H = dy·e^(c − o). cuda/attention/laser.h makes them
// tile by tile, an exponential for each element again and again, which costs more than the products
// of Hopper's tensor cores.
//
// An anchor c belongs to a channel and a block of keys, and depends on the values up to that block
// alone: keys change no bit of what tiles of queries read that meet only blocks before theirs. It
// moves only when it has to, and then by a part of the range, so that sums rarely have to follow:
//
//   high − low   where it moves                         it stays while
//   up to 2      the middle                             within a quarter of the range from there
//   up to 60     a quarter of the range below `low`,    at most `low` + 1, at least `high` − 60
//                but at least `high` − 60
//
// Here the values of the channel are from `low` to `high`.
//
// Two kinds of blocks, and all after such a one, are left to those of step tensor_core:
// - those that widen the range beyond 60: such values are read exactly there;
// - where tiles of queries may see only some of the keys that an anchor is of (windows, masks,
//   causality that does not end where blocks do, and in the backward, which has one anchor a
//   channel, all causality), those that make the range four times what some tile may see. F's
//   rounding is a share of that range, of 2 at most, and would cost what is read of a narrow one
//   its digits. There an anchor is of what a tile of queries sees. A tile may see any block before
//   it; a mask that hides single keys may hide what makes blocks wide, and that is not looked for:
//   what is read is off by 2⁻⁸ at most then.
#pragma once

#include "core/tensor.h"
#include "cuda/attention/scores.h"

namespace vitrine::cuda {

inline constexpr int kLaserKeys = 128;  // of a block

/// As kernels are given it; none for a mean.
struct LaserAnchors {
  const float* anchors = nullptr;  // [B·Hkv, blocks, Dv]
  // [B·Hkv, blocks]: whether any channel's anchor is another one than that of the block before
  const int* moved = nullptr;
  const int* near =
      nullptr;  // [B·Hkv]: keys before the first block without anchors; kAllNear if there is none
  int blocks = 0, channels = 0;

  __device__ const float* of_block(int key_head, int block) const {
    return anchors + (int64_t{key_head} * blocks + block) * channels;
  }
  /// The last ones, which the backward takes for the whole head.
  __device__ const float* of_head(int key_head) const { return of_block(key_head, blocks - 1); }
  __device__ bool moves(int key_head, int block) const {
    return anchors != nullptr && moved[int64_t{key_head} * blocks + block] != 0;
  }
};

inline constexpr int kAllNear = INT32_MAX;
/// Whether LASER's forward of a query (of its 128) is that of Hopper: whether all blocks that they
/// meet have anchors.
template <class T>
__device__ bool is_near(const int* near, int key_head, const Scores<T>& scores, int query) {
  const int end = query / kLaserKeys * kLaserKeys + kLaserKeys;
  return near != nullptr &&
         scores.last_key((end < scores.queries ? end : scores.queries) - 1) <= near[key_head];
}
/// And the backward, whose anchors are those of the whole head.
__device__ inline bool is_near(const int* near, int key_head) {
  return near != nullptr && near[key_head] == kAllNear;
}

/// v − c. What no query sees may be any number: it has weight 0, and its exponential must stay
/// finite.
__device__ inline float laser_exponent(float v, float c) {
  return math::min(v - c, static_cast<float>(kLaserFar));
}

/// The anchors of values [B, Hkv, Tk, Dv] in bfloat16, and what they make: for the forward block by
/// block, for the backward those of the whole head. Keys that no query sees do not count, as far as
/// the window or a mask of whole keys says so; NaN does not either, and remains in F.
class LaserBlocks {
 public:
  LaserBlocks(const Tensor& v, const Scores<float>& scores, const Tensor& allowed, bool of_head);

  LaserAnchors anchors() const;
  const Tensor& near() const { return near_; }  ///< int32 [B·Hkv]
  /// F; Hopper's copy engine reads it.
  Tensor values(const Tensor& v) const;
  /// H of near heads, and D [B, H, Tq] = Σ H·(e^(o − c) − 1); other heads are left as they are.
  /// `kept`: o before it was rounded.
  void cotangents(Tensor& h, Tensor& d, const Tensor& dy, const Tensor& kept, const Tensor& lse) const;

 private:
  Tensor anchors_, moved_, near_;
  bool of_head_;
};

/// A tensor of the sizes of [B, H, T, D] that Hopper's copy engine reads.
Tensor copyable_heads(const Tensor& like);

}  // namespace vitrine::cuda
