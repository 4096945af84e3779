// CUDA graphs for core/gpu/step_graph.h.
#include "core/gpu/gpu.h"
#include "cuda/matmul/steps.h"
#include "cuda/runtime/device_error.h"

namespace vitrine::cuda {
namespace {

__global__ void write_page_kernel(LivePage* to, LivePage page) {
  for (unsigned i = threadIdx.x; i < sizeof(LivePage); i += blockDim.x) to->bytes[i] = page.bytes[i];
}

}  // namespace

void begin_capture(void* stream) {
  device_error();  // allocates its memory before a kernel of the graph needs it
  prepare_matmul();
  // Relaxed: the allocator may allocate memory during the capture.
  check_call(cudaStreamBeginCapture(static_cast<cudaStream_t>(stream), cudaStreamCaptureModeRelaxed),
             "beginning to capture a graph");
}

void* end_capture(void* stream) {
  cudaGraph_t captured = nullptr;
  check_call(cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &captured), "capturing a graph");
  cudaGraphExec_t graph = nullptr;
  const cudaError_t result = cudaGraphInstantiateWithFlags(&graph, captured, 0);
  cudaGraphDestroy(captured);
  check_call(result, "making a graph ready");
  return graph;
}

void abandon_capture(void* stream) noexcept {
  cudaGraph_t captured = nullptr;
  if (cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &captured) == cudaSuccess)
    cudaGraphDestroy(captured);
  cudaGetLastError();  // the next launch must not report it
}

void launch_graph(void* graph, void* stream) {
  check_call(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), static_cast<cudaStream_t>(stream)),
             "launching a graph");
  check_launch("a graph");
}

void destroy_graph(void* graph, void* stream) noexcept {
  cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
  cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
}

void write_page(void* to, const LivePage& page) {
  VITRINE_LAUNCH(write_page_kernel, 1, kThreads, 0, static_cast<LivePage*>(to), page);
}

}  // namespace vitrine::cuda
