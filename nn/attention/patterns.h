// Patterns of sparse attention: masks with which each query sees few keys. A pattern is bool
// [Tq, Tk]. Query i is at position i + Tk − Tq, so that decoding sees the rows of the full pass. A
// causal mask is a condition of its own.
#pragma once

#include <span>

#include "core/tensor.h"

namespace vitrine::nn {

/// The sizes of a pattern, and where it is made.
struct PatternSize {
  int64_t queries, keys;
  Device device = Device::cpu;
};

/// Keys whose distance is a multiple of `dilation` and at most window·dilation. Beltagy, Peters,
/// Cohan 2020.
Tensor dilated_pattern(const PatternSize& size, int64_t window, int64_t dilation);
/// Keys at distance `window` or less; and each pair of tokens with one in `global`, a list of
/// positions. With the first tokens as global ones and a causal mask, this is a window with sinks
/// (Xiao et al. 2023). Beltagy, Peters, Cohan 2020.
Tensor global_pattern(const PatternSize& size, int64_t window, std::span<const int64_t> global);
/// The keys that are nearer than `stride`, and every stride-th beyond them. In causal attention
/// these are the last `stride` keys, and one key in each stride before them. Child, Gray, Radford,
/// Sutskever 2019.
Tensor strided_pattern(const PatternSize& size, int64_t stride);
/// Positions are in blocks of `stride`. A query sees its own block, and the last `summary` keys of
/// every block. Child, Gray, Radford, Sutskever 2019.
Tensor fixed_pattern(const PatternSize& size, int64_t stride, int64_t summary);
/// Positions are in blocks of `block`. A query sees the blocks of keys that `layout`, bool [blocks,
/// blocks], allows its own block. A position after the last block is an error. Child, Gray,
/// Radford, Sutskever 2019.
Tensor block_pattern(const PatternSize& size, const Tensor& layout, int64_t block);
/// A layout [blocks, blocks]: each block sees those at distance `window` or less. The first
/// `global` blocks see all and are seen by all. It is BigBird's without its random blocks. Zaheer
/// et al. 2020.
Tensor block_layout(int64_t blocks, int64_t window, int64_t global);

}  // namespace vitrine::nn
