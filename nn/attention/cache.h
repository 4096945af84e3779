// Keys and values of earlier positions.
#pragma once

#include <cstdint>
#include <utility>

#include "core/tensor.h"

namespace vitrine::nn {

/// Keys and values that decoding need not compute again, in memory for `capacity` positions; more are an error.
class KeyValueCache {
 public:
  explicit KeyValueCache(int64_t capacity = 0) : capacity_(capacity) {}  ///< 0: as much as is appended
  int64_t size() const { return size_; }                                 ///< positions so far
  /// Appends k and v [B, Hkv, T, D] and returns all so far, as views. Not differentiable: an error while a tape records.
  std::pair<Tensor, Tensor> append(const Tensor& k, const Tensor& v);

 private:
  int64_t capacity_, size_ = 0;
  Tensor k_, v_;
};

}  // namespace vitrine::nn
