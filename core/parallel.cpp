#include "core/parallel.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/error.h"

namespace vitrine {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr int kMostThreads = 1024;
constexpr int kMostRuns = 64;  // with more threads, several begin with the same run

/// How long a thread busy-waits before it sleeps. Waking a thread takes 5 to 50 microseconds, and
/// most loops of a training step follow one another sooner. A longer wait would keep a core from
/// other programs, and would use up this program's share of the scheduler's time.
constexpr microseconds kSpin{50};
/// How long a helper computes before it offers its core to other programs; less than the time slice
/// of common schedulers.
constexpr microseconds kTurn{2000};
/// A core that another program used within this time counts as shared.
constexpr microseconds kShared{20000};

thread_local int chosen_threads = 0;  // the number given to set_threads; 0 means the default
thread_local bool inside = false;     // this thread runs a body of parallel_for

/// Busy-waits until `done()` or at most for kSpin; returns whether done() became true. It does not
/// yield the core: if another program is ready to run, a thread that yields loses the rest of its
/// time slice, which is milliseconds.
template <class Done>
bool spin(const Done& done) {
  const auto end = Clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (Clock::now() < end);
  return false;
}

/// These replace std::atomic::wait and notify_one: wait yields the core before it sleeps, and
/// notify_one first checks for waiting threads.
void sleep_while(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake_one(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

/// A parallel loop. Only threads that hold a chunk of the loop read it.
struct Loop {
  int64_t begin = 0, end = 0, grain = 1, chunks = 0;
  detail::Body body = nullptr;
  void* context = nullptr;
  int64_t runs = 1;

  int64_t run_begin(int64_t run) const { return run * chunks / runs; }
  void call(int64_t chunk) const {
    const int64_t b = begin + chunk * grain;
    body(context, b, std::min(end, b + grain));
  }
};

/// A helper's time on its core. If the scheduler interrupts a helper in the middle of a chunk, the
/// caller waits for that chunk until the other program's time slice ends. So a helper ends its turn
/// itself, between two chunks. sched_yield returns at once if no other program is ready to run. If
/// one is ready, the helper ends its next turns by sleeping until the next loop, which uses no time
/// slice.
class Turn {
 public:
  void begin() { began_ = Clock::now(); }
  /// Ends the turn if it is over. Returns whether the helper must sleep.
  bool is_over() {
    const auto now = Clock::now();
    if (now - began_ < kTurn) return false;
    if (now - shared_ < kShared) return true;
    sched_yield();
    begin();
    if (began_ - now > microseconds(100)) shared_ = began_;
    return false;
  }

 private:
  Clock::time_point began_ = Clock::now(), shared_ = began_ - 2 * kShared;
};

/// The helpers of the process, and the loop that they can join.
///
/// A loop's chunks are divided into runs. Each run has a counter of the chunks that are left, and a
/// chunk is claimed by decrementing that counter. All counters belong to the pool, not to a loop,
/// so a helper that comes late may always read them:
///
///   - Before a helper has claimed a chunk, it reads nothing of a loop. If its claim succeeds, the
///     chunk belongs to the loop that is published now, even if the helper woke for an earlier
///     one. This loop cannot end without the chunk. Only then does the helper read `loop_`.
///   - If its claim fails, there is nothing to do, and the helper has touched only the counters.
///   - The caller claims chunks until none is left, and then waits until `helped_` counts the
///     chunks that helpers have claimed. So it waits for chunks that have begun, never for a
///     thread.
///
/// A claim acquires `loop_`, which the caller released with the counter. Counting a finished chunk
/// releases what the chunk wrote.
class Pool {
 public:
  static Pool& get();

  /// Only one loop at a time has the helpers. False if another one has them.
  bool try_acquire() { return !taken_.exchange(true, std::memory_order_acquire); }
  void release() { taken_.store(false, std::memory_order_release); }

  /// To be called after try_acquire(). Runs the loop with up to `team` - 1 helpers; returns the
  /// exception of the lowest chunk that threw.
  std::exception_ptr run(const Loop& loop, int team);

 private:
  // The counter of a run also holds the team's size, so that the claim of a helper outside the team
  // fails.
  static constexpr int kTeamShift = 53;
  static constexpr uint64_t kLeft = (uint64_t{1} << kTeamShift) - 1;
  // `state_` holds the number of the loop, in units of kLoop, and the number of sleeping helpers. A
  // helper goes to sleep by one exchange, which fails if there is a new loop. A caller that
  // publishes a loop therefore learns how many helpers it has to wake.
  static constexpr uint64_t kLoop = uint64_t{1} << 16;
  static constexpr uint32_t kCallerSleeps = uint32_t{1} << 31;  // a bit of helped_

  struct alignas(64) Run {
    std::atomic<uint64_t> left = 0;
  };
  struct alignas(64) Helper {
    std::atomic<uint32_t> sleeps = 0;
  };

  template <class GoOn>
  bool work(int me, int64_t runs, const GoOn& go_on);
  int64_t claim(Run& run, int me);
  void call(int64_t chunk);
  void start_helpers(int count);
  void help(int me);
  bool sleep_until_loop(int me, uint64_t number);
  void publish(int team);
  void wait_for_chunks(uint32_t count);

  Loop loop_;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  int64_t error_chunk_ = 0;
  int helpers_ = 0;
  std::atomic<bool> taken_ = false;
  std::atomic<int64_t> runs_in_use_ = 1;  // the same as loop_.runs, for threads that hold no chunk
  alignas(64) std::atomic<uint64_t> state_ = 0;
  alignas(64) std::atomic<uint32_t> helped_ = 0;
  std::array<Run, kMostRuns> runs_;
  std::array<Helper, kMostThreads> helper_;
};

/// The pool is never destroyed, because helpers wait in it until the process ends. A forked child
/// has no helpers, so it creates a new pool.
Pool& Pool::get() {
  alignas(Pool) static std::byte memory[sizeof(Pool)];
  static Pool* const pool = [] {
    pthread_atfork(nullptr, nullptr, [] { new (memory) Pool; });
    return new (memory) Pool;
  }();
  return *pool;
}

/// Claims a chunk. Returns its number counted from the end of the run, or 0 if there is none for
/// this thread.
int64_t Pool::claim(Run& run, int me) {
  uint64_t left = run.left.load(std::memory_order_relaxed);
  do {
    if ((left & kLeft) == 0 || static_cast<int>(left >> kTeamShift) <= me) return 0;
  } while (
      !run.left.compare_exchange_weak(left, left - 1, std::memory_order_acquire, std::memory_order_relaxed));
  return static_cast<int64_t>(left & kLeft);
}

/// Claims and calls chunks while there are any: first those of this thread's own run, then those
/// that others have not begun. False if `go_on`, which is called after each chunk, stopped it.
template <class GoOn>
bool Pool::work(int me, int64_t runs, const GoOn& go_on) {
  for (int64_t i = 0; i < runs; ++i) {
    const int64_t run = (me + i) % runs;
    while (const int64_t left = claim(runs_[static_cast<size_t>(run)], me)) {
      call(loop_.run_begin(run + 1) - left);
      if (!go_on()) return false;
    }
  }
  return true;
}

void Pool::call(int64_t chunk) {
  try {
    loop_.call(chunk);
  } catch (...) {
    const std::lock_guard lock(error_mutex_);
    if (error_ && chunk > error_chunk_) return;
    error_chunk_ = chunk;
    error_ = std::current_exception();
  }
}

/// If the system has no more threads, loops run with fewer helpers.
void Pool::start_helpers(int count) {
  try {
    for (; helpers_ < count; ++helpers_) std::thread(&Pool::help, this, helpers_ + 1).detach();
  } catch (const std::system_error&) {
  }
}

/// The main function of a helper. The caller is thread 0.
void Pool::help(int me) {
  inside = true;
  Turn turn;
  for (;;) {
    const uint64_t number = state_.load(std::memory_order_acquire) / kLoop;
    const bool has_time = work(me, runs_in_use_.load(std::memory_order_relaxed), [&] {
      if ((helped_.fetch_add(1, std::memory_order_release) & kCallerSleeps) != 0) wake_one(helped_);
      return !turn.is_over();
    });
    const auto is_new = [&] { return state_.load(std::memory_order_relaxed) / kLoop != number; };
    if (has_time && spin(is_new)) continue;
    if (sleep_until_loop(me, number)) turn.begin();
  }
}

/// Sleeps until there is a loop with another number. False if there already is one.
bool Pool::sleep_until_loop(int me, uint64_t number) {
  std::atomic<uint32_t>& sleeps = helper_[static_cast<size_t>(me)].sleeps;
  sleeps.store(1, std::memory_order_relaxed);
  uint64_t state = state_.load(std::memory_order_relaxed);
  do {
    if (state / kLoop != number) {
      sleeps.store(0, std::memory_order_relaxed);
      return false;
    }
  } while (
      !state_.compare_exchange_weak(state, state + 1, std::memory_order_release, std::memory_order_relaxed));
  while (sleeps.load(std::memory_order_relaxed) != 0) sleep_while(sleeps, 1);
  state_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

/// Announces a loop and wakes the helpers of its team. A helper that is just about to sleep may be
/// woken unnecessarily.
void Pool::publish(int team) {
  const uint64_t sleepers = state_.fetch_add(kLoop, std::memory_order_acq_rel) % kLoop;
  for (int i = 1; sleepers > 0 && i < team; ++i) {
    std::atomic<uint32_t>& sleeps = helper_[static_cast<size_t>(i)].sleeps;
    if (sleeps.load(std::memory_order_relaxed) == 0) continue;
    sleeps.store(0, std::memory_order_relaxed);
    wake_one(sleeps);
  }
}

/// Waits until helpers have finished `count` chunks.
void Pool::wait_for_chunks(uint32_t count) {
  const auto done = [&] { return (helped_.load(std::memory_order_acquire) & ~kCallerSleeps) == count; };
  if (done() || spin(done)) return;
  helped_.fetch_or(kCallerSleeps, std::memory_order_relaxed);
  for (;;) {
    const uint32_t helped = helped_.load(std::memory_order_acquire);
    if ((helped & ~kCallerSleeps) == count) return;
    sleep_while(helped_, helped);
  }
}

std::exception_ptr Pool::run(const Loop& loop, int team) {
  start_helpers(team - 1);
  loop_ = loop;
  loop_.runs = std::min(team, kMostRuns);
  helped_.store(0, std::memory_order_relaxed);
  runs_in_use_.store(loop_.runs, std::memory_order_relaxed);
  for (int64_t run = 0; run < loop_.runs; ++run) {
    const auto left = static_cast<uint64_t>(loop_.run_begin(run + 1) - loop_.run_begin(run));
    runs_[static_cast<size_t>(run)].left.store(static_cast<uint64_t>(team) << kTeamShift | left,
                                               std::memory_order_release);
  }
  publish(team);
  int64_t own = 0;
  work(0, loop_.runs, [&own] { return ++own > 0; });
  wait_for_chunks(static_cast<uint32_t>(loop.chunks - own) & ~kCallerSleeps);
  return std::exchange(error_, nullptr);
}

int cores() {
  cpu_set_t set;
  if (sched_getaffinity(getpid(), sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(
      std::max(1u, std::thread::hardware_concurrency()));  // more CPUs than the set can hold
}

/// The number at the beginning of a text, or 0 if it is not a possible number of threads; and the
/// rest of the text.
std::pair<int, const char*> leading_threads(const char* text) {
  int count = 0;
  const auto [rest, error] = std::from_chars(text, text + std::strlen(text), count);
  return {error == std::errc() && count >= 1 && count <= kMostThreads ? count : 0, rest};
}

int default_threads() {
  const char* own = std::getenv("VITRINE_THREADS");
  if (own != nullptr && *own != '\0') {
    const auto [count, rest] = leading_threads(own);
    check(count > 0 && *rest == '\0', "VITRINE_THREADS is {}, wanted 1 to {} threads", own, kMostThreads);
    return count;
  }
  const char* openmp = std::getenv("OMP_NUM_THREADS");  // a number for each level of nesting: "4,2"
  const int count = openmp == nullptr ? 0 : leading_threads(openmp).first;
  return count > 0 ? count : std::min(cores(), kMostThreads);
}

}  // namespace

int threads() {
  if (chosen_threads != 0) return chosen_threads;
  static const int count = default_threads();
  return count;
}

void set_threads(int count) {
  check(count >= 1 && count <= kMostThreads, "set_threads: wanted 1 to {} threads, got {}", kMostThreads,
        count);
  chosen_threads = count;
}

bool in_parallel() { return inside; }

namespace detail {
namespace {

/// Marks this thread as inside a body; releases the helpers at the end.
class Inside {
 public:
  Inside() : has_helpers_(Pool::get().try_acquire()) { inside = true; }
  ~Inside() {
    inside = false;
    if (has_helpers_) Pool::get().release();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  bool has_helpers() const { return has_helpers_; }

 private:
  bool has_helpers_;
};

void call_all(const Loop& loop) {
  for (int64_t chunk = 0; chunk < loop.chunks; ++chunk) loop.call(chunk);
}

}  // namespace

void parallel_for(int64_t begin, int64_t end, int64_t grain, Body body, void* context) {
  check(grain > 0, "parallel_for: the grain is {}, wanted at least 1", grain);
  if (begin >= end) return;
  const Loop loop{begin, end, grain, (end - begin + grain - 1) / grain, body, context};
  const int team = static_cast<int>(std::min<int64_t>(loop.chunks, threads()));
  if (team <= 1 || inside) return call_all(loop);
  const Inside scope;
  if (!scope.has_helpers()) return call_all(loop);  // another thread's loop has the helpers
  const std::exception_ptr error = Pool::get().run(loop, team);
  if (error) std::rethrow_exception(error);
}

}  // namespace detail
}  // namespace vitrine
