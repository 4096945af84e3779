// The library cuBLASLt, which is loaded when it is first needed. It has 500 MB, so Vitrine does not
// link it.
#pragma once

#include <cublasLt.h>

#include <string>

namespace vitrine::cuda {

/// The functions that are used, under the names of cublasLt.h without their prefix.
struct CublasLibrary {
  std::string absence;  // why the library is not available
  void* file = open();

#define VITRINE_CUBLASLT(name) decltype(&cublasLt##name) name = find<decltype(name)>("cublasLt" #name)
  VITRINE_CUBLASLT(Create);
  VITRINE_CUBLASLT(GetStatusString);
  VITRINE_CUBLASLT(GetVersion);
  VITRINE_CUBLASLT(Matmul);
  VITRINE_CUBLASLT(MatmulAlgoGetHeuristic);
  VITRINE_CUBLASLT(MatmulDescInit_internal);
  VITRINE_CUBLASLT(MatmulDescSetAttribute);
  VITRINE_CUBLASLT(MatmulPreferenceInit_internal);
  VITRINE_CUBLASLT(MatmulPreferenceSetAttribute);
  VITRINE_CUBLASLT(MatrixLayoutInit_internal);
  VITRINE_CUBLASLT(MatrixLayoutSetAttribute);
#undef VITRINE_CUBLASLT

  /// "cuBLASLt 130002 of /usr/local/cuda/lib64/libcublasLt.so.13", or why there is no library.
  std::string origin() const;

 private:
  void* open();

  template <class F>
  F find(const char* name) {
    return reinterpret_cast<F>(find_symbol(name));
  }
  void* find_symbol(const char* name);
};

const CublasLibrary& cublas_library();

/// cuBLASLt's handle for a GPU, kept until the program ends.
struct CublasHandle {
  cublasLtHandle_t handle = nullptr;
  std::string absence;  // why the library is not available
};

/// The handle of the current device, created at the first call.
const CublasHandle& cublas_handle();

}  // namespace vitrine::cuda
