// The positions of the elements of tensors of one shape, for kernels over all elements in row-major
// order.
#pragma once

#include <cstdint>
#include <utility>

#include "core/tensor.h"
#include "cuda/divide.h"
#include "cuda/launch.h"
#include "cuda/vector.h"

namespace vitrine::cuda {

/// N tensors of equal shape with any strides. Neighbouring axes are merged if this is possible in
/// all tensors.
template <int N>
struct Strided {
  int rank = 0;
  int64_t count = 1;
  // Number of groups of kLanes elements. In each tensor, the elements of a group are neighbours in
  // memory, or are all the same element (expanded).
  int64_t vectors = 0;
  int64_t sizes[Dims::kMax] = {};
  Divisor divisors[Dims::kMax] = {};  // by the sizes, if `narrow`
  bool narrow = false;                // 0 < count < 2³¹
  int64_t strides[N][Dims::kMax] = {};

  template <class... Tensors>
  static Strided of(const Tensor& first, const Tensors&... rest) {
    static_assert(sizeof...(rest) + 1 == N);
    Strided s;
    const Tensor* const tensors[N] = {&first, &rest...};
    s.count = first.numel();
    for (int axis = 0; axis < first.rank(); ++axis) s.append(axis, tensors);
    s.narrow = s.count > 0 && s.count <= INT32_MAX;
    for (int axis = 0; s.narrow && axis < s.rank; ++axis)
      s.divisors[axis] = Divisor(static_cast<uint32_t>(s.sizes[axis]));
    s.find_vectors(tensors);
    return s;
  }

  /// Blocks of kThreads for a loop over all elements.
  unsigned blocks() const { return blocks_for(vectors > 0 ? vectors : count); }

  /// The offset of element i in each tensor.
  __device__ void locate(int64_t i, int64_t (&at)[N]) const {
    for (int k = 0; k < N; ++k) at[k] = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const int64_t before = axis == 0 ? 0
                             : narrow  ? int64_t{divisors[axis].quotient(static_cast<uint32_t>(i))}
                                       : i / sizes[axis];
      const int64_t index = i - before * sizes[axis];
      i = before;
      for (int k = 0; k < N; ++k) at[k] += index * strides[k][axis];
    }
  }

  /// kCount elements of tensor k from p on, within a group.
  template <int kCount, class T>
  __device__ Vector<T, kCount> load(int k, const T* p) const {
    if (kCount == 1 || strides[k][rank - 1] == 1)
      return cuda::load<kCount>(p);  // the rank of a single element is 0
    Vector<T, kCount> same;
    for (int lane = 0; lane < kCount; ++lane) same.at[lane] = *p;
    return same;
  }

 private:
  void append(int axis, const Tensor* const (&tensors)[N]) {
    const int64_t size = tensors[0]->shape()[axis];
    if (size == 1) return;
    bool joins = rank > 0;  // whether this axis merges with the previous axis
    for (int k = 0; k < N; ++k) joins = joins && strides[k][rank - 1] == tensors[k]->strides()[axis] * size;
    rank += joins ? 0 : 1;
    sizes[rank - 1] = joins ? sizes[rank - 1] * size : size;
    for (int k = 0; k < N; ++k) strides[k][rank - 1] = tensors[k]->strides()[axis];
  }

  void find_vectors(const Tensor* const (&tensors)[N]) {
    size_t widest = 1;
    for (const Tensor* t : tensors) widest = size_of(t->dtype()) > widest ? size_of(t->dtype()) : widest;
    const int64_t lanes = lanes_of(widest);
    if (lanes == 1 || rank == 0 || (rank > 1 && sizes[rank - 1] % lanes != 0)) return;
    for (int k = 0; k < N; ++k) {
      const int64_t inner = strides[k][rank - 1];
      if (inner == 0 && k > 0) continue;
      if (inner != 1 || reinterpret_cast<uintptr_t>(tensors[k]->raw()) % kVectorBytes != 0) return;
      for (int axis = 0; axis < rank - 1; ++axis)
        if (strides[k][axis] % lanes != 0) return;
    }
    vectors = count / lanes;
  }
};

template <int... k, class F, class Y, class... X>
__device__ void map_all(std::integer_sequence<int, k...>, const Strided<1 + sizeof...(X)>& layout, const F& f,
                        Y* y, const X*... x) {
  constexpr int kN = kLanes<Y, X...>;
  int64_t at[1 + sizeof...(X)];
  if constexpr (kN > 1)
    for (int64_t v = first_index(); v < layout.vectors; v += grid_stride()) {
      layout.locate(v * kN, at);
      store(y + at[0], map<kN>(f, layout.template load<kN>(k + 1, x + at[k + 1])...));
    }
  for (int64_t i = layout.vectors * kN + first_index(); i < layout.count; i += grid_stride()) {
    layout.locate(i, at);
    store(y + at[0], map<1>(f, cuda::load<1>(x + at[k + 1])...));
  }
}

/// y[i] = f(x[i]…) for all elements, with all threads of the grid. `layout` is the layout of y, x….
template <class F, class Y, class... X>
__device__ void map_all(const Strided<1 + sizeof...(X)>& layout, const F& f, Y* y, const X*... x) {
  map_all(std::make_integer_sequence<int, static_cast<int>(sizeof...(X))>{}, layout, f, y, x...);
}

/// Calls f(Type<S>{}) for the floating-point dtypes of kernels: float32, float64, bfloat16,
/// float16.
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

/// The same for kernels of float32 and float64 alone.
template <class F>
void visit_device_wide(DType dtype, const char* kernel, F&& f) {
  switch (dtype) {
    case DType::float32: return f(Type<float>{});
    case DType::float64: return f(Type<double>{});
    default: fail("{}: its CUDA kernel wants float32 or float64, got {}", kernel, name(dtype));
  }
}

/// Like visit_but_uint8: calls f(Type<S>{}) for every dtype except uint8 and dual64 (which exists
/// only on the CPU).
template <class F>
void visit_device_but_uint8(DType dtype, const char* kernel, F&& f) {
  switch (dtype) {
    case DType::int64: return f(Type<int64_t>{});
    case DType::int32: return f(Type<int32_t>{});
    case DType::boolean: return f(Type<bool>{});
    default: visit_device_floating(dtype, kernel, f);
  }
}

/// The same, including uint8.
template <class F>
void visit_device(DType dtype, const char* kernel, F&& f) {
  if (dtype == DType::uint8) return f(Type<uint8_t>{});
  visit_device_but_uint8(dtype, kernel, f);
}

}  // namespace vitrine::cuda
