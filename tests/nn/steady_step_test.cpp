// A steady training step asks the system for nothing: no memory and no thread. A child process trains, then forbids itself the
// calls by a seccomp filter and goes on.
#include <doctest/doctest.h>

#include "tests/skip.h"

#if !defined(__linux__) || !defined(__x86_64__) || defined(VITRINE_SANITIZED)
TEST_CASE("a training step makes no system call for memory") {
  vitrine::test::skip(
      "sanitizers ask the system for memory themselves, and call filters are for Linux on x86-64");
}
#else

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/gpt.h"
#include "ops/loss.h"
#include "optim/optimizers.h"

using namespace vitrine;

namespace {

constexpr int kBlocked = 97;  // the child's exit code when a forbidden call was made
constexpr int kNoFilter = 98;

/// From here on mmap, munmap, mremap, brk and clone end this process.
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

/// Trains a small GPT; `between` runs when it is warm. Executed in a process of its own.
void train(bool (*when_warm)()) {
  nn::GptOptions options;
  options.width = 64, options.layers = 2;
  nn::Gpt model(options);
  optim::Adam optimizer(model.parameters());
  for (int step = 0; step < 12; ++step) {
    if (step == 6 && !when_warm()) _exit(kNoFilter);
    const Tensor x = randint(0, 65, {4, 64}), y = randint(0, 65, {4, 64});
    optimizer.zero_grad();
    Tape tape;
    tape.backward(cross_entropy(model.forward(x), y));
    optim::clip_gradients(model.parameters(), 1);
    optimizer.step();
  }
}

int run_child(bool (*when_warm)()) {
  // A fresh image: a forked child of an OpenMP process has lost its threads.
  const pid_t child = fork();
  if (child == 0) {
    const char* what = when_warm == nullptr ? "VITRINE_STEADY_PLANT" : "VITRINE_STEADY_CHILD";
    setenv(what, "1", 1);
    execl("/proc/self/exe", "vitrine_tests", "--test-case=child of the steady step", "--no-skip", nullptr);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kBlocked;
}

bool plant_an_allocation() {
  if (!forbid_system_memory()) return false;
  const Tensor large = empty({64 << 20});  // more than the arena holds
  return large.defined();
}

}  // namespace

TEST_CASE("child of the steady step" * doctest::skip()) {
  struct sigaction action {};
  action.sa_handler = [](int) { _exit(kBlocked); };
  sigaction(SIGSYS, &action, nullptr);
  if (std::getenv("VITRINE_STEADY_CHILD")) train(forbid_system_memory);
  if (std::getenv("VITRINE_STEADY_PLANT")) train(plant_an_allocation);
  _exit(0);
}

TEST_CASE("after six steps a training step makes no mmap, munmap, mremap, brk or clone") {
  const int code = run_child(forbid_system_memory);
  if (code == kNoFilter) {
    test::skip("this system allows no seccomp filter");
    return;
  }
  CHECK(code == 0);
  CHECK(run_child(nullptr) == kBlocked);  // the filter does see a large allocation
}

#endif
