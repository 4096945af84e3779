// Walks through several tensors of one shape together; their strides may differ.
#pragma once

#include <algorithm>
#include <array>

#include "core/parallel.h"
#include "core/shape.h"

namespace vitrine {

/// N operands of the same shape, each with its own strides. Adjacent axes along which every operand
/// continues in memory are merged, so that the innermost run is as long as possible: `inner`
/// elements, with `inner_stride[k]` between the elements of operand k.
template <int N>
class StridedLoop {
 public:
  StridedLoop(const Shape& shape, const std::array<Strides, N>& strides) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == 1) continue;
      if (!sizes_.empty() && continues(strides, axis, shape[axis])) {
        sizes_.back() *= shape[axis];
        for (int k = 0; k < N; ++k) strides_[k].back() = strides[k][axis];
      } else {
        sizes_.push_back(shape[axis]);
        for (int k = 0; k < N; ++k) strides_[k].push_back(strides[k][axis]);
      }
    }
    if (sizes_.empty()) {
      sizes_.push_back(1);
      for (int k = 0; k < N; ++k) strides_[k].push_back(0);
    }
    inner = sizes_.back();
    for (int k = 0; k < N; ++k) inner_stride[k] = strides_[k].back();
    outer = 1;
    for (int i = 0; i + 1 < sizes_.rank(); ++i) outer *= sizes_[i];
    if (numel(shape) == 0) outer = inner = 0;
  }

  int64_t inner = 0;                      ///< elements in a run
  int64_t outer = 0;                      ///< number of runs
  std::array<int64_t, N> inner_stride{};  ///< step inside a run, per operand

  /// Calls f(offsets, count) in parallel for pieces of runs. Operand k's part of a piece starts at
  /// offsets[k] and has `count` elements, inner_stride[k] apart.
  template <class F>
  void parallel(int64_t cost_per_element, F&& f) const {
    if (outer == 0) return;
    const int64_t grain = std::max<int64_t>(1, grain_for(cost_per_element));
    // Long runs are cut into pieces, so that a single run can use several threads.
    const int64_t pieces = inner > 2 * grain ? (inner + grain - 1) / grain : 1;
    const int64_t length = pieces > 1 ? grain : inner;
    parallel_for(0, outer * pieces, std::max<int64_t>(1, grain / length), [&](int64_t b, int64_t e) {
      auto run = offsets(b / pieces);
      std::array<int64_t, Dims::kMax> index = indices(b / pieces);
      int64_t piece = b % pieces;
      for (int64_t i = b; i < e; ++i) {
        const int64_t begin = piece * length;
        std::array<int64_t, N> at;
        for (int k = 0; k < N; ++k) at[k] = run[k] + begin * inner_stride[k];
        f(at, std::min(length, inner - begin));
        if (++piece == pieces) piece = 0, advance(index, run);
      }
    });
  }

 private:
  bool continues(const std::array<Strides, N>& strides, int axis, int64_t size) const {
    for (int k = 0; k < N; ++k)
      if (strides_[k].back() != strides[k][axis] * size) return false;
    return true;
  }
  std::array<int64_t, Dims::kMax> indices(int64_t run) const {
    std::array<int64_t, Dims::kMax> index{};
    for (int axis = sizes_.rank() - 2; axis >= 0; --axis) {
      index[axis] = run % sizes_[axis];
      run /= sizes_[axis];
    }
    return index;
  }
  std::array<int64_t, N> offsets(int64_t run) const {
    std::array<int64_t, N> at{};
    const auto index = indices(run);
    for (int axis = 0; axis + 1 < sizes_.rank(); ++axis)
      for (int k = 0; k < N; ++k) at[k] += index[axis] * strides_[k][axis];
    return at;
  }
  void advance(std::array<int64_t, Dims::kMax>& index, std::array<int64_t, N>& at) const {
    for (int axis = sizes_.rank() - 2; axis >= 0; --axis) {
      for (int k = 0; k < N; ++k) at[k] += strides_[k][axis];
      if (++index[axis] < sizes_[axis]) return;
      for (int k = 0; k < N; ++k) at[k] -= sizes_[axis] * strides_[k][axis];
      index[axis] = 0;
    }
  }

  Shape sizes_;
  std::array<Strides, N> strides_;
};

}  // namespace vitrine
