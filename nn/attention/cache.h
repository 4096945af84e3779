// A cache of the keys and values of earlier positions.
#pragma once

#include <utility>

#include "nn/mixer.h"

namespace vitrine::nn {

/// The keys and values of earlier positions, so that decoding computes them only once. It has
/// memory for `capacity` positions; more positions are an error.
class KeyValueCache : public DecodingState {
 public:
  /// A capacity of 0 means no limit
  explicit KeyValueCache(int64_t capacity = 0) : capacity_(capacity) {}
  int64_t length() const override { return length_; }
  int64_t capacity() const override { return capacity_ == 0 ? kUnlimited : capacity_; }
  std::unique_ptr<DecodingState> clone() const override;
  std::vector<Tensor*> tensors() override { return {&k_, &v_}; }
  /// Appends k and v [B, Hkv, T, D] and returns all keys and values so far, as views. It is not
  /// differentiable: recording on a tape is an error.
  std::pair<Tensor, Tensor> append(const Tensor& k, const Tensor& v);

 private:
  int64_t capacity_, length_ = 0;
  Tensor k_, v_;
};

}  // namespace vitrine::nn
