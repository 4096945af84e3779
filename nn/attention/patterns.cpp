#include "nn/attention/patterns.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/creation.h"

namespace vitrine::nn {
namespace {

/// visible(i, j) for the positions of query and key.
template <class F>
Tensor pattern(const PatternSize& size, F visible) {
  std::vector<uint8_t> seen;
  seen.reserve(static_cast<size_t>(size.queries * size.keys));
  for (int64_t i = size.keys - size.queries; i < size.keys; ++i)
    for (int64_t j = 0; j < size.keys; ++j) seen.push_back(visible(i, j));
  return tensor(seen, {size.queries, size.keys}, DType::boolean, size.device);
}

}  // namespace

Tensor dilated_pattern(const PatternSize& size, int64_t window, int64_t dilation) {
  check(window >= 0 && dilation >= 1, "dilated_pattern: window is {} and dilation {}, wanted ≥ 0 and ≥ 1",
        window, dilation);
  return pattern(size, [=](int64_t i, int64_t j) {
    return (i - j) % dilation == 0 && std::abs(i - j) / dilation <= window;
  });
}

Tensor global_pattern(const PatternSize& size, int64_t window, std::span<const int64_t> global) {
  std::vector<uint8_t> is_global(static_cast<size_t>(size.keys), 0);
  for (const int64_t at : global) {
    check(at >= 0, "global_pattern: {} is no position, wanted numbers ≥ 0", at);
    if (at < size.keys) is_global[static_cast<size_t>(at)] = 1;
  }
  const auto everywhere = [&](int64_t at) { return at >= 0 && is_global[static_cast<size_t>(at)] != 0; };
  return pattern(size, [&](int64_t i, int64_t j) {
    return std::abs(i - j) <= window || everywhere(i) || everywhere(j);
  });
}

Tensor strided_pattern(const PatternSize& size, int64_t stride) {
  check(stride >= 1, "strided_pattern: stride is {}, wanted at least 1", stride);
  return pattern(size,
                 [=](int64_t i, int64_t j) { return std::abs(i - j) < stride || (i - j) % stride == 0; });
}

Tensor fixed_pattern(const PatternSize& size, int64_t stride, int64_t summary) {
  check(
      stride >= 1 && summary >= 0 && summary <= stride,
      "fixed_pattern: stride is {} and summary {}, wanted a stride of at least 1 and a summary of at most it",
      stride, summary);
  return pattern(size, [=](int64_t i, int64_t j) {
    return (i >= 0 && i / stride == j / stride) || j % stride >= stride - summary;
  });
}

Tensor block_pattern(const PatternSize& size, const Tensor& layout, int64_t block) {
  check(
      layout.rank() == 2 && layout.size(0) == layout.size(1) && layout.dtype() == DType::boolean && block > 0,
      "block_pattern: the layout is {} and a block {}, wanted bool [blocks, blocks] and a size above 0",
      describe(layout), block);
  const int64_t blocks = layout.size(0);
  check(size.keys <= blocks * block, "block_pattern: {} positions are in {} blocks of {}, wanted at most {}",
        size.keys, blocks, block, blocks * block);
  const std::vector<double> seen = layout.values();
  return pattern(size, [&](int64_t i, int64_t j) {
    return i >= 0 && seen[static_cast<size_t>(i / block * blocks + j / block)] != 0;
  });
}

Tensor block_layout(int64_t blocks, int64_t window, int64_t global) {
  check(blocks >= 0 && window >= 0 && global >= 0,
        "block_layout: {} blocks, a window of {} and {} global blocks, wanted numbers ≥ 0", blocks, window,
        global);
  return pattern({blocks, blocks},
                 [=](int64_t i, int64_t j) { return std::abs(i - j) <= window || i < global || j < global; });
}

}  // namespace vitrine::nn
