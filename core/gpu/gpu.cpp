// A build without CUDA: there is no GPU, and the CPU's streams do nothing.
#include "core/gpu/gpu.h"

#if !VITRINE_CUDA_KERNELS
#include "core/error.h"

namespace vitrine {

int gpu_count() { return 0; }

}  // namespace vitrine

namespace vitrine::cuda {

void select(Device device) {
  fail("a tensor on {} was asked for, but this Vitrine was built without CUDA", to_string(device));
}
void* take_memory(size_t, Device device) { return select(device), nullptr; }
void give_memory(void*) noexcept {}
bool caches_memory() { return false; }
std::string describe_free_memory(Device) { return ""; }
void* current_stream(Device) { return nullptr; }
void begin_capture(void*) {}
void* end_capture(void*) { return nullptr; }
void abandon_capture(void*) noexcept {}
void launch_graph(void*, void*) {}
void destroy_graph(void*, void*) noexcept {}
void write_page(void*, const LivePage&) {}
void release_finished() {}
void wait_for_kept() {}

}  // namespace vitrine::cuda
#endif
