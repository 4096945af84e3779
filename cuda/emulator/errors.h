// The errors of CUDA that the emulator can return.
#pragma once

enum cudaError_t {
  cudaSuccess,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidPitchValue = 12,
  cudaErrorInvalidDevice = 101,
  cudaErrorIllegalState = 401,
  cudaErrorNotReady = 600,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorCapturedEvent = 907
};

namespace vitrine::emulator {

/// The next result of cudaGetLastError.
inline thread_local cudaError_t last_error = cudaSuccess;
inline cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace vitrine::emulator
