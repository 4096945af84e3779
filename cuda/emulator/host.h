// The host functions in place of <cuda_runtime.h>: devices, memory, streams, events, graphs. All
// memory is CPU memory.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <utility>

#include "cuda/emulator/errors.h"
#include "cuda/emulator/limits.h"
#include "cuda/emulator/memory.h"
#include "cuda/emulator/streams.h"

enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
using cudaStream_t = vitrine::emulator::Stream*;
using cudaEvent_t = vitrine::emulator::Event*;
enum { cudaStreamDefault, cudaStreamNonBlocking };

inline const char* cudaGetErrorString(cudaError_t e) {
  switch (e) {
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidPitchValue: return "invalid pitch argument";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorIllegalState: return "the operation cannot be performed in the present state";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureIsolation: return "dependency created on uncaptured work in another stream";
    case cudaErrorCapturedEvent:
      return "operation not permitted on an event last recorded in a capturing stream";
    default: return "no error";
  }
}
inline const char* cudaGetErrorName(cudaError_t e) {
  switch (e) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidPitchValue: return "cudaErrorInvalidPitchValue";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorIllegalState: return "cudaErrorIllegalState";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureIsolation: return "cudaErrorStreamCaptureIsolation";
    case cudaErrorCapturedEvent: return "cudaErrorCapturedEvent";
    default: return "unrecognized error code";
  }
}
/// Errors of calls stay until they are read, as in CUDA.
inline cudaError_t cudaGetLastError() { return std::exchange(vitrine::emulator::last_error, cudaSuccess); }
inline cudaError_t cudaPeekAtLastError() { return vitrine::emulator::last_error; }

// There are two GPUs, so that programs for several GPUs can be tested.
inline constexpr int kEmulatedDevices = 2;
inline cudaError_t cudaGetDeviceCount(int* count) { return *count = kEmulatedDevices, cudaSuccess; }
inline cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kEmulatedDevices) return vitrine::emulator::noted(cudaErrorInvalidDevice);
  return vitrine::emulator::selected_device = device, cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  return *device = vitrine::emulator::selected_device, cudaSuccess;
}
/// The emulator supports the instructions of compute capability 9.0 (cuda/instructions/), unless a
/// test selects an older GPU. It has few multiprocessors, so that blocks compute several tiles even
/// in small tests.
enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor,
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
  cudaDevAttrMaxGridDimZ
};
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      return *value = vitrine::emulator::compute_capability() / 10, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      return *value = vitrine::emulator::compute_capability() % 10, cudaSuccess;
    case cudaDevAttrMultiProcessorCount: return *value = 4, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return *value = static_cast<int>(vitrine::emulator::shared_memory_size()), cudaSuccess;
    case cudaDevAttrMaxGridDimZ:
      return *value = static_cast<int>(vitrine::emulator::most_blocks_in_depth()), cudaSuccess;
  }
  return vitrine::emulator::noted(cudaErrorInvalidValue);
}
/// The properties that programs use most.
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, totalConstMem;
  int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
  int major, minor, multiProcessorCount, maxThreadsPerMultiProcessor, l2CacheSize, memoryBusWidth;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  using namespace vitrine::emulator;
  if (device < 0 || device >= kEmulatedDevices) return noted(cudaErrorInvalidDevice);
  int processors = 0;
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  *p = {.name = "Vitrine's emulator",
        .totalGlobalMem = device_memory_size(),
        .sharedMemPerBlock = size_t{48} << 10,
        .sharedMemPerBlockOptin = shared_memory_size(),
        .totalConstMem = size_t{64} << 10,
        .regsPerBlock = 65536,
        .warpSize = 32,
        .maxThreadsPerBlock = 1024,
        .maxThreadsDim = {1024, 1024, 64},
        .maxGridSize = {0x7fffffff, 65535, static_cast<int>(most_blocks_in_depth())},
        .major = compute_capability() / 10,
        .minor = compute_capability() % 10,
        .multiProcessorCount = processors,
        .maxThreadsPerMultiProcessor = 2048,
        .l2CacheSize = 50 << 20,
        .memoryBusWidth = 5120};
  return cudaSuccess;
}
inline cudaError_t cudaDeviceCanAccessPeer(int* possible, int, int) { return *possible = 1, cudaSuccess; }
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() {
  return vitrine::emulator::noted(vitrine::emulator::synchronize_streams());
}
inline cudaError_t cudaDeviceReset() { return cudaDeviceSynchronize(); }

struct cudaFuncAttributes {
  size_t sharedSizeBytes;
};
/// The emulator does not know the sizes of `__shared__` variables; it counts them as 1 KiB.
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {.sharedSizeBytes = 1024};
  return cudaSuccess;
}
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
inline cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int bytes) {
  return vitrine::emulator::noted(
      vitrine::emulator::allow_dynamic_shared(kernel, static_cast<size_t>(bytes)));
}

