// The rounds of LSH attention: positions sorted by bucket, cut into chunks, and the pairs of
// positions that each round shows.
#pragma once

#include "core/tensor.h"

namespace vitrine::nn {

/// The positions of each round sorted by bucket. A slot is a place in the sorted order.
class LshRounds {
 public:
  /// buckets int64 [R, B, H, N], where N is a multiple of the chunk.
  LshRounds(const Tensor& buckets, int64_t chunk);

  /// x [B, H, N, D], or one x for each round, [R, B, H, N, D], from positions to slots:
  /// [R, B, H, N, D].
  Tensor to_slots(const Tensor& x) const { return take(x, order_); }
  /// Slots [R, B, H, .., D] to positions [R, B, H, N, D].
  Tensor to_positions(const Tensor& x) const;
  /// [R, B, H, N, D] → [R, B, H, N/chunk, chunk, D].
  Tensor in_chunks(const Tensor& x) const;
  /// What each chunk sees: the rows of the chunk before, and its own, [.., 2·chunk, D]. Before the
  /// first chunk there is `nothing`.
  Tensor seen_by_chunk(const Tensor& x, double nothing) const;
  /// Of each slot, int64 [R, B, H, N, 1]: its position, and its position's bucket.
  Tensor positions() const;
  Tensor buckets() const;

  /// bool [R, B, H, chunks, chunk, 2·chunk]: the pairs that each round shows: those of one bucket,
  /// and for a query to which no round shows another key, itself. `keys`: the positions of the
  /// keys.
  Tensor visible_pairs(const Tensor& keys, bool causal) const;
  /// bool of the same shape: whether an earlier round has the pair in one bucket, and in one chunk
  /// or with the key's chunk before. Undefined for a single round.
  Tensor shown_before() const;

  const int64_t count, batch, heads, time, chunk;

 private:
  Tensor take(const Tensor& x, const Tensor& index) const;
  Tensor bucket_and_chunk(int64_t round) const;

  Tensor bucket_, order_, place_;  // [R, B, H, N]: of a position; of a slot; of a position
};

/// The buckets of a sequence whose padding, and `filling` positions after it, have a bucket of
/// their own, in which they see nothing. valid bool [B, T]; undefined: no padding.
Tensor lsh_buckets_with_padding(const Tensor& buckets, const Tensor& valid, int64_t filling);

}  // namespace vitrine::nn
