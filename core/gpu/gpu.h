// The functions of GPUs that the core needs. cuda/runtime/device.cu and cuda/runtime/stream.cu
// implement them; in a build without CUDA core/gpu/gpu.cpp does.
#pragma once

#include <cstddef>
#include <string>

#include "core/device.h"

namespace vitrine::cuda {

/// Makes `device` the current device of this thread's CUDA calls; an Error if there is no such GPU.
void select(Device device);

/// Allocates a GPU's memory, for the allocator; nullptr if there is no more.
void* take_memory(size_t bytes, Device device);
void give_memory(void* data) noexcept;
/// False if each block must be allocated separately, so that an inspection tool sees its bounds.
bool caches_memory();
/// "; 3 of 80 GiB are free on the GPU"
std::string describe_free_memory(Device device);

/// The stream that receives this thread's work for a GPU.
void* current_stream(Device device);
/// From here on, work on the stream is recorded and not run. end_capture() makes a graph of it;
/// abandon_capture() discards it.
void begin_capture(void* stream);
void* end_capture(void* stream);
void abandon_capture(void* stream) noexcept;
void launch_graph(void* graph, void* stream);
/// Waits for the stream first.
void destroy_graph(void* graph, void* stream) noexcept;
/// Values for the kernels of a graph. They are passed as a kernel argument, so no CPU memory has to
/// stay unchanged until the transfer is done.
struct LivePage {
  alignas(16) unsigned char bytes[2048];
};
void write_page(void* to, const LivePage& page);
/// Releases the tensors held by Stream::keep whose GPU work has finished.
void release_finished();
/// The same, after waiting for all work that holds memory.
void wait_for_kept();

}  // namespace vitrine::cuda
