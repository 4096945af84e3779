// Sequences of different lengths as one tensor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace vitrine::nn {

/// Rows padded at their end to the length of the longest one.
struct Padded {
  Tensor values;   ///< [B, T, …]
  Tensor lengths;  ///< int64 [B]: row b has lengths[b] values before its padding
};

/// Token ids as int64 [B, T]; the padding is `fill`. No rows is an error.
Padded pad_ids(std::span<const std::vector<int64_t>> rows, int64_t fill);

/// Contiguous float32 rows [T_b, …], such as waveforms or features, as [B, T, …]; the padding is
/// `fill`. No rows, and different sizes after the first, are errors.
Padded pad_frames(std::span<const Tensor> rows, double fill = 0);

}  // namespace vitrine::nn
