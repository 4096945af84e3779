// The line that tells how training goes: one that lives on a terminal, ten in a file.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <sstream>

#include "tests/nn/training/tiny.h"
#include "tests/skip.h"

using namespace vitrine;
using namespace vitrine::nn::training;

namespace {

const char* const kLine = R"(step (\d+) of 25  loss \d\.\d{4}  [1-9]\d* tokens/s  (\d+) s left  \d+ MiB)";

/// Trains for 25 steps with standard error sent to `descriptor`.
void train_into(int descriptor) {
  std::fflush(stderr);
  const int before = dup(STDERR_FILENO);
  dup2(descriptor, STDERR_FILENO);
  manual_seed(1);
  nn::Gpt model(test::tiny());
  auto options = test::quiet(25);
  options.progress = true;
  Trainer(test::text(model, test::counting(300), test::counting(60)), optim::constant(1e-3), options).run();
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
}

/// What comes until a line ends and nothing more is there; a terminal hands on what was written with some delay.
std::string read_all(int descriptor) {
  std::string text;
  char buffer[4096];
  pollfd waiting{descriptor, POLLIN, 0};
  while (poll(&waiting, 1, text.ends_with('\n') ? 0 : 5000) > 0) {
    const ssize_t count = read(descriptor, buffer, sizeof buffer);
    if (count <= 0) break;
    text.append(buffer, static_cast<size_t>(count));
  }
  return text;
}

}  // namespace

TEST_CASE("in a file progress is ten lines with step, loss, speed, time left and memory") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  train_into(fileno(file));
  lseek(fileno(file), 0, SEEK_SET);
  std::istringstream lines(read_all(fileno(file)));
  std::fclose(file);
  std::vector<std::string> steps;
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    REQUIRE_MESSAGE(std::regex_match(line, found, std::regex(kLine)), line);
    steps.push_back(found[1]);
    if (found[1] == "25") CHECK(found[2] == "0");
  }
  CHECK(steps == std::vector<std::string>{"3", "5", "8", "10", "13", "15", "18", "20", "23", "25"});
}

TEST_CASE("on a terminal progress is one line that is written over") {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) {
    test::skip("this system lends no pseudo-terminal");
    return;
  }
  const int user = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  REQUIRE(user >= 0);
  train_into(user);
  const std::string text = read_all(terminal);
  close(user);
  close(terminal);
  // The first step is shown at once, then one at a time, and at last the last.
  const std::string again = "\r\x1b[K";
  REQUIRE(text.starts_with(again));
  REQUIRE(text.ends_with("\r\n"));
  std::vector<int> steps;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at + again.size();
    at = std::min(text.find(again, begin), text.size());
    std::string line = text.substr(begin, at - begin);
    if (at == text.size()) line.resize(line.size() - 2);
    std::smatch found;
    REQUIRE_MESSAGE(std::regex_match(line, found, std::regex(kLine)), line);
    steps.push_back(std::stoi(found[1]));
  }
  CHECK(std::is_sorted(steps.begin(), steps.end()));
  CHECK(steps.front() == 1);
  CHECK(steps.back() == 25);
}
