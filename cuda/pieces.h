// One launch for many tensors. A model has hundreds of parameters, most of them small, and a launch takes microseconds: so an
// optimizer hands over a table of all of them, as the kernel's parameter, and each block looks up which piece of which tensor
// it is to do.
#pragma once

#include <array>
#include <vector>

#include "core/creation.h"
#include "cuda/block.h"
#include "cuda/vector.h"

namespace vitrine::cuda {

inline constexpr int64_t kPiece = 1 << 13;  // elements of a block; pieces begin where 16 bytes do

/// Bytes that a kernel's parameters may take.
#if VITRINE_CUDA_EMULATED || CUDART_VERSION < 12010
inline constexpr size_t kParameterBytes = 4096;
#else
inline constexpr size_t kParameterBytes = 32764;
#endif

/// Elements begin … begin + size − 1 of a tensor.
struct Piece {
  int tensor;
  int64_t begin, size;
};

/// Where tensor i of each of N lists lies, and which pieces it is cut into.
template <int N>
struct Pieces {
  static constexpr int kMost = static_cast<int>((kParameterBytes - 512) / (8 * (N + 3)));

  int count = 0;                  // tensors in this table
  int64_t first[kMost + 1] = {};  // the number of tensor i's first piece, and of all pieces
  int64_t size[kMost] = {};
  double number[kMost] = {};  // what differs from tensor to tensor
  void* data[N][kMost] = {};  // null for a list that is empty

  /// Where a piece's elements lie in an array of list `list`.
  template <class T>
  __device__ T* at(int list, const Piece& piece) const {
    T* const begin = static_cast<T*>(data[list][piece.tensor]);
    return begin == nullptr ? begin : begin + piece.begin;
  }
};

/// The elements of this block.
template <int N>
__device__ Piece this_piece(const Pieces<N>& pieces) {
  int low = 0, high = pieces.count;  // tensor `low` begins at or before this block, tensor `high` behind it
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (pieces.first[middle] <= int64_t{blockIdx.x} ? low : high) = middle;
  }
  const int64_t begin = (blockIdx.x - pieces.first[low]) * kPiece, left = pieces.size[low] - begin;
  return {low, begin, left < kPiece ? left : kPiece};
}

inline int64_t pieces_of(const Tensor& x) { return (x.numel() + kPiece - 1) / kPiece; }

/// Calls launch(Type<T>{}, pieces, blocks, done) with tables of the tensors in lists[0], float32 or float64, and of those at equal
/// places in the others; `done`: how many pieces were in the tables before. A table ends where it is full or the dtype changes.
template <int N, class F>
void for_each_table(const char* kernel, const std::array<const std::vector<Tensor>*, N>& lists,
                    const std::vector<double>& numbers, F&& launch) {
  Pieces<N> pieces;
  DType dtype = DType::float32;
  int64_t done = 0;
  const auto flush = [&] {
    const int64_t blocks = pieces.first[pieces.count];
    if (blocks > 0 && dtype == DType::float32)
      launch(Type<float>{}, pieces, static_cast<unsigned>(blocks), done);
    if (blocks > 0 && dtype == DType::float64)
      launch(Type<double>{}, pieces, static_cast<unsigned>(blocks), done);
    done += blocks;
    pieces = {};
  };
  for (size_t i = 0; i < lists[0]->size(); ++i) {
    const Tensor& x = (*lists[0])[i];
    check(x.dtype() == DType::float32 || x.dtype() == DType::float64, "{}: wanted float32 or float64, got {}",
          kernel, describe(x));
    if (pieces.count == Pieces<N>::kMost || x.dtype() != dtype) flush();
    dtype = x.dtype();
    const auto n = static_cast<size_t>(pieces.count++);
    for (size_t k = 0; k < N; ++k) pieces.data[k][n] = lists[k]->empty() ? nullptr : (*lists[k])[i].raw();
    pieces.size[n] = x.numel();
    pieces.number[n] = numbers.empty() ? 0 : numbers[i];
    pieces.first[n + 1] = pieces.first[n] + pieces_of(x);
  }
  flush();
}

}  // namespace vitrine::cuda
