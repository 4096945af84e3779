// Page-locked copies, and the streams of a build without CUDA: CPU streams, which do nothing. GPU
// streams are in cuda/runtime/stream.cu.
#include "core/gpu/stream.h"

#include "core/tensor_kernels.h"

namespace vitrine {

Tensor copy_pinned(const Tensor& x) {
  Tensor y = empty_pinned(x.shape(), x.dtype());
  VITRINE_RUN(copy, y, x);
  return y;
}

}  // namespace vitrine

#if !VITRINE_CUDA_KERNELS
#include "core/creation.h"
#include "core/gpu/gpu.h"

namespace vitrine {
namespace {

Device on_cpu(Device device) {
  if (!device.is_cpu()) cuda::select(device);  // throws the error that there is no GPU
  return device;
}

}  // namespace

Stream::Stream(Device device) : device_(on_cpu(device)) {}
Stream::~Stream() = default;
Stream::Stream(Stream&& other) noexcept : device_(other.device_) {}
Stream Stream::current(Device device) { return Stream(on_cpu(device), nullptr); }
void Stream::synchronize() const {}
void Stream::wait_for(const Stream&) const {}
void Stream::wait_for(const Event&) const {}
void Stream::keep(const Tensor&) const {}

StreamScope::StreamScope(const Stream& stream) : device_(stream.device()), before_(nullptr) {}
StreamScope::~StreamScope() = default;

Event::Event(Device device) : device_(on_cpu(device)) {}
Event::~Event() = default;
Event::Event(Event&& other) noexcept : device_(other.device_) {}
void Event::record() {}
void Event::synchronize() const {}
bool Event::is_done() const { return true; }
double Event::milliseconds_since(const Event&) const { return 0; }

void synchronize(Device device) { on_cpu(device); }
Tensor empty_pinned(const Shape& shape, DType dtype) { return empty(shape, dtype); }
void copy_async(Tensor& y, const Tensor& x) { VITRINE_RUN(transfer, y, x, true); }

}  // namespace vitrine
#endif
