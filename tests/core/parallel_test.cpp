#include "core/parallel.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "tests/skip.h"

#if defined(__SANITIZE_THREAD__)
#define VITRINE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VITRINE_TSAN 1
#endif
#endif
#if !defined(VITRINE_TSAN)
#define VITRINE_TSAN 0
#endif

using namespace vitrine;

namespace {

/// set_threads for the lifetime of a scope.
class Threads {
 public:
  explicit Threads(int count) { set_threads(count); }
  ~Threads() { set_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_ = threads();
};

/// The numbers 0 to n - 1 added up by a loop.
int64_t sum_below(int64_t n) {
  std::atomic<int64_t> sum = 0;
  parallel_for(0, n, 3, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sum += i;
  });
  return sum;
}

/// Waits until `done()`, which depends on threads that the system may delay; false after half a
/// minute.
bool comes_true(const std::function<bool()>& done) {
  for (int i = 0; i < 30000 && !done(); ++i) usleep(1000);
  return done();
}

/// Runs loops until another thread takes part in one; returns that thread.
pthread_t find_helper() {
  std::atomic<bool> found = false;
  pthread_t helper{};
  const pthread_t caller = pthread_self();
  REQUIRE(comes_true([&] {
    parallel_for(0, 2, 1, [&](int64_t, int64_t) {
      if (pthread_equal(pthread_self(), caller)) {
        usleep(1000);  // leaves the other chunk to the helper
      } else {
        helper = pthread_self();
        found = true;
      }
    });
    return found.load();
  }));
  return helper;
}

/// Runs `body` in a forked child. Returns the child's exit code, 0 if body returned true, or minus
/// the signal.
int in_child(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // a child that hangs must not outlive the test
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Runs the test case "child of the thread count" as a separate program. Returns its exit code and
/// its output.
std::pair<int, std::string> run_program(const std::function<void()>& prepare) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    unsetenv("VITRINE_THREADS");
    unsetenv("OMP_NUM_THREADS");
    prepare();
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    execl("/proc/self/exe", "vitrine_tests", "--test-case=child of the thread count", "--no-skip", nullptr);
    _exit(1);
  }
  close(ends[1]);
  std::string printed;
  char buffer[256];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    printed.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), printed};
}

std::string printed_with(const char* variable, const char* value) {
  return run_program([=] { setenv(variable, value, 1); }).second;
}

}  // namespace

TEST_CASE("parallel_for covers a range once, whatever the threads, and carries the first exception out") {
  for (const int count : {1, 2, 3, 7}) {
    const Threads scope(count);
    std::vector<int> hits(1000);
    std::vector<int64_t> chunks(100, -1);
    parallel_for(0, 1000, 10, [&](int64_t b, int64_t e) {
      CHECK_UNARY(in_parallel() || count == 1);
      chunks[static_cast<size_t>(b / 10)] = e;
      for (int64_t i = b; i < e; ++i) ++hits[static_cast<size_t>(i)];
    });
    CHECK_UNARY(!in_parallel());
    for (int h : hits) CHECK_UNARY(h == 1);
    for (size_t c = 0; c < 100; ++c) CHECK_UNARY(chunks[c] == static_cast<int64_t>(c + 1) * 10);
    CHECK_THROWS_WITH(parallel_for(0, 1000, 10,
                                   [](int64_t b, int64_t) {
                                     if (b >= 300) fail("at {}", b);
                                   }),
                      "at 300");
  }
}

TEST_CASE(
    "the last chunk is shorter, a range without indices runs nothing, and a grain below 1 is an error") {
  const Threads scope(3);
  std::vector<int64_t> ends(4);
  parallel_for(-5, 6, 3, [&](int64_t b, int64_t e) { ends[static_cast<size_t>((b + 5) / 3)] = e; });
  CHECK(ends == std::vector<int64_t>{-2, 1, 4, 6});
  bool ran = false;
  parallel_for(4, 4, 1, [&](int64_t, int64_t) { ran = true; });
  parallel_for(4, -4, 1, [&](int64_t, int64_t) { ran = true; });
  CHECK(!ran);
  CHECK_THROWS_WITH(parallel_for(0, 1, 0, [](int64_t, int64_t) {}),
                    "parallel_for: the grain is 0, wanted at least 1");
}

