#include "cuda/emulator/streams.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "cuda/emulator/block.h"
#include "cuda/emulator/limits.h"

namespace vitrine::emulator {
namespace {

using Clock = std::chrono::steady_clock;

/// What an event knows; work that waits for it may outlive the event itself.
struct Moment {
  Stream* stream = nullptr;
  uint64_t recorded = 0, come = 0;  // how often
  bool captured = false;            // last recorded for a graph
  Clock::time_point time;
};

/// One at a time runs queued work, so that each stream keeps its order.
std::recursive_mutex& mutex() {
  static auto* const instance = new std::recursive_mutex;
  return *instance;
}
std::set<Stream*>& streams() {
  static auto* const instance = new std::set<Stream*>;
  return *instance;
}

}  // namespace

class Stream {
 public:
  std::deque<Work> queue;
  std::unique_ptr<Graph> captured;  // of what it is given while there is one
  bool spoiled = false;             // by what a capture does not allow

  /// False if there is nothing to do.
  bool step() {
    if (queue.empty()) return false;
    const Work work = std::move(queue.front());
    queue.pop_front();
    work();
    return true;
  }
};

namespace {

bool default_streams_wait = false;

/// Of the selected GPU.
Stream* default_stream() {
  static auto* const instances = new std::map<int, Stream*>;
  Stream*& stream = (*instances)[selected_device];
  if (stream == nullptr) stream = *streams().insert(new Stream).first;
  return stream;
}

}  // namespace

class Event {
 public:
  std::shared_ptr<Moment> moment = std::make_shared<Moment>();
};

namespace {

cudaError_t spoil(Stream* stream, cudaError_t error) {
  stream->spoiled = true;
  return error;
}

/// Runs the event's stream until the `count`-th recording has come.
void run_until(Moment& moment, uint64_t count) {
  while (moment.come < count && moment.stream->step()) {
  }
}

}  // namespace

Stream* create_stream() {
  const std::lock_guard lock(mutex());
  return *streams().insert(new Stream).first;
}

void destroy_stream(Stream* stream) {
  const std::lock_guard lock(mutex());
  synchronize(stream);
  streams().erase(stream);
  delete stream;
}

void delay_default_streams(bool on) {
  const std::lock_guard lock(mutex());
  synchronize_streams();
  default_streams_wait = on;
}

void enqueue(Stream* stream, Work work) {
  if (stream == nullptr && !default_streams_wait) return work();
  const std::lock_guard lock(mutex());
  if (stream == nullptr) stream = default_stream();
  if (stream->captured) return stream->captured->push_back(std::move(work));
  stream->queue.push_back(std::move(work));
}

void launch_grid(const Launch& launch, Stream* stream, Work kernel) {
  check_launch(launch);
  enqueue(stream, [launch, kernel = std::move(kernel)] { run_grid(launch, kernel); });
}

cudaError_t synchronize(Stream* stream) {
  const std::lock_guard lock(mutex());
  if (stream == nullptr) stream = default_stream();
  if (stream->captured) return spoil(stream, cudaErrorStreamCaptureUnsupported);
  while (stream->step()) {
  }
  return cudaSuccess;
}

cudaError_t query_stream(Stream* stream) {
  const std::lock_guard lock(mutex());
  if (stream == nullptr) stream = default_stream();
  if (stream->captured) return spoil(stream, cudaErrorStreamCaptureUnsupported);
  return stream->step() ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t synchronize_streams() {
  const std::lock_guard lock(mutex());
  cudaError_t result = cudaSuccess;
  for (Stream* const stream : streams())
    if (const cudaError_t error = synchronize(stream); error != cudaSuccess) result = error;
  return result;
}

Event* create_event() { return new Event; }
void destroy_event(Event* event) { delete event; }

void record_event(Event* event, Stream* stream) {
  const std::lock_guard lock(mutex());
  event->moment->stream = stream == nullptr ? default_stream() : stream;
  event->moment->captured = stream != nullptr && stream->captured;
  enqueue(stream, [moment = event->moment, count = ++event->moment->recorded] {
    moment->come = count;
    moment->time = Clock::now();
  });
}

cudaError_t wait_for_event(Stream* stream, Event* event) {
  const std::lock_guard lock(mutex());
  const bool captured = stream != nullptr && stream->captured;
  if (captured != event->moment->captured)
    return captured ? spoil(stream, cudaErrorStreamCaptureIsolation) : cudaErrorStreamCaptureIsolation;
  enqueue(stream, [moment = event->moment, count = event->moment->recorded] { run_until(*moment, count); });
  return cudaSuccess;
}

cudaError_t synchronize_event(Event* event) {
  const std::lock_guard lock(mutex());
  if (event->moment->captured) return cudaErrorCapturedEvent;
  run_until(*event->moment, event->moment->recorded);
  return cudaSuccess;
}

cudaError_t query_event(Event* event) {
  const std::lock_guard lock(mutex());
  Moment& moment = *event->moment;
  if (moment.captured) return cudaErrorCapturedEvent;
  if (moment.come < moment.recorded) moment.stream->step();
  return moment.come >= moment.recorded ? cudaSuccess : cudaErrorNotReady;
}

double seconds_between(const Event* first, const Event* second) {
  return std::chrono::duration<double>(second->moment->time - first->moment->time).count();
}

cudaError_t begin_capture(Stream* stream) {
  const std::lock_guard lock(mutex());
  if (stream == nullptr) return cudaErrorStreamCaptureUnsupported;
  if (stream->captured) return cudaErrorIllegalState;
  stream->captured = std::make_unique<Graph>();
  stream->spoiled = false;
  return cudaSuccess;
}

cudaError_t end_capture(Stream* stream, Graph** graph) {
  const std::lock_guard lock(mutex());
  *graph = nullptr;
  if (stream == nullptr || !stream->captured) return cudaErrorIllegalState;
  const auto captured = std::move(stream->captured);
  if (stream->spoiled) return cudaErrorStreamCaptureInvalidated;
  *graph = copy_graph(captured.get());
  return cudaSuccess;
}

bool any_capture() {
  const std::lock_guard lock(mutex());
  return std::any_of(streams().begin(), streams().end(),
                     [](const Stream* s) { return s->captured != nullptr; });
}

Graph* copy_graph(const Graph* graph) { return new Graph(*graph); }

void launch_graph(const Graph* graph, Stream* stream) {
  for (const Work& work : *graph) enqueue(stream, work);
}

void destroy_graph(Graph* graph) { delete graph; }

}  // namespace vitrine::emulator