inline cudaError_t cudaMalloc(void** data, size_t bytes) {
  *data = bytes == 0 ? nullptr : vitrine::emulator::allocate_device_memory(bytes);
  return *data == nullptr && bytes > 0 ? vitrine::emulator::noted(cudaErrorMemoryAllocation) : cudaSuccess;
}
template <class T>
cudaError_t cudaMalloc(T** data, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(data), bytes);
}
inline cudaError_t cudaFree(void* data) {
  if (!vitrine::emulator::any_capture()) cudaDeviceSynchronize();  // as CUDA does
  return vitrine::emulator::release_device_memory(data), cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = vitrine::emulator::device_memory_size();
  *free = *total - vitrine::emulator::device_memory_in_use();
  return cudaSuccess;
}
inline cudaError_t cudaMallocHost(void** data, size_t bytes) {
  *data = vitrine::emulator::allocate_host_memory(bytes);
  return *data == nullptr ? vitrine::emulator::noted(cudaErrorMemoryAllocation) : cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* data) {
  return vitrine::emulator::release_device_memory(data), cudaSuccess;
}
template <class T>
cudaError_t cudaMallocHost(T** data, size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(data), bytes);
}
enum { cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocMapped };
template <class T>
cudaError_t cudaHostAlloc(T** data, size_t bytes, unsigned) {
  return cudaMallocHost(data, bytes);
}
/// Memory for both CPU and GPU; the CPU must wait for kernels, as usual.
enum { cudaMemAttachGlobal = 1, cudaMemAttachHost };
template <class T>
cudaError_t cudaMallocManaged(T** data, size_t bytes, unsigned = cudaMemAttachGlobal) {
  return cudaMallocHost(data, bytes);
}
/// Frees in the order of the stream: only later work of the stream may use the memory again.
template <class T>
cudaError_t cudaMallocAsync(T** data, size_t bytes, cudaStream_t) {
  return cudaMalloc(data, bytes);
}
inline cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  vitrine::emulator::enqueue(stream, [=] { vitrine::emulator::release_device_memory(data); });
  return cudaSuccess;
}

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream = nullptr) {
  vitrine::emulator::enqueue(stream, [=] { vitrine::emulator::copy_device_memory(to, from, bytes); });
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind);
}

/// Copies `lines` lines of `bytes` bytes each; the strides are `to_pitch` and `from_pitch` bytes.
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                     size_t bytes, size_t lines, cudaMemcpyKind,
                                     cudaStream_t stream = nullptr) {
  if (bytes > to_pitch || bytes > from_pitch) return vitrine::emulator::noted(cudaErrorInvalidPitchValue);
  vitrine::emulator::enqueue(stream, [=] {
    for (size_t i = 0; i < lines; ++i)
      vitrine::emulator::copy_device_memory(static_cast<char*>(to) + i * to_pitch,
                                            static_cast<const char*>(from) + i * from_pitch, bytes);
  });
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t bytes,
                                size_t lines, cudaMemcpyKind kind) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, bytes, lines, kind);
}
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream = nullptr) {
  vitrine::emulator::enqueue(stream, [=] { vitrine::emulator::fill_device_memory(to, value, bytes); });
  return cudaSuccess;
}
inline cudaError_t cudaMemset(void* to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes); }

/// In the emulator, `__constant__` and `__device__` variables of kernels are ordinary variables of
/// the program.
template <class T>
cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  if (offset + bytes > sizeof(T)) return vitrine::emulator::noted(cudaErrorInvalidValue);
  return cudaMemcpy(reinterpret_cast<char*>(&symbol) + offset, from, bytes, kind);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  if (offset + bytes > sizeof(T)) return vitrine::emulator::noted(cudaErrorInvalidValue);
  return cudaMemcpy(to, reinterpret_cast<const char*>(&symbol) + offset, bytes, kind);
}

inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return *stream = vitrine::emulator::create_stream(), cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return *stream = vitrine::emulator::create_stream(), cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return vitrine::emulator::destroy_stream(stream), cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return vitrine::emulator::noted(vitrine::emulator::synchronize(stream));
}
/// Not ready until its work is done. Each call runs one piece of work, so that repeated calls
/// finish the work.
inline cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return vitrine::emulator::noted(vitrine::emulator::query_stream(stream));
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return vitrine::emulator::noted(vitrine::emulator::wait_for_event(stream, event));
}
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return *event = vitrine::emulator::create_event(), cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return vitrine::emulator::destroy_event(event), cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr) {
  return vitrine::emulator::record_event(event, stream), cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return vitrine::emulator::noted(vitrine::emulator::synchronize_event(event));
}
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
  return vitrine::emulator::noted(vitrine::emulator::query_event(event));
}
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t second) {
  *milliseconds = static_cast<float>(1e3 * vitrine::emulator::seconds_between(first, second));
  return cudaSuccess;
}

// Graphs.
using cudaGraph_t = vitrine::emulator::Graph*;
using cudaGraphExec_t = vitrine::emulator::Graph*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed = 2 };
inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return vitrine::emulator::noted(vitrine::emulator::begin_capture(stream));
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return vitrine::emulator::noted(vitrine::emulator::end_capture(stream, graph));
}
inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* graph, cudaGraph_t captured,
                                                 unsigned long long) {
  return *graph = vitrine::emulator::copy_graph(captured), cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return vitrine::emulator::launch_graph(graph, stream), cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return vitrine::emulator::destroy_graph(graph), cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return vitrine::emulator::destroy_graph(graph), cudaSuccess;
}