TEST_CASE("a result that each chunk determines has the same bits on any number of threads") {
  const auto compute = [](int count) {
    const Threads scope(count);
    std::vector<double> sums(301);
    parallel_for(0, 300, 7, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i)
        sums[static_cast<size_t>(b)] += std::sin(static_cast<double>(i)) / static_cast<double>(e - b);
    });
    return sums;
  };
  const std::vector<double> one = compute(1);
  for (const int count : {2, 3, 7, 64, 100})
    for (int repeat = 0; repeat < 20; ++repeat) CHECK_UNARY(compute(count) == one);
}

TEST_CASE("of several exceptions the lowest chunk's comes out, and the next loop is whole") {
  for (const int count : {2, 3, 7}) {
    const Threads scope(count);
    for (int repeat = 0; repeat < 200; ++repeat) {
      const int64_t lowest = repeat % 50;
      std::string message;
      try {
        parallel_for(0, 50, 1, [&](int64_t b, int64_t) {
          if (b >= lowest) fail("chunk {}", b);
        });
      } catch (const Error& e) {
        message = e.what();
      }
      CHECK_UNARY(message == "chunk " + std::to_string(lowest));
      CHECK_UNARY(!in_parallel());
      CHECK_UNARY(sum_below(100) == 4950);
    }
  }
}

TEST_CASE("a loop inside a loop runs on the thread that calls it") {
  const Threads scope(3);
  std::atomic<int> strays = 0;
  parallel_for(0, 50, 1, [&](int64_t, int64_t) {
    const std::thread::id outer = std::this_thread::get_id();
    parallel_for(0, 20, 1, [&](int64_t, int64_t) { strays += std::this_thread::get_id() != outer; });
  });
  CHECK(strays == 0);
}

TEST_CASE("the number of threads holds for the thread that sets it, and no loop uses more") {
  const Threads scope(3);
  std::atomic<bool> wrong = false;
  std::vector<std::thread> users;
  for (const int count : {1, 2, 5, 7}) {
    users.emplace_back([count, &wrong] {
      for (int repeat = 0; repeat < 300; ++repeat) {
        const int now = 1 + (count + repeat) % 7;
        set_threads(now);
        std::mutex mutex;
        std::set<std::thread::id> met;
        parallel_for(0, 20, 1, [&](int64_t, int64_t) {
          const std::lock_guard lock(mutex);
          met.insert(std::this_thread::get_id());
        });
        if (threads() != now || met.empty() || met.size() > static_cast<size_t>(now)) wrong = true;
      }
    });
  }
  for (std::thread& user : users) user.join();
  CHECK(!wrong);
  CHECK(threads() == 3);
}

TEST_CASE("helpers of a larger team take no part in the loop of a smaller one") {
  const Threads scope(7);
  size_t most = 0;
  for (int repeat = 0; repeat < 300; ++repeat) {
    set_threads(7);
    sum_below(100);  // the helpers of seven are awake
    set_threads(2);
    std::mutex mutex;
    std::set<std::thread::id> met;
    parallel_for(0, 50, 1, [&](int64_t, int64_t) {
      usleep(10);  // leaves the core to other helpers
      const std::lock_guard lock(mutex);
      met.insert(std::this_thread::get_id());
    });
    most = std::max(most, met.size());
  }
  CHECK(most <= 2);
}

TEST_CASE("loops of several threads at a time are each whole") {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> users;
  for (int user = 0; user < 6; ++user) {
    users.emplace_back([user, &wrong] {
      set_threads(1 + user % 4);
      for (int64_t n = 0; n < 1000; ++n) wrong += sum_below(n) != n * (n - 1) / 2;
    });
  }
  for (std::thread& user : users) user.join();
  CHECK(wrong == 0);
}

TEST_CASE("a helper that comes late never touches a loop that has ended") {
  const Threads scope(7);  // more than most machines have cores: some helper always comes late
  const int64_t loops = VITRINE_TSAN ? 20000 : 300000;
  int64_t wrong = 0;
  for (int64_t loop = 0; loop < loops; ++loop) {
    const int64_t chunks = 2 + loop % 9;
    std::array<int64_t, 10> hits{};  // on the stack, where the next loop puts its own
    parallel_for(0, chunks, 1,
                 [&hits, loop](int64_t b, int64_t) { hits[static_cast<size_t>(b)] += loop + 1; });
    for (int64_t i = 0; i < 10; ++i) wrong += hits[static_cast<size_t>(i)] != (i < chunks ? loop + 1 : 0);
  }
  CHECK(wrong == 0);
}

