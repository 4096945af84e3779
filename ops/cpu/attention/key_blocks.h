// A head's keys or values as the right operand of many products. Each block of keys is packed once,
// when it is first used, and serves all queries of the head.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "ops/cpu/attention/tile.h"

namespace vitrine::cpu {

/// The rows of a head in blocks of kKeysPerBlock. With Trans::yes a product sums over the columns
/// of the rows (q·kᵀ), with Trans::no over the rows (P·v). The packed blocks are in the thread's
/// buffer for `kUse`, so only one object of a type may be in use on a thread.
template <class S, Use kUse>
class KeyBlocks {
  using T = AccumulatorOf<S>;

 public:
  explicit KeyBlocks(Trans trans) : trans_(trans) {}

  /// Refers to `keys` rows of `columns` elements from now on. Packing pays if several tiles of
  /// queries read each block from its first key on, which a window does not do.
  void refer_to(HeadRows<S> rows, int64_t keys, int64_t columns, bool packs) {
    rows_ = rows, keys_ = keys, columns_ = columns;
    blocks_.clear();
    if (!packs) return;
    blocks_.resize(static_cast<size_t>((keys + kKeysPerBlock - 1) / kKeysPerBlock));
    stride_ = trans_ == Trans::yes ? packed_size<S>(kKeysPerBlock, columns)
                                   : packed_size<S>(columns, kKeysPerBlock);
    memory_ = thread_buffer<float, kUse>(stride_ * blocks_.size());
  }

  /// C = alpha·A·op(B) + beta·C for B = rows [j, j + n), which are in one block.
  void multiply(int64_t M, T alpha, const S* A, int64_t lda, int64_t j, int64_t n, T beta, T* C,
                int64_t ldc) {
    const bool over_columns = trans_ == Trans::yes;
    const int64_t N = over_columns ? n : columns_, K = over_columns ? columns_ : n;
    const int64_t all = std::min(kKeysPerBlock, keys_ - j);
    // A step of packed rows is read as a whole, and a row after the last may hold anything.
    if (blocks_.empty() || (!over_columns && n != all && n % packed_step<S>() != 0))
      return gemm<S, T>(Trans::no, trans_, M, N, K, alpha, A, lda, rows_.row(j), rows_.stride, beta, C, ldc);
    const auto block = static_cast<size_t>(j / kKeysPerBlock);
    if (!blocks_[block].has_value())
      blocks_[block] = pack<S>(trans_, over_columns ? all : columns_, over_columns ? columns_ : all,
                               rows_.row(j), rows_.stride, memory_ + block * stride_);
    cpu::multiply<S, T>(Trans::no, M, N, K, alpha, A, lda, *blocks_[block], beta, C, ldc);
  }

 private:
  Trans trans_;
  HeadRows<S> rows_{};
  int64_t keys_ = 0, columns_ = 0;
  size_t stride_ = 0;
  float* memory_ = nullptr;
  std::vector<std::optional<PackedMatrix<S>>> blocks_;
};

/// Whether the keys of a head are worth packing: more than one tile of queries reads them, each
/// from the first key on.
template <class S>
bool packs_keys(const AttentionHead<S>& head) {
  return tiles_of(head.queries) > 1 && head.form.left >= head.keys;
}

}  // namespace vitrine::cpu
