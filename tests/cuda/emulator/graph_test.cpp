// Capture of a stream in the emulator: what is recorded, and what CUDA does not allow during a
// capture.
#include <doctest/doctest.h>

#include "cuda/launch.h"

using namespace vitrine;

namespace {

__global__ void add(int* y, int x) { *y += x; }

struct Captured {
  Captured() {
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreate(&event);
    cudaMalloc(&data, sizeof(int));
    *value() = 1;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  }
  ~Captured() {
    cudaFree(data);
    cudaEventDestroy(event);
    cudaStreamDestroy(stream);
  }
  int* value() const { return static_cast<int*>(data); }
  void launch(int x) const { emulator::launch("add", false, 1, 1, 0, stream, add, value(), x); }

  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  void* data = nullptr;
  cudaGraph_t graph = nullptr;
};

}  // namespace

TEST_CASE("a capture runs nothing; each launch of its graph runs all of it, with the arguments of then") {
  Captured c;
  int argument = 5;
  c.launch(argument);
  argument = 100;
  int back = 0;
  cudaMemcpyAsync(&back, c.data, sizeof(int), cudaMemcpyDefault, c.stream);
  CHECK(cudaStreamEndCapture(c.stream, &c.graph) == cudaSuccess);
  cudaGraphExec_t ready = nullptr;
  CHECK(cudaGraphInstantiateWithFlags(&ready, c.graph, 0) == cudaSuccess);
  CHECK(cudaGraphDestroy(c.graph) == cudaSuccess);
  cudaStreamSynchronize(c.stream);
  CHECK(*c.value() == 1);
  cudaGraphLaunch(ready, c.stream);
  cudaGraphLaunch(ready, c.stream);
  CHECK(*c.value() == 1);  // not before somebody waits
  cudaStreamSynchronize(c.stream);
  CHECK(back == 11);
  cudaGraphLaunch(ready, nullptr);
  CHECK(back == 16);
  cudaGraphExecDestroy(ready);
}

TEST_CASE("waiting spoils a capture, as in CUDA, and the stream can be used again") {
  Captured c;
  SUBCASE("for the stream") { CHECK(cudaStreamSynchronize(c.stream) == cudaErrorStreamCaptureUnsupported); }
  SUBCASE("for the device") { CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported); }
  SUBCASE("for an event from outside") {
    cudaEventRecord(c.event, nullptr);
    CHECK(cudaStreamWaitEvent(c.stream, c.event, 0) == cudaErrorStreamCaptureIsolation);
  }
  CHECK(cudaStreamEndCapture(c.stream, &c.graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(c.graph == nullptr);
  CHECK(cudaStreamEndCapture(c.stream, &c.graph) == cudaErrorIllegalState);
  c.launch(3);
  CHECK(cudaStreamSynchronize(c.stream) == cudaSuccess);
  CHECK(*c.value() == 4);
}

TEST_CASE("an event of a capture comes for nobody, and the default stream cannot be captured") {
  Captured c;
  cudaEventRecord(c.event, c.stream);
  CHECK(cudaEventQuery(c.event) == cudaErrorCapturedEvent);
  CHECK(cudaEventSynchronize(c.event) == cudaErrorCapturedEvent);
  CHECK(cudaStreamWaitEvent(nullptr, c.event, 0) == cudaErrorStreamCaptureIsolation);
  CHECK(cudaStreamEndCapture(c.stream, &c.graph) == cudaSuccess);
  cudaGraphDestroy(c.graph);
  CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed) == cudaErrorStreamCaptureUnsupported);
  CHECK_THROWS_WITH(cuda::check_call(cudaErrorStreamCaptureUnsupported, "x"),
                    doctest::Contains("x: operation not permitted when stream is capturing"));
}