// A signal handler that does not return stops a helper, as a busy core would.
namespace {
sem_t held, go_on;
std::atomic<bool> gave_up = false;

void hold(int) {
  const int before = errno;
  sem_post(&held);
  timespec end{};
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += 20;
  while (sem_timedwait(&go_on, &end) != 0) {
    if (errno == EINTR) continue;
    gave_up = true;
    break;
  }
  errno = before;
}
}  // namespace

TEST_CASE("a loop does not wait for a thread that has not begun") {
  if (VITRINE_TSAN) return test::skip("ThreadSanitizer delays signals, by which the test holds a thread");
  const Threads scope(2);
  const pthread_t helper = find_helper();
  sem_init(&held, 0, 0);
  sem_init(&go_on, 0, 0);
  struct sigaction action {
  }, before{};
  action.sa_handler = hold;
  sigaction(SIGUSR1, &action, &before);
  REQUIRE(pthread_kill(helper, SIGUSR1) == 0);
  while (sem_wait(&held) != 0) continue;
  for (int64_t n = 2; n < 200; ++n) CHECK_UNARY(sum_below(n) == n * (n - 1) / 2);
  CHECK_UNARY(!gave_up);  // else the loop waited until the handler returned
  sem_post(&go_on);
  CHECK_UNARY(pthread_equal(find_helper(), helper));  // it takes part again
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("a forked child runs loops, with helpers of its own") {
  if (VITRINE_TSAN)
    return test::skip("ThreadSanitizer does not follow the threads that a forked child starts");
  const Threads scope(3);
  CHECK(sum_below(1000) == 499500);
  for (int repeat = 0; repeat < 5; ++repeat) {
    CHECK(in_child([] {
            find_helper();
            return sum_below(1000) == 499500;
          }) == 0);
    CHECK(sum_below(1000) == 499500);
  }
}

TEST_CASE("a child that is forked while another thread runs loops can run loops") {
  if (VITRINE_TSAN)
    return test::skip("ThreadSanitizer does not follow the threads that a forked child starts");
  std::atomic<bool> stop = false, wrong = false;
  std::thread user([&] {
    set_threads(3);
    while (!stop)
      if (sum_below(100) != 4950) wrong = true;
  });
  const Threads scope(3);
  for (int repeat = 0; repeat < 20; ++repeat)
    CHECK_UNARY(in_child([] { return sum_below(1000) == 499500; }) == 0);
  stop = true;
  user.join();
  CHECK(!wrong);
}

TEST_CASE("child of the thread count" * doctest::skip()) {
  try {
    const std::string line = std::to_string(threads()) + " " + std::to_string(sum_below(1000)) + "\n";
    CHECK(write(STDERR_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  } catch (const Error& e) {
    CHECK(write(STDERR_FILENO, e.what(), std::strlen(e.what())) > 0);
  }
}

TEST_CASE("the number of threads comes from VITRINE_THREADS, OMP_NUM_THREADS, or the cores of the process") {
  CHECK(printed_with("VITRINE_THREADS", "5") == "5 499500\n");
  CHECK(printed_with("OMP_NUM_THREADS", "4") == "4 499500\n");
  CHECK(printed_with("OMP_NUM_THREADS", "6,2") == "6 499500\n");
  const auto both = [] {
    setenv("OMP_NUM_THREADS", "4", 1);
    setenv("VITRINE_THREADS", "3", 1);
  };
  CHECK(run_program(both).second == "3 499500\n");
  for (const char* wrong : {"0", "1025", "-1", "two", "2x", "99999999999999999999"}) {
    const std::string printed = printed_with("VITRINE_THREADS", wrong);
    const std::string message = "VITRINE_THREADS is " + std::string(wrong) + ", wanted 1 to 1024 threads";
    CHECK_MESSAGE(printed.find(message) != std::string::npos, printed);
  }

  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  const std::string cores = std::to_string(CPU_COUNT(&all)) + " 499500\n";
  CHECK(run_program([] {}).second == cores);
  CHECK(printed_with("VITRINE_THREADS", "") == cores);
  // An OpenMP runtime may print a warning first.
  CHECK(printed_with("OMP_NUM_THREADS", "many").ends_with(cores));
  const auto one_core = [&all] {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
      if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one);
  };
  CHECK(run_program(one_core).second == "1 499500\n");
}

TEST_CASE("a program ends cleanly while helpers wait") {
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto result = run_program([] { setenv("VITRINE_THREADS", "7", 1); });
    CHECK_MESSAGE(result.first == 0, result.second);
  }
}
