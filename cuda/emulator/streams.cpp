#include "cuda/emulator/streams.h"

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace vitrine::emulator {
namespace {

using Clock = std::chrono::steady_clock;

/// What an event knows; work that waits for it may outlive the event itself.
struct Moment {
  Stream* stream = nullptr;
  uint64_t recorded = 0, come = 0;  // how often
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

  /// False if there is nothing to do.
  bool step() {
    if (queue.empty()) return false;
    const Work work = std::move(queue.front());
    queue.pop_front();
    work();
    return true;
  }
};

class Event {
 public:
  std::shared_ptr<Moment> moment = std::make_shared<Moment>();
};

namespace {

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

void enqueue(Stream* stream, Work work) {
  if (stream == nullptr) return work();
  const std::lock_guard lock(mutex());
  stream->queue.push_back(std::move(work));
}

void synchronize(Stream* stream) {
  const std::lock_guard lock(mutex());
  while (stream != nullptr && stream->step()) {
  }
}

void synchronize_streams() {
  const std::lock_guard lock(mutex());
  for (Stream* const stream : streams()) synchronize(stream);
}

Event* create_event() { return new Event; }
void destroy_event(Event* event) { delete event; }

void record_event(Event* event, Stream* stream) {
  const std::lock_guard lock(mutex());
  event->moment->stream = stream;
  enqueue(stream, [moment = event->moment, count = ++event->moment->recorded] {
    moment->come = count;
    moment->time = Clock::now();
  });
}

void wait_for_event(Stream* stream, Event* event) {
  const std::lock_guard lock(mutex());
  enqueue(stream, [moment = event->moment, count = event->moment->recorded] { run_until(*moment, count); });
}

void synchronize_event(Event* event) {
  const std::lock_guard lock(mutex());
  run_until(*event->moment, event->moment->recorded);
}

bool query_event(Event* event) {
  const std::lock_guard lock(mutex());
  Moment& moment = *event->moment;
  if (moment.come < moment.recorded) moment.stream->step();
  return moment.come >= moment.recorded;
}

double seconds_between(const Event* first, const Event* second) {
  return std::chrono::duration<double>(second->moment->time - first->moment->time).count();
}

}  // namespace vitrine::emulator
