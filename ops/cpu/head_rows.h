// The rows of one head, for kernels over tensors [B, H, T, ·].
#pragma once

#include "core/tensor.h"

namespace vitrine::cpu {

/// Rows of one head of x, each contiguous, `stride` elements apart.
template <class T>
struct HeadRows {
  T* data;
  int64_t stride;
  T* row(int64_t i) const { return data + i * stride; }

  static HeadRows of(const Tensor& x, int64_t batch, int64_t head) {
    return {x.data<T>() + batch * x.strides()[0] + head * x.strides()[1], x.strides()[2]};
  }
};

}  // namespace vitrine::cpu
