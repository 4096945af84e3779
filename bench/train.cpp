// A training step of GPT at three sizes, in float32 or bfloat16, next to the same model in PyTorch
// (eager and compiled): time, memory, and the share of the speed of the matrix product alone. Each
// contender runs in its own processes, in turn, so that a disturbance affects all of them.
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
#include "ops/view.h"

using namespace vitrine;
using nlohmann::json;

namespace {

/// Operations per second of our own product of matrices of T where it is at its best.
template <class T>
double product_peak() {
  constexpr int64_t n = 1536;
  const Tensor a = cast(randn({n, n}), dtype_v<T>), b = cast(randn({n, n}), dtype_v<T>);
  std::vector<float> c(n * n);
  double best = 1e300;
  for (int i = 0; i < 8; ++i) {
    const double start = bench::seconds();
    cpu::gemm<T, float>(cpu::Trans::no, cpu::Trans::no, n, n, n, 1, a.data<T>(), n, b.data<T>(), n, 0,
                        c.data(), n);
    best = std::min(best, bench::seconds() - start);
  }
  return 2.0 * n * n * n / best;
}

/// The part of one contender, run as a process: trains, and prints what PyTorch's twin prints, and
/// what the product reaches.
void run_process(const bench::Contest& contest) {
  json result = bench::train(contest.sizes().front(), contest.precision, contest.clip);
  // In each process, as the machine's speed comes and goes
  result["product"] =
      contest.precision.dtype == DType::bfloat16 ? product_peak<bfloat16>() : product_peak<float>();
  fmt::print("{}\n", result.dump());
}

void print(const bench::Size& s, const bench::Contender& c, double peak) {
  const auto seconds = bench::seconds_of(c.runs);
  const double t = bench::median(seconds);
  fmt::print("{:<5}{:<10}{:>10.2f}{:>10.2f}{:>12.0f}{:>10.0f}{:>10.0f}%\n", s.name, c.name, 1e3 * t,
             1e3 * bench::best(seconds), static_cast<double>(s.batch * s.time) / t,
             bench::largest(c.runs, "peak_mib"), 100 * bench::product_operations(s) / t / peak);
  std::fflush(stdout);
}

void compare(const bench::Contest& contest, const bench::Size& s) {
  std::vector<bench::Contender> contenders = bench::contenders(contest, s, "train");
  bench::run(contest, contenders);
  const bench::Contender& ours = contenders.front();
  const double peak = bench::largest(ours.runs, "product");
  fmt::print("{:<5}the {} product reaches {:.0f} GFLOP/s\n", s.name, name(contest.precision.dtype),
             1e-9 * peak);
  for (const bench::Contender& c : contenders) print(s, c, peak);
  const bench::Contender* const peer = bench::best_peer(contenders);
  if (peer == nullptr) return;
  const auto time = bench::seconds_of(ours.runs), theirs = bench::seconds_of(peer->runs);
  fmt::print("{:<5}{:<10}{:>9.2f}x{:>9.2f}x{:>12}{:>9.2f}x\n\n", s.name, "ratio",
             bench::median(theirs) / bench::median(time), bench::best(theirs) / bench::best(time), "",
             bench::largest(ours.runs, "peak_mib") / bench::largest(peer->runs, "peak_mib"));
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Contest contest = bench::parse_contest("A training step of GPT, against PyTorch", argc, argv);
  if (contest.process) return run_process(contest), 0;

  fmt::print(
      "{} threads, {}; share of the largest speed of the product in these processes; ratio to the faster of eager "
      "and compiled\n\n",
      threads(), name(contest.precision.dtype));
  fmt::print("{:<5}{:<10}{:>10}{:>10}{:>12}{:>10}{:>11}\n", "size", "", "median ms", "best ms", "tokens/s",
             "peak MiB", "of product");
  for (const bench::Size& s : contest.sizes()) compare(contest, s);
  return 0;
}
