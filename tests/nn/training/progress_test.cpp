// The progress line of training: one line that is overwritten on a terminal, ten lines in a file.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <regex>
#include <sstream>

#include "nn/training/progress.h"
#include "tests/nn/training/tiny.h"
#include "tests/skip.h"

using namespace vitrine;
using namespace vitrine::nn::training;

namespace {

const char* const kLine =
    R"(tiny, seed 1: (\d+)/25  loss \d\.\d{4}(?:  val (\d\.\d{4})  perplexity [\d.]+)?  (\d+) s left  [1-9]\d* tokens/s  \d+ MiB)";
const std::string kAgain = "\r\x1b[K";

/// Sets an environment variable during its lifetime; nullptr removes the variable.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// Trains for 25 steps with standard error sent to `descriptor`.
void train_into(int descriptor) {
  std::fflush(stderr);
  const int before = dup(STDERR_FILENO);
  dup2(descriptor, STDERR_FILENO);
  manual_seed(1);
  nn::Gpt model(test::tiny());
  auto options = test::quiet(25);
  options.progress = true, options.run = "tiny, seed 1", options.evaluate_every = 10;
  Trainer(test::text(model, test::counting(300), test::counting(60)), optim::constant(1e-3), options).run();
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
}

/// Reads until a line has ended and no more text is available. A terminal passes on text with some
/// delay.
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

/// The output of a run on a terminal with this number of columns; nothing if the system has no
/// pseudo-terminals.
std::optional<std::string> written_to_terminal(unsigned short columns) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) {
    test::skip("this system lends no pseudo-terminal");
    return std::nullopt;
  }
  const int user = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  REQUIRE(user >= 0);
  winsize size{};
  size.ws_row = 24, size.ws_col = columns;
  REQUIRE(ioctl(terminal, TIOCSWINSZ, &size) == 0);
  train_into(user);
  std::string text = read_all(terminal);
  close(user);
  close(terminal);
  return text;
}

/// The steps in the lines that match kLine.
std::vector<std::string> steps_of(std::istream& lines) {
  std::vector<std::string> steps;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    std::smatch found;
    REQUIRE_MESSAGE(std::regex_match(line, found, std::regex(kLine)), line);
    steps.push_back(found[1]);
    CHECK_MESSAGE(found[2].matched == (std::stoi(found[1]) >= 10),
                  line);  // the first evaluation is after step 10
    if (found[1] == "25") CHECK(found[3] == "0");
  }
  return steps;
}

const std::vector<std::string> kTenSteps = {"3", "5", "8", "10", "13", "15", "18", "20", "23", "25"};

/// The lines of a screen with this number of columns after writing the text.
std::vector<std::string> screen_of(const std::string& text, size_t columns) {
  std::vector<std::string> screen(1);
  size_t used = 0;  // columns of the last line
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, kAgain.size(), kAgain) == 0) {
      screen.back().clear(), used = 0;
      i += kAgain.size() - 1;
    } else if (text[i] == '\n') {
      screen.emplace_back(), used = 0;
    } else if (text[i] != '\r') {
      // A character of UTF-8
      const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
      if (begins && used++ == columns) screen.emplace_back(), used = 1;
      screen.back() += text[i];
    }
  }
  return screen;
}

const Progress kSome = {.run = "laser+qk_norm+rotary, seed 12",
                        .step = 1200,
                        .steps = 20000,
                        .loss = 1.23456,
                        .validation_loss = 1.34567,
                        .metrics = {"accuracy 0.93", "f1 0.5"},
                        .seconds_left = 3456,
                        .speed = 30000,
                        .bytes = 123 << 20};

}  // namespace

TEST_CASE("in a file progress is ten lines with run, step, losses, time left, speed and memory") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  train_into(fileno(file));
  lseek(fileno(file), 0, SEEK_SET);
  std::istringstream lines(read_all(fileno(file)));
  std::fclose(file);
  CHECK(steps_of(lines) == kTenSteps);
}

TEST_CASE("on a terminal progress is one line that is written over") {
  const Variable term("TERM", "xterm");
  const auto text = written_to_terminal(120);
  if (!text) return;
  // The first step is shown at once, then the steps one by one, and finally the last.
  REQUIRE(text->starts_with(kAgain));
  REQUIRE(text->ends_with("\r\n"));
  std::string lines;
  for (size_t at = 0; at < text->size();) {
    const size_t begin = at + kAgain.size();
    at = std::min(text->find(kAgain, begin), text->size());
    lines += text->substr(begin, at - begin) + (at == text->size() ? "" : "\n");
  }
  std::istringstream shown(lines);
  const std::vector<std::string> steps = steps_of(shown);
  CHECK(steps.front() == "1");
  CHECK(steps.back() == "25");
}

TEST_CASE("on a terminal of 44 columns progress is one line as well") {
  const Variable term("TERM", "xterm");
  const auto text = written_to_terminal(44);
  if (!text) return;
  const std::vector<std::string> screen = screen_of(*text, 44);
  REQUIRE(screen.size() == 2);
  const std::regex last(R"(ti…, seed 1: 25/25  loss \d\.\d{4}  val \d\.\d{4})");
  CHECK_MESSAGE(std::regex_match(screen[0], last), screen[0]);
  CHECK(screen[1].empty());
}

TEST_CASE("a terminal that cannot write over a line gets plain lines, and none gets colours") {
  for (const char* kind : {"dumb", "", static_cast<const char*>(nullptr)}) {
    const Variable term("TERM", kind);
    const auto text = written_to_terminal(44);
    if (!text) return;
    CHECK(text->find('\x1b') == std::string::npos);
    std::istringstream lines(*text);
    CHECK(steps_of(lines) == kTenSteps);
  }
  const Variable term("TERM", "xterm-256color"), no_color("NO_COLOR", "1");
  const auto text = written_to_terminal(100);
  if (text) CHECK_FALSE(std::regex_search(*text, std::regex("\x1b\\[[0-9;]*m")));
}

TEST_CASE(
    "a line of progress fits its width: memory, speed, time left, metrics, and the middle of the name go first") {
  const std::string begin = "laser+qk_norm+rotary, seed 12: 1200/20000  loss 1.2346  val 1.3457";
  const std::string metrics = "  accuracy 0.93  f1 0.5";
  CHECK(progress_line(kSome, 200) == begin + metrics + "  3456 s left  30000 tokens/s  123 MiB");
  CHECK(progress_line(kSome, 119) == begin + metrics + "  3456 s left  30000 tokens/s");
  CHECK(progress_line(kSome, 102) == begin + metrics + "  3456 s left");
  CHECK(progress_line(kSome, 89) == begin + metrics);
  CHECK(progress_line(kSome, 88) == begin + "  accuracy 0.93");
  CHECK(progress_line(kSome, 79) == begin);
  CHECK(progress_line(kSome, 60) == "laser+qk…otary, seed 12: 1200/20000  loss 1.2346  val 1.3457");
  CHECK(progress_line(kSome, 46) == "… seed 12: 1200/20000  loss 1.2346  val 1.3457");
  CHECK(progress_line(kSome, 43) == "1200/20000  loss 1.2346  val 1.3457");
  CHECK(progress_line(kSome, 30) == "1200/20000  loss 1.2346");
  Progress without = kSome;
  without.run = "", without.validation_loss = NAN, without.metrics.clear(), without.item = "image";
  CHECK(progress_line(without, 200) == "1200/20000  loss 1.2346  3456 s left  30000 images/s  123 MiB");
}
