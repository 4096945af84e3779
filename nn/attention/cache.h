// Keys and values of earlier positions.
#pragma once

#include <utility>

#include "nn/mixer.h"

namespace vitrine::nn {

/// Keys and values that decoding need not compute again, in memory for `capacity` positions; more
/// are an error.
class KeyValueCache : public DecodingState {
 public:
  /// A capacity of 0: as many as are appended
  explicit KeyValueCache(int64_t capacity = 0) : capacity_(capacity) {}
  int64_t length() const override { return length_; }
  int64_t capacity() const override { return capacity_ == 0 ? kUnlimited : capacity_; }
  std::unique_ptr<DecodingState> clone() const override;
  std::vector<Tensor*> tensors() override { return {&k_, &v_}; }
  /// Appends k and v [B, Hkv, T, D] and returns all so far, as views. Not differentiable: an error
  /// while a tape records.
  std::pair<Tensor, Tensor> append(const Tensor& k, const Tensor& v);

 private:
  int64_t capacity_, length_ = 0;
  Tensor k_, v_;
};

}  // namespace vitrine::nn
