#include "nn/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace vitrine::nn {

/// Finds batches by number. Keeps the order of one epoch.
class Loader::Walk {
 public:
  explicit Walk(BatchPlan plan) : plan_(std::move(plan)) {}

  std::span<const int64_t> items(int64_t index) {
    const int64_t number = epoch_of(index);
    go_to(number);
    return epoch_.batch(index - first_[static_cast<size_t>(number)]);
  }
  int64_t epoch_of(int64_t index) {
    while (index >= first_.back()) {
      go_to(std::ssize(first_) - 1);
      first_.push_back(first_.back() + epoch_.batches());
    }
    return std::upper_bound(first_.begin(), first_.end(), index) - first_.begin() - 1;
  }

 private:
  void go_to(int64_t number) {
    if (number == number_) return;
    epoch_ = plan_.epoch(number);
    check(epoch_.batches() > 0, "Loader: epoch {} has no batches", number);
    number_ = number;
  }

  BatchPlan plan_;
  std::vector<int64_t> first_ = {0};  // the number of the first batch of each epoch
  int64_t number_ = -1;
  Epoch epoch_;
};

/// A thread that reads batches ahead into a queue.
class Loader::Prefetcher {
 public:
  Prefetcher(const BatchPlan& plan, Read read, int64_t limit)
      : walk_(plan), read_(std::move(read)), limit_(limit), thread_([this] { run(); }) {}
  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Batch take(int64_t index) {
    std::unique_lock lock(mutex_);
    if (index != first_) begin_at(index);
    changed_.wait(lock, [&] { return !queue_.empty(); });
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    first_ = index + 1;
    lock.unlock();
    changed_.notify_all();
    if (entry.error) std::rethrow_exception(entry.error);
    return std::move(entry.batch);
  }

 private:
  struct Entry {
    Batch batch;
    std::exception_ptr error;
  };

  void begin_at(int64_t index) {
    queue_.clear();
    first_ = reading_ = index;
    ++turn_;
    changed_.notify_all();
  }
  bool may_read() const { return first_ >= 0 && std::ssize(queue_) < limit_; }
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopped_ || may_read(); });
      if (stopped_) return;
      const int64_t index = reading_, turn = turn_;
      lock.unlock();
      Entry entry;
      try {
        entry.batch = read_(walk_.items(index));
      } catch (...) {
        entry.error = std::current_exception();
      }
      lock.lock();
      if (turn != turn_) continue;  // the caller has gone elsewhere
      queue_.push_back(std::move(entry));
      ++reading_;
      changed_.notify_all();
    }
  }

  Walk walk_;  // of the thread alone, as is read_
  Read read_;
  const int64_t limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> queue_;
  bool stopped_ = false;
  int64_t first_ = -1;   // the number of the batch that the caller takes next; -1: none yet
  int64_t reading_ = 0;  // the number of the batch that the thread reads
  int64_t turn_ = 0;     // how often the caller has gone elsewhere
  std::thread thread_;   // the last member: it begins when the others are there
};

Loader::Loader(BatchPlan plan, Read read, int64_t prefetch)
    : plan_(std::move(plan)), read_(std::move(read)), walk_(std::make_unique<Walk>(plan_)) {
  check(prefetch >= 0, "Loader: prefetch is {}, wanted at least 0", prefetch);
  if (prefetch > 0) prefetcher_ = std::make_unique<Prefetcher>(plan_, read_, prefetch);
}
Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;

BatchPlan Loader::with_size(BatchPlan plan, int64_t items) {
  check(plan.items == items, "Loader: the plan is for {} items, and the data set has {}", plan.items, items);
  return plan;
}

Batch Loader::batch(int64_t index) {
  check(index >= 0, "Loader: there is no batch {}", index);
  Batch result = prefetcher_ ? prefetcher_->take(index) : read_(walk_->items(index));
  next_ = index + 1;
  return result;
}

std::vector<Batch> Loader::whole(int64_t number) const {
  const Epoch epoch = plan_.epoch(number);
  std::vector<Batch> result;
  for (int64_t b = 0; b < epoch.batches(); ++b) result.push_back(read_(epoch.batch(b)));
  return result;
}

int64_t Loader::epoch() const { return walk_->epoch_of(next_); }

LoaderState Loader::state() const { return {plan_.seed, plan_.items, next_}; }

void Loader::restore(const LoaderState& state) {
  check(state.seed == plan_.seed && state.items == plan_.items,
        "Loader: the state is of seed {} and {} items, and the loader has seed {} and {} items", state.seed,
        state.items, plan_.seed, plan_.items);
  check(state.next >= 0, "Loader: the state's next batch is {}, wanted at least 0", state.next);
  next_ = state.next;
}

}  // namespace vitrine::nn
