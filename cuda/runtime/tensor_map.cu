// The driver creates tensor maps. The driver is not linked; its function is looked up by name.
#include "cuda/instructions/tma.h"

namespace vitrine::cuda {

bool has_tensor_map(const Tensor& heads) {
  constexpr int64_t kAligned = 16 / 2, kLongest = int64_t{1} << 39;  // elements
  bool has = is_low_precision(heads.dtype()) && reinterpret_cast<uintptr_t>(heads.raw()) % 16 == 0 &&
             heads.numel() > 0 && (heads.strides()[3] == 1 || heads.size(3) == 1);
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t stride = heads.strides()[axis];
    has = has && heads.size(axis) < INT32_MAX &&
          (heads.size(axis) == 1 || (stride % kAligned == 0 && stride > 0 && stride < kLongest));
  }
  return has;
}

namespace {

/// For an axis of one element any stride works, but the driver requires an aligned stride that is
/// not shorter than the longest row.
int64_t stride_of(const Tensor& heads, int axis) {
  constexpr int64_t kAny = 2 * kBox;
  return heads.size(axis) == 1 ? kAny : heads.strides()[axis];
}

}  // namespace

#if VITRINE_CUDA_EMULATED

TensorMap tensor_map(DType, const void* data, int64_t length, int64_t lines, int64_t stride) {
  return {static_cast<const char*>(data), length, lines, stride};
}

TensorMap tensor_map(const Tensor& heads) {
  return {static_cast<const char*>(heads.raw()),
          heads.size(3),
          heads.size(2),
          stride_of(heads, 2),
          heads.size(1),
          heads.size(0),
          stride_of(heads, 1),
          stride_of(heads, 0)};
}

#else

namespace {

/// `sizes` of all axes, beginning with the tensor's last axis. `strides`, in elements, of all axes
/// but this one.
template <int kRank>
TensorMap encode_map(DType dtype, const void* data, const int64_t (&sizes)[kRank],
                     const int64_t (&strides)[kRank - 1]) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                                cudaEnableDefault, &found);
#else
    const cudaError_t status =
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
#endif
    check_call(status, "cuTensorMapEncodeTiled");
    check(found == cudaDriverEntryPointSuccess, "CUDA: the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  TensorMap map;
  cuuint64_t counts[kRank], bytes[kRank - 1];
  cuuint32_t box[kRank], steps[kRank];
  for (int axis = 0; axis < kRank; ++axis) {
    counts[axis] = static_cast<cuuint64_t>(sizes[axis]);
    if (axis > 0) bytes[axis - 1] = static_cast<cuuint64_t>(strides[axis - 1]) * 2;
    box[axis] = axis < 2 ? kBox : 1, steps[axis] = 1;
  }
  const CUresult result = encode(
      &map, dtype == DType::bfloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      kRank, const_cast<void*>(data), counts, bytes, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check(result == CUDA_SUCCESS, "CUDA: cuTensorMapEncodeTiled of {} lines of {}, {} apart: error {}",
        sizes[1], sizes[0], strides[0], static_cast<int>(result));
  return map;
}

}  // namespace

TensorMap tensor_map(DType dtype, const void* data, int64_t length, int64_t lines, int64_t stride) {
  return encode_map<2>(dtype, data, {length, lines}, {stride});
}

TensorMap tensor_map(const Tensor& heads) {
  return encode_map<4>(heads.dtype(), heads.raw(),
                       {heads.size(3), heads.size(2), heads.size(1), heads.size(0)},
                       {stride_of(heads, 2), stride_of(heads, 1), stride_of(heads, 0)});
}

#endif

}  // namespace vitrine::cuda
