// Streams, events, page-locked memory, and copies between devices.
#include "core/gpu/stream.h"

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/creation.h"
#include "core/gpu/capture.h"
#include "core/gpu/gpu.h"
#include "core/memory/arena.h"
#include "core/tensor_kernels.h"
#include "cuda/runtime/device_error.h"

namespace vitrine {
namespace {

using cuda::check_call;

cudaStream_t stream_of(const Stream& stream) { return static_cast<cudaStream_t>(stream.handle()); }
cudaEvent_t event_of(void* handle) { return static_cast<cudaEvent_t>(handle); }

/// This thread's current stream of each GPU.
thread_local std::map<int, void*> current_streams;

/// Unused streams, by GPU. They are not destroyed, because they order the allocator's memory.
struct Unused {
  std::mutex mutex;
  std::map<int, std::vector<void*>> streams;
};
Unused& unused() {
  static Unused* const instance = new Unused;
  return *instance;
}

/// Memory that is held until an event is complete.
struct Kept {
  Event until;
  std::vector<std::shared_ptr<Storage>> memory;
};
struct Keeper {
  std::mutex mutex;
  std::list<Kept> kept;
};
Keeper& keeper() {
  static Keeper* const instance = new Keeper;
  return *instance;
}

void keep_until_now(const Stream& stream, std::vector<std::shared_ptr<Storage>> memory) {
  if (detail::capturing()) return;  // the graph keeps it
  cuda::release_finished();         // of a loop that allocates nothing, too
  const StreamScope scope(stream);
  Event until(stream.device());
  until.record();
  const std::lock_guard lock(keeper().mutex);
  keeper().kept.push_back({std::move(until), std::move(memory)});
}

}  // namespace

void* cuda::current_stream(Device device) {
  const auto found = current_streams.find(device.index);
  return found == current_streams.end() ? nullptr : found->second;
}

void cuda::release_finished() {
  std::list<Kept> finished;  // destroyed after the lock is released, because it frees memory
  const std::lock_guard lock(keeper().mutex);
  auto& kept = keeper().kept;
  for (auto it = kept.begin(); it != kept.end();) {
    const auto here = it++;
    if (here->until.is_done()) finished.splice(finished.end(), kept, here);
  }
}

/// One thread waits, and others wait for this thread. The error of a kernel is thrown in a thread
/// that waits for its result.
void cuda::wait_for_kept() {
  static std::mutex waiting;
  const std::lock_guard alone(waiting);
  std::list<Kept> all;
  {
    const std::lock_guard lock(keeper().mutex);
    all.swap(keeper().kept);
  }
  for (const Kept& kept : all)
    while (!kept.until.is_done()) std::this_thread::yield();
}

// Streams -----------------------------------------------------------------------------------------

Stream::Stream(Device device) : device_(device), owned_(!device.is_cpu()) {
  if (!owned_) return;
  cuda::select(device);
  const std::lock_guard lock(unused().mutex);
  auto& streams = unused().streams[device.index];
  if (!streams.empty()) {
    handle_ = streams.back();
    streams.pop_back();
    return;
  }
  cudaStream_t stream;
  check_call(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  handle_ = stream;
}

Stream::~Stream() {
  if (!owned_) return;
  cudaStreamSynchronize(stream_of(*this));
  const std::lock_guard lock(unused().mutex);
  unused().streams[device_.index].push_back(handle_);
}

Stream::Stream(Stream&& other) noexcept
    : device_(other.device_), handle_(other.handle_), owned_(std::exchange(other.owned_, false)) {}

Stream Stream::current(Device device) {
  if (device.is_cpu()) return {device, nullptr};
  cuda::select(device);
  return {device, cuda::current_stream(device)};
}

void Stream::synchronize() const {
  if (device_.is_cpu()) return;
  detail::refuse_in_capture("synchronize");
  cuda::select(device_);
  check_call(cudaStreamSynchronize(stream_of(*this)), "waiting for a stream");
  cuda::tell_device_error();
}

void Stream::wait_for(const Stream& other) const {
  if (device_.is_cpu() || other.device_.is_cpu()) return;
  // Each GPU's default stream is nullptr
  if (other.device_ == device_ && other.handle_ == handle_) return;
  const StreamScope scope(other);
  Event done(other.device_);
  done.record();
  wait_for(done);
}

void Stream::wait_for(const Event& event) const {
  if (device_.is_cpu() || event.handle_ == nullptr) return;
  detail::refuse_in_capture("wait_for");
  cuda::select(device_);
  check_call(cudaStreamWaitEvent(stream_of(*this), event_of(event.handle_), 0), "letting a stream wait");
}

void Stream::keep(const Tensor& x) const {
  if (!device_.is_cpu()) keep_until_now(*this, {x.shared_storage()});
}

StreamScope::StreamScope(const Stream& stream) : device_(stream.device()), before_(nullptr) {
  if (device_.is_cpu()) return;
  if (stream.handle() != cuda::current_stream(device_)) detail::refuse_in_capture("StreamScope");
  cuda::select(device_);
  before_ = std::exchange(current_streams[device_.index], stream.handle());
}

StreamScope::~StreamScope() {
  if (!device_.is_cpu()) current_streams[device_.index] = before_;
}

// Events ------------------------------------------------------------------------------------------

Event::Event(Device device) : device_(device) {
  if (device.is_cpu()) return;
  cuda::select(device);
  cudaEvent_t event;
  check_call(cudaEventCreate(&event), "cudaEventCreate");
  handle_ = event;
}

Event::~Event() {
  if (handle_ != nullptr) cudaEventDestroy(event_of(handle_));
}

Event::Event(Event&& other) noexcept
    : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}

void Event::record() {
  if (handle_ == nullptr) return;
  detail::refuse_in_capture("record");
  check_call(cudaEventRecord(event_of(handle_), stream_of(Stream::current(device_))), "recording an event");
}

void Event::synchronize() const {
  if (handle_ == nullptr) return;
  detail::refuse_in_capture("synchronize");
  check_call(cudaEventSynchronize(event_of(handle_)), "waiting for an event");
  cuda::tell_device_error();
}

bool Event::is_done() const {
  if (handle_ == nullptr) return true;
  const cudaError_t result = cudaEventQuery(event_of(handle_));
  if (result == cudaErrorNotReady) return cudaGetLastError(), false;
  return check_call(result, "asking for an event"), true;
}

double Event::milliseconds_since(const Event& earlier) const {
  if (handle_ == nullptr || earlier.handle_ == nullptr) return 0;
  earlier.synchronize();
  synchronize();
  float milliseconds = 0;
  check_call(cudaEventElapsedTime(&milliseconds, event_of(earlier.handle_), event_of(handle_)),
             "the time between events");
  return milliseconds;
}

void synchronize(Device device) {
  if (device.is_cpu()) return;
  detail::refuse_in_capture("synchronize");
  cuda::select(device);
  check_call(cudaDeviceSynchronize(), "waiting for the device");
  cuda::tell_device_error();
}

// Copies ------------------------------------------------------------------------------------------

namespace {

/// Page-locked memory. Locking pages takes milliseconds, so locked memory is used again.
struct PinnedMemory {
  std::mutex mutex;
  memory::Source source{
      [](size_t bytes) -> void* {
        void* data = nullptr;
        return cuda::has_taken(cudaMallocHost(&data, bytes), "page-locked memory") ? data : nullptr;
      },
      [](void* data, size_t) noexcept { cudaFreeHost(data); }, 64, size_t{1} << 20, size_t{1} << 16};
  memory::Arena arena{source};
};
PinnedMemory& pinned_memory() {
  static PinnedMemory* const instance = new PinnedMemory;
  return *instance;
}

}  // namespace

namespace {

bool is_pinned(const Tensor& x) {
  PinnedMemory& memory = pinned_memory();
  const std::lock_guard lock(memory.mutex);
  return memory.arena.holds(x.shared_storage()->data());
}

}  // namespace

void cuda::transfer(Tensor& y, const Tensor& x, bool wait) {
  check(y.shape() == x.shape() && y.dtype() == x.dtype(),
        "transfer: {} to {}, wanted equal shapes and dtypes", describe(x), describe(y));
  check(y.is_contiguous() && x.is_contiguous(), "transfer: wanted contiguous tensors");
  const Stream stream = Stream::current(y.device().is_cpu() ? x.device() : y.device());
  if (detail::capturing()) {
    for (const Tensor* t : {&x, &std::as_const(y)})
      check(wait || !t->device().is_cpu() || is_pinned(*t),
            "copy_async: {} is not page-locked, as memory has to be that a graph copies (empty_pinned)",
            describe(*t));
    detail::note_use(x);
    detail::note_use(y);
    detail::note_write(y);
  }
  // Of two GPUs, what made x
  if (!x.device().is_cpu()) stream.wait_for(Stream::current(x.device()));
  // Whose default stream is meant
  cuda::select(stream.device());
  if (x.numel() != 0)
    check_call(cudaMemcpyAsync(y.raw(), x.raw(), static_cast<size_t>(x.numel() * x.element_size()),
                               cudaMemcpyDefault, stream_of(stream)),
               "transfer");
  if (wait) return stream.synchronize();
  cuda::check_launch("transfer");
  keep_until_now(stream, {x.shared_storage(), y.shared_storage()});
}

Tensor empty_pinned(const Shape& shape, DType dtype) {
  if (gpu_count() == 0) return empty(shape, dtype);
  const auto bytes = static_cast<size_t>(numel(shape)) * size_of(dtype);
  PinnedMemory& memory = pinned_memory();
  const std::lock_guard lock(memory.mutex);
  const size_t size = (std::max<size_t>(bytes, 1) + 63) / 64 * 64;
  void* data = memory.arena.take(size);
  if (data == nullptr) {  // frees unused memory of other sizes, and tries again
    memory.arena.release_cached();
    data = memory.arena.take(size);
  }
  check(data != nullptr, "empty_pinned: {} bytes of page-locked memory were asked for, there are no more",
        bytes);
  std::shared_ptr<void> hold(data, [](void* block) {
    const std::lock_guard inner(pinned_memory().mutex);
    pinned_memory().arena.give(block);
  });
  return {std::make_shared<Storage>(data, bytes, Device::cpu, std::move(hold)), shape,
          contiguous_strides(shape), 0, dtype};
}

void copy_async(Tensor& y, const Tensor& x) {
  VITRINE_RUN_ON(y.device().is_cpu() ? x.device() : y.device(), transfer, y, x, false);
}

}  // namespace vitrine
