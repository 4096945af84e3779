// A training step of GPT at three sizes, float32, next to the same model in PyTorch: time, memory,
// and the share of the speed of the matrix product alone. Each contender runs in its own processes,
// in turn, so that a disturbance affects both.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/contest.h"
#include "bench/measure/training.h"
#include "core/parallel.h"
#include "core/random.h"
#include "ops/cpu/gemm/gemm.h"

using namespace vitrine;
using nlohmann::json;

namespace {

/// Operations per second of our own matrix product where it is at its best.
double product_peak() {
  constexpr int64_t n = 1536;
  const Tensor a = randn({n, n}), b = randn({n, n});
  std::vector<float> c(n * n);
  double best = 1e300;
  for (int i = 0; i < 8; ++i) {
    const double start = bench::seconds();
    cpu::gemm_batched({}, cpu::Trans::no, cpu::Trans::no, n, n, n, 1.0f, a.data<float>(), n, b.data<float>(),
                      n, 0.0f, c.data(), n);
    best = std::min(best, bench::seconds() - start);
  }
  return 2.0 * n * n * n / best;
}

/// The part of one contender, run as a process: trains, and prints what PyTorch's twin prints, and
/// what the product reaches.
void run_process(const bench::Size& s) {
  json result = bench::train(s);
  result["product"] = product_peak();  // in each process, as the machine's speed comes and goes
  fmt::print("{}\n", result.dump());
}

void print(const bench::Size& s, const char* name, const std::vector<json>& runs, double peak) {
  const auto seconds = bench::seconds_of(runs);
  const double t = bench::median(seconds);
  fmt::print("{:<5}{:<10}{:>10.2f}{:>10.2f}{:>12.0f}{:>10.0f}{:>10.0f}%\n", s.name, name, 1e3 * t,
             1e3 * bench::best(seconds), static_cast<double>(s.batch * s.time) / t,
             bench::largest(runs, "peak_mib"), 100 * bench::product_operations(s) / t / peak);
  std::fflush(stdout);
}

void compare(const bench::Contest& contest, const bench::Size& s) {
  const bench::Runs runs = bench::run(contest, s, "train");
  const double peak = bench::largest(runs.ours, "product");
  fmt::print("{:<5}the product reaches {:.0f} GFLOP/s\n", s.name, 1e-9 * peak);
  print(s, "Vitrine", runs.ours, peak);
  if (runs.theirs.empty()) return;
  print(s, "PyTorch", runs.theirs, peak);
  const auto ours = bench::seconds_of(runs.ours), theirs = bench::seconds_of(runs.theirs);
  fmt::print("{:<5}{:<10}{:>9.2f}x{:>9.2f}x{:>12}{:>9.2f}x\n\n", s.name, "ratio",
             bench::median(theirs) / bench::median(ours), bench::best(theirs) / bench::best(ours), "",
             bench::largest(runs.ours, "peak_mib") / bench::largest(runs.theirs, "peak_mib"));
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Contest contest =
      bench::parse_contest("A training step of GPT, float32, against PyTorch", argc, argv);
  if (contest.process) return run_process(bench::size(contest.only)), 0;

  fmt::print("{} threads; share of the largest speed that the matrix product reached in these processes\n\n",
             threads());
  fmt::print("{:<5}{:<10}{:>10}{:>10}{:>12}{:>10}{:>11}\n", "size", "", "median ms", "best ms", "tokens/s",
             "peak MiB", "of product");
  for (const bench::Size& s : contest.sizes()) compare(contest, s);
  return 0;
}
