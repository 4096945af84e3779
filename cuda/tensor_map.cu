// Tensor maps are made by the driver, which nothing links: its function is asked for by name.
#include <limits>

#include "cuda/instructions/tma.h"

namespace vitrine::cuda {

#if VITRINE_CUDA_EMULATED

TensorMap tensor_map(DType, const void* data, int64_t length, int64_t lines, int64_t stride) {
  return {static_cast<const char*>(data), length, lines, stride};
}

#else

TensorMap tensor_map(DType dtype, const void* data, int64_t length, int64_t lines, int64_t stride) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    check_call(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                                &found),
               "cuTensorMapEncodeTiled");
    check(found == cudaDriverEntryPointSuccess, "CUDA: the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  TensorMap map;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(length), static_cast<cuuint64_t>(lines)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride) * 2};  // bytes, of the second axis
  const cuuint32_t box[] = {kBox, kBox}, steps[] = {1, 1};
  const CUresult result = encode(
      &map, dtype == DType::bfloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2,
      const_cast<void*>(data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check(result == CUDA_SUCCESS, "CUDA: cuTensorMapEncodeTiled of {} lines of {}, {} apart: error {}", lines,
        length, stride, static_cast<int>(result));
  return map;
}

#endif

}  // namespace vitrine::cuda
