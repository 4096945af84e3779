// train_gpt, run as a user runs it: as a process, with flags and files.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/folder.h"

namespace vitrine::test::train_gpt {

using Arguments = std::vector<std::string>;

/// A folder for one test case, with a text to train on.
struct TextFolder : Folder {
  TextFolder() {
    std::ofstream text(path / "text.txt");
    for (int i = 0; i < 40; ++i) text << "the quick brown fox jumps over " << i % 7 << " lazy dogs\n";
  }
};

/// train_gpt, or another program, as a child process. What it prints on both streams goes to a
/// file, or standard output elsewhere.
class Program {
 public:
  Program(const TextFolder& folder, Arguments arguments, const char* standard_output = nullptr,
          const char* program = VITRINE_TRAIN_GPT)
      : log_(folder / "log") {
    arguments.insert(arguments.begin(), program);
    std::vector<char*> pointers;
    for (std::string& a : arguments) pointers.push_back(a.data());
    pointers.push_back(nullptr);
    process_ = fork();
    if (process_ != 0) return;
    const int log = open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(standard_output ? open(standard_output, O_WRONLY) : log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    alarm(300);  // one that hangs is ended, and its exit code is wrong
    execv(program, pointers.data());
    _exit(126);
  }

  bool running() {
    if (!ended_) ended_ = waitpid(process_, &status_, WNOHANG) == process_;
    return !ended_;
  }
  void send(int signal) const { kill(process_, signal); }
  int exit_code() {
    if (!ended_) ended_ = waitpid(process_, &status_, 0) == process_;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }
  std::string printed() const { return bytes_of_file(log_); }

 private:
  std::string log_;
  pid_t process_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

/// Flags of a model so small that a step takes a millisecond, followed by `more`.
inline Arguments tiny(const Folder& folder, const Arguments& more) {
  Arguments all = {"--data", folder / "text.txt", "--layers", "1",        "--width", "16",        "--context",
                   "16",     "--batch",           "2",        "--sample", "9",       "--threads", "2"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

inline std::vector<nlohmann::json> json_lines(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

}  // namespace vitrine::test::train_gpt
