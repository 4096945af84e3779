#include "nn/training/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "nn/training/clock.h"

namespace vitrine::nn::training {
namespace {

constexpr double kSecondsBetween = 0.2;
constexpr int64_t kShortestName = 9;  // a shorter one is meaningless; "… seed 12"
constexpr int64_t kUsualWidth = 80;

/// The start of each character of UTF-8 text, and the end of the text.
std::vector<size_t> characters(const std::string& text) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) begins.push_back(i);
  begins.push_back(text.size());
  return begins;
}

int64_t columns(const std::string& text) { return static_cast<int64_t>(characters(text).size()) - 1; }

/// The text without its middle, in `width` columns.
std::string without_middle(const std::string& text, int64_t width) {
  const std::vector<size_t> begins = characters(text);
  const auto all = static_cast<int64_t>(begins.size()) - 1;
  if (all <= width) return text;
  const int64_t last = std::max((width - 1) * 2 / 3, kShortestName - 1), first = width - 1 - last;
  return text.substr(0, begins[static_cast<size_t>(first)]) + "…" +
         text.substr(begins[static_cast<size_t>(all - last)]);
}

/// The columns of the terminal of standard error, without the last one, in which some terminals
/// start a new line. 0: not a terminal, or a terminal that cannot overwrite a line.
int64_t terminal_width() {
  const char* kind = std::getenv("TERM");
  if (isatty(STDERR_FILENO) == 0 || kind == nullptr || *kind == '\0' || std::string_view(kind) == "dumb")
    return 0;
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (known ? size.ws_col : kUsualWidth) - 1;
}

}  // namespace

std::string progress_line(const Progress& p, int64_t width) {
  std::string line = fmt::format("{}/{}  loss {:.4f}", p.step, p.steps, p.loss);
  const auto add = [&](const std::string& part) {
    const bool fits = columns(line) + columns(part) <= width;
    if (fits) line += part;
    return fits;
  };
  if (!std::isnan(p.validation_loss)) add(fmt::format("  val {:.4f}", p.validation_loss));
  const int64_t room = width - columns(line) - 2;
  if (!p.run.empty() && (room >= kShortestName || columns(p.run) <= room))
    line = without_middle(p.run, room) + ": " + line;
  std::vector<std::string> rest = p.metrics;
  rest.insert(rest.end(),
              {fmt::format("{:.0f} s left", p.seconds_left), fmt::format("{:.0f} {}s/s", p.speed, p.item),
               fmt::format("{:.0f} MiB", p.bytes / (1 << 20))});
  for (const std::string& part : rest)
    if (!add("  " + part)) break;
  return line;
}

void ProgressDisplay::show(const Progress& p) {
  const int64_t width = terminal_width();
  const bool live = width > 0, last = p.last || p.step == p.steps;
  const auto lines = [&](int64_t step) { return step * 10 / p.steps; };
  const bool due = live ? now() - shown_at_ >= kSecondsBetween : lines(p.step) != lines(p.step - 1);
  if (!due && !last) return;
  shown_at_ = now();
  const std::string line = progress_line(p, live ? width : INT64_MAX);
  fmt::print(stderr, "{}{}{}", live ? "\r\033[K" : "", line, !live || last ? "\n" : "");
}

}  // namespace vitrine::nn::training
