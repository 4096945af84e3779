// After its first steps, training makes no more system calls for memory or threads. A child process
// trains, then forbids itself these calls by a seccomp filter and continues.
#include <doctest/doctest.h>

#include "tests/skip.h"

#if !defined(__linux__) || !defined(__x86_64__) || defined(VITRINE_SANITIZED)
TEST_CASE("a training step makes no system call for memory") {
  vitrine::test::skip(
      "sanitizers ask the system for memory themselves, and call filters are for Linux on x86-64");
}
#else

#include <execinfo.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <string>

#include "core/creation.h"
#include "core/random.h"
#include "core/simd/isa.h"
#include "core/tape.h"
#include "nn/models/gpt.h"
#include "ops/loss.h"
#include "optim/optimizers.h"

using namespace vitrine;

namespace {

constexpr int kBlocked = 97;  // the child's exit code when a forbidden call was made
constexpr int kNoFilter = 98;
constexpr int kWarm = 30;  // steps until all threads and the C library's heap have what they need

/// From now on, mmap, munmap, mremap, brk and clone end this process.
bool forbid_system_memory() {
#define VITRINE_FORBID(call) \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)
  sock_filter rules[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         VITRINE_FORBID(SYS_mmap),
                         VITRINE_FORBID(SYS_munmap),
                         VITRINE_FORBID(SYS_mremap),
                         VITRINE_FORBID(SYS_brk),
                         VITRINE_FORBID(SYS_clone),
                         VITRINE_FORBID(SYS_clone3),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
#undef VITRINE_FORBID
  const sock_fprog program{sizeof(rules) / sizeof(rules[0]), rules};
  // TSYNC: for all threads of the process.
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

struct Run {
  const char* attention;
  int64_t context = 64, batch = 4;
  double dropout = 0;
  nn::Positions positions = nn::Positions::automatic;
  DType dtype = DType::float32;
  int64_t width = 64, layers = 2;
};

/// A model with long contexts, whose tables of positions are large, and the smallest model of the
/// benchmarks.
const Run kRuns[] = {{"standard"},
                     {"rotary", 1024, 1, 0.1},
                     {"standard", 1024, 1, 0, nn::Positions::sinusoidal},
                     {"laser+qk_norm+alibi", 64, 4, 0.1, nn::Positions::automatic, DType::bfloat16},
                     {"standard", 64, 12, 0, nn::Positions::automatic, DType::float32, 128, 4}};

/// Trains a small GPT; `when_warm` runs after kWarm steps. Runs in a process of its own.
void train(const Run& run, bool (*when_warm)()) {
  nn::GptOptions options;
  options.width = run.width, options.layers = run.layers;
  options.mixer = run.attention, options.context = run.context;
  options.dropout = run.dropout, options.positions = run.positions;
  nn::Gpt model(options);
  model.to(run.dtype);
  optim::Adam optimizer(model.parameters());
  for (int step = 0; step < 2 * kWarm; ++step) {
    if (step == kWarm && !when_warm()) _exit(kNoFilter);
    const Shape shape{run.batch, run.context};
    const Tensor x = randint(0, 65, shape), y = randint(0, 65, shape);
    optimizer.zero_grad();
    Tape tape;
    tape.backward(cross_entropy(model.forward(x), y));
    optim::clip_gradients(model.parameters(), 1);
    optimizer.step();
  }
}

/// The number of a run for a child that trains, or "plant" for a child that allocates.
int run_child(const std::string& what) {
  // A fork loses the threads of the process and would start new ones, so the child runs exec.
  const pid_t child = fork();
  if (child == 0) {
    setenv("VITRINE_STEADY_CHILD", what.c_str(), 1);
    execl("/proc/self/exe", "vitrine_tests", "--test-case=child of the steady step", "--no-skip", nullptr);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool plant_an_allocation() {
  if (!forbid_system_memory()) return false;
  const Tensor large = empty({64 << 20});  // more than the arena holds
  return large.defined();
}

}  // namespace

TEST_CASE("child of the steady step" * doctest::skip()) {
  struct sigaction action {};
  action.sa_handler = [](int) {
    void* callers[32];
    backtrace_symbols_fd(callers, backtrace(callers, 32), STDERR_FILENO);
    _exit(kBlocked);
  };
  void* callers[1];
  backtrace(callers, 1);  // loads what it needs
  sigaction(SIGSYS, &action, nullptr);
  if (const char* what = std::getenv("VITRINE_STEADY_CHILD")) {
    const bool plant = std::string(what) == "plant";
    train(kRuns[plant ? 0 : std::stoul(what)], plant ? plant_an_allocation : forbid_system_memory);
  }
  _exit(0);
}

TEST_CASE("after thirty steps a training step makes no mmap, munmap, mremap, brk or clone") {
  if (isa() == Isa::portable) {
    test::skip(
        "on portable code OpenBLAS multiplies, which takes a buffer when two threads first meet in it");
    return;
  }
  const int planted = run_child("plant");
  if (planted == kNoFilter) {
    test::skip("this system allows no seccomp filter");
    return;
  }
  CHECK(planted == kBlocked);  // the filter detects a large allocation
  for (size_t i = 0; i < std::size(kRuns); ++i) {
    INFO("run ", i, ": ", std::string(kRuns[i].attention));
    // On a busy machine a thread may get its first work, and so its first memory, after the thirty
    // steps. A step that allocates does so in every run.
    int tries = 3, code = 0;
    while (tries-- > 0 && (code = run_child(std::to_string(i))) == kBlocked) continue;
    CHECK(code == 0);
  }
}

#endif
