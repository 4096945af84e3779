// Where the elements of tensors of one shape lie, for kernels over all elements in row-major order.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "cuda/launch.h"

namespace vitrine::cuda {

/// N tensors of equal shape and any strides.
template <int N>
struct Strided {
  int rank = 0;
  bool contiguous = true;  // all of them: offsets are indices
  int64_t count = 1;
  int64_t sizes[Dims::kMax] = {};
  int64_t strides[N][Dims::kMax] = {};

  template <class... Tensors>
  static Strided of(const Tensor& first, const Tensors&... rest) {
    static_assert(sizeof...(rest) + 1 == N);
    Strided s;
    const Tensor* const tensors[N] = {&first, &rest...};
    s.rank = first.rank();
    s.count = first.numel();
    for (int k = 0; k < N; ++k) s.contiguous = s.contiguous && tensors[k]->is_contiguous();
    for (int axis = 0; axis < s.rank; ++axis) {
      s.sizes[axis] = first.shape()[axis];
      for (int k = 0; k < N; ++k) s.strides[k][axis] = tensors[k]->strides()[axis];
    }
    return s;
  }

  /// The place of element i of each tensor.
  __device__ void locate(int64_t i, int64_t (&at)[N]) const {
    for (int k = 0; k < N; ++k) at[k] = contiguous ? i : 0;
    if (contiguous) return;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const int64_t index = i % sizes[axis];
      i /= sizes[axis];
      for (int k = 0; k < N; ++k) at[k] += index * strides[k][axis];
    }
  }
};

/// Calls f(Type<S>{}) for the dtypes that kernels know: float32, float64, bfloat16, float16.
template <class F>
void visit_device_floating(DType dtype, const char* kernel, F&& f) {
  switch (dtype) {
    case DType::float32: return f(Type<float>{});
    case DType::float64: return f(Type<double>{});
    case DType::bfloat16: return f(Type<bfloat16>{});
    case DType::float16: return f(Type<float16>{});
    default:
      fail("{}: its CUDA kernel wants float32, float64, bfloat16 or float16, got {}", kernel, name(dtype));
  }
}

/// Calls f(Type<S>{}) for every dtype but dual64, which is the CPU's alone.
template <class F>
void visit_device(DType dtype, const char* kernel, F&& f) {
  switch (dtype) {
    case DType::int64: return f(Type<int64_t>{});
    case DType::int32: return f(Type<int32_t>{});
    case DType::boolean: return f(Type<bool>{});
    default: visit_device_floating(dtype, kernel, f);
  }
}

}  // namespace vitrine::cuda
