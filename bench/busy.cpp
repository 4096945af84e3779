// A training step of GPT while other programs keep the cores busy: the mean time of a step, with
// all threads, with one thread, and in PyTorch. With n busy processes, `count` threads on `count`
// cores have the share count / (count + n) of the cores. The last column is the time of a step at
// this share of the speed on an idle machine.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/contest.h"
#include "bench/measure/process.h"
#include "bench/measure/training.h"
#include "core/error.h"
#include "core/parallel.h"

using namespace vitrine;
using nlohmann::json;

namespace {

/// Processes that compute without end while the object exists. They die with this process, however
/// it ends.
class Busy {
 public:
  explicit Busy(int count) {
    const pid_t parent = getpid();
    for (int i = 0; i < count; ++i) {
      const pid_t child = fork();
      check(child >= 0, "bench: cannot start a busy process");
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(0);  // the parent was gone before
        for (std::atomic<unsigned> work = 0;; ++work) continue;
      }
      children_.push_back(child);
    }
  }
  ~Busy() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::vector<pid_t> children_;
};

/// Runs a contender's process; the mean milliseconds of its steps.
double mean_ms(const std::string& command) {
  const json result = bench::run_for_json(command);
  const auto seconds = result["seconds"].get<std::vector<double>>();
  return 1e3 * std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

/// The median over `rounds` processes of each contender, in turn, so that a disturbance meets all.
std::vector<double> measure(const std::vector<std::string>& contenders, int rounds) {
  std::vector<std::vector<double>> means(contenders.size());
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < contenders.size(); ++i)
      if (!contenders[i].empty()) means[i].push_back(mean_ms(contenders[i]));
  std::vector<double> medians;
  for (const auto& x : means) medians.push_back(x.empty() ? 0 : bench::median(x));
  return medians;
}

std::string cell(double ms) { return ms == 0 ? "-" : fmt::format("{:.1f}", ms); }

}  // namespace

int main(int argc, char** argv) {
  bench::Contest contest = bench::parse_contest("A training step while other programs run", argc, argv);
  if (contest.only.empty()) contest.only = "a";
  bench::Size size = contest.sizes().front();
  size.steps = size.steps < 60 ? size.steps : 60;
  if (contest.process) return fmt::print("{}\n", bench::train(size, contest.precision).dump()), 0;

  const auto ours = [&](int count) {
    const std::string length = contest.time > 0 ? fmt::format(" --time {}", contest.time) : "";
    return fmt::format("{} --process --size {} --threads {}{}", bench::this_program(), size.name, count,
                       length);
  };
  const std::string peer = bench::pytorch("gpt.py");
  const std::vector<std::string> contenders = {
      ours(threads()), ours(1), peer.empty() ? "" : fmt::format("{} train {}", peer, bench::arguments(size))};
  fmt::print("size {}, {} threads, mean ms of a training step\n\n", size.name, threads());
  fmt::print("{:>4}{:>10}{:>12}{:>10}{:>12}\n", "busy", "Vitrine", "one thread", "PyTorch", "fair share");
  double quiet = 0;
  for (const int load : {0, 1, 2, 4}) {
    const Busy busy(load);
    const std::vector<double> ms = measure(contenders, contest.rounds);
    if (load == 0) quiet = ms[0];
    fmt::print("{:>4}{:>10}{:>12}{:>10}{:>12}\n", load, cell(ms[0]), cell(ms[1]), cell(ms[2]),
               cell(quiet * (threads() + load) / threads()));
    std::fflush(stdout);
  }
}
