#include "tests/misuse/misuse.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>

#include "core/memory/allocator.h"
#include "core/random.h"
#include "core/record.h"
#include "core/tape.h"

namespace vitrine::test {
namespace {

/// The first line in which two texts differ, of both.
std::string difference(const std::string& x, const std::string& y) {
  std::istringstream of_x(x), of_y(y);
  std::string a, b;
  while (a == b && of_x) {
    std::getline(of_x, a);
    std::getline(of_y, b);
  }
  return a + "\nand\n" + b;
}

}  // namespace

std::string Scene::thread_state() const {
  const Generator& generator = default_generator();
  return fmt::format("tape {}, module '{}', generator {} {}, {} bytes\n",
                     static_cast<const void*>(Tape::recording()), ModuleScope::current(), generator.seed(),
                     generator.offset(), memory::statistics().now);
}

std::string Scene::outcome(const Tensor& y) { return show(y); }

std::string outcome_without(Scene& scene, const Misuse& m) {
  m.given();
  return scene.outcome(m.right());
}

std::string problem_of(Scene& scene, const Misuse& m, const std::string& want) {
  m.given();
  const auto state = [&] { return scene.state() + scene.thread_state(); };
  const std::string before = state();
  if (std::string problem = problem_with_message(m.wrong, m.words); !problem.empty()) return problem;
  if (const std::string after = state(); after != before)
    return "the state differs before and after: " + difference(before, after);
  const std::string got = scene.outcome(m.right());
  return got == want ? "" : "the correct call differs without and with the mistake: " + difference(want, got);
}

std::string show(const Tensor& x) {
  if (!x.defined()) return "undefined\n";
  const bool stale = x.requires_grad() && x.leaf()->stale;
  return fmt::format("{}{} version {}{} [{}], gradient {}", name(x.dtype()), x.shape(), x.storage().version(),
                     stale ? " stale" : "", fmt::join(x.values(), " "), show(x.grad()));
}

std::string problem_with_message(const std::function<void()>& f, const std::vector<std::string>& words) {
  try {
    f();
  } catch (const Error& error) {
    const std::string message = error.what();
    for (const std::string& word : words)
      if (message.find(word) == std::string::npos)
        return fmt::format("the message lacks \"{}\": {}", word, message);
    return "";
  } catch (const std::exception& other) {
    return fmt::format("no Error was thrown but: {}", other.what());
  }
  return "no error was thrown";
}

void in_poor_child(const std::function<void()>& f, size_t file_bytes) {
  int ends[2];
  check(pipe(ends) == 0, "in_poor_child: there is no pipe");
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{file_bytes, file_bytes};
    std::string message;
    try {
      check(setrlimit(RLIMIT_FSIZE, &limit) == 0, "in_poor_child: no limit");
      __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
      const __user_cap_data_struct none[2] = {};
      check(syscall(SYS_capset, &header, none) == 0, "in_poor_child: root stays root");
      f();
    } catch (const std::exception& error) {
      message = error.what();
    }
    const bool sent = write(ends[1], message.data(), message.size()) == std::ssize(message);
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  std::string message(4096, '\0');
  const ssize_t got = read(ends[0], message.data(), message.size());
  close(ends[0]);
  waitpid(child, nullptr, 0);
  if (got > 0) throw Error(message.substr(0, static_cast<size_t>(got)));
}

}  // namespace vitrine::test
