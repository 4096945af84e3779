// What the core asks of GPUs. cuda/runtime/device.cu and cuda/runtime/stream.cu answer; in a build
// without CUDA core/gpu/gpu.cpp does.
#pragma once

#include <cstddef>
#include <string>

#include "core/device.h"

namespace vitrine::cuda {

/// Makes `device` the one that this thread's calls of CUDA mean; an Error where there is no such
/// GPU.
void select(Device device);

/// A GPU's memory, for the allocator; nullptr when there is no more.
void* take_memory(size_t bytes, Device device);
void give_memory(void* data) noexcept;
/// False where each block is to be taken by itself, so that an inspection sees its bounds.
bool caches_memory();
/// "; 3 of 80 GiB are free on the GPU"
std::string describe_free_memory(Device device);

/// The stream on which this thread's work for a GPU goes.
void* current_stream(Device device);
/// From here on what the stream is given is noted, and not done, until end_capture() makes a graph
/// of it, or throws it away.
void begin_capture(void* stream);
void* end_capture(void* stream);
void abandon_capture(void* stream) noexcept;
void launch_graph(void* graph, void* stream);
/// Waits for the stream first.
void destroy_graph(void* graph, void* stream) noexcept;
/// Numbers for the kernels of a graph. They travel as the argument of a kernel, so that no memory
/// of the CPU has to wait for it.
struct LivePage {
  alignas(16) unsigned char bytes[2048];
};
void write_page(void* to, const LivePage& page);
/// Releases the tensors held by Stream::keep whose GPU work has finished.
void release_finished();
/// The same, and waits for all work that holds memory.
void wait_for_kept();

}  // namespace vitrine::cuda
