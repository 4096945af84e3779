// The matrix products of a training step at three sizes of GPT, and of generation: our kernels
// against OpenBLAS, and both against this CPU's peak of fused multiply-adds, measured in the same
// run. With --dtype bfloat16, products of bfloat16 against our own in float32. Runs alternate, so
// that a disturbance affects both. One thread is measured by its CPU time, all threads by
// wall-clock time; the best of all runs counts.
#include <cblas.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/limits.h"
#include "core/parallel.h"
#include "core/simd/isa.h"
#include "ops/cpu/gemm/gemm.h"

extern "C" __attribute__((weak)) void openblas_set_num_threads(int count);

using namespace vitrine;
using bench::seconds;
using cpu::Trans;

namespace {

struct Product {
  std::string size, name;
  Trans ta, tb;
  int64_t M, N, K;
  int64_t batch = 1;
  int64_t per_step = 0;  // how often in a training step; 0 where it is not part of one

  double flops() const { return 2.0 * static_cast<double>(batch * M * N * K); }
};

/// y = x Wᵀ for x [tokens, in] and W [out, in], then dx = dy W and dW = dyᵀ x.
void add_linear(std::vector<Product>& list, const std::string& size, const std::string& name, int64_t tokens,
                int64_t in, int64_t out, int64_t layers) {
  list.push_back({size, name + " forward", Trans::no, Trans::yes, tokens, out, in, 1, layers});
  list.push_back({size, name + " dx", Trans::no, Trans::no, tokens, in, out, 1, layers});
  list.push_back({size, name + " dW", Trans::yes, Trans::no, out, in, tokens, 1, layers});
}

/// The linear layers of a GPT with `layers` blocks of C channels and a vocabulary of V.
void add_gpt(std::vector<Product>& list, const std::string& size, int64_t tokens, int64_t C, int64_t V,
             int64_t layers) {
  add_linear(list, size, "qkv", tokens, C, 3 * C, layers);
  add_linear(list, size, "out", tokens, C, C, layers);
  add_linear(list, size, "up", tokens, C, 4 * C, layers);
  add_linear(list, size, "down", tokens, 4 * C, C, layers);
  add_linear(list, size, "head", tokens, C, V, 1);
}

std::vector<Product> products() {
  std::vector<Product> list;
  add_gpt(list, "a", 768, 128, 65, 4);
  add_gpt(list, "b", 2048, 384, 65, 6);
  add_gpt(list, "c", 256, 768, 50304, 12);
  list.push_back({"a", "q kT", Trans::no, Trans::yes, 64, 64, 32, 48});
  list.push_back({"a", "weights v", Trans::no, Trans::no, 64, 32, 64, 48});
  list.push_back({"b", "q kT", Trans::no, Trans::yes, 256, 256, 64, 48});
  list.push_back({"b", "weights v", Trans::no, Trans::no, 256, 64, 256, 48});
  for (int64_t n : {64, 128, 256, 512, 1024, 2048})
    list.push_back({"square", fmt::format("{}", n), Trans::no, Trans::no, n, n, n});
  list.push_back({"c", "one token up", Trans::no, Trans::yes, 1, 3072, 768});
  list.push_back({"c", "one token head", Trans::no, Trans::yes, 1, 50304, 768});
  list.push_back({"c", "one token head NN", Trans::no, Trans::no, 1, 50304, 768});
  for (const auto& [name, count] : {std::pair{"four", 4}, {"eight", 8}, {"sixteen", 16}})
    list.push_back({"c", fmt::format("{} tokens up", name), Trans::no, Trans::yes, count, 3072, 768});
  return list;
}

/// Operands of ordinary numbers: zeros and subnormals would flatter or slow the CPU.
std::vector<float> numbers(int64_t count) {
  std::vector<float> x(count);
  uint32_t state = 1;
  for (float& v : x) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) / (1 << 24) - 0.5f;
  }
  return x;
}

/// Threads of one product of OpenBLAS; its serial build always has one.
void set_openblas_threads(int count) {
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(count);
}

CBLAS_TRANSPOSE flag(Trans t) { return t == Trans::yes ? CblasTrans : CblasNoTrans; }

struct Timing {
  double ours, peer;  // seconds
};

/// Alternates both for about `budget` seconds and keeps the best of each.
Timing time_both(const std::function<void()>& ours, const std::function<void()>& peer, clockid_t clock,
                 double budget) {
  Timing best{1e300, 1e300};
  const auto once = [clock](const std::function<void()>& f) {
    const double start = seconds(clock);
    f();
    return seconds(clock) - start;
  };
  ours();
  peer();
  const double end = seconds(CLOCK_MONOTONIC) + budget;
  for (int round = 0; round < 5 || seconds(CLOCK_MONOTONIC) < end; ++round) {
    best.ours = std::min(best.ours, once(ours));
    best.peer = std::min(best.peer, once(peer));
  }
  return best;
}

/// One of our own products. C has the type that training uses: dW is float32.
template <class T>
std::function<void()> own_product(const Product& p, const std::vector<T>& A, const std::vector<T>& B,
                                  std::vector<T>& C, std::vector<float>& wide) {
  const cpu::MatrixBatch batch{p.batch, 1, {p.M * p.K, 0}, {p.K * p.N, 0}, {p.M * p.N, 0}};
  const int64_t lda = p.ta == Trans::yes ? p.M : p.K, ldb = p.tb == Trans::yes ? p.K : p.N;
  return [=, &p, &A, &B, &C, &wide] {
    if (p.ta == Trans::yes)
      cpu::gemm_batched<T, float>(batch, p.ta, p.tb, p.M, p.N, p.K, 1, A.data(), lda, B.data(), ldb, 0,
                                  wide.data(), p.N);
    else
      cpu::gemm_batched<T, T>(batch, p.ta, p.tb, p.M, p.N, p.K, 1, A.data(), lda, B.data(), ldb, 0, C.data(),
                              p.N);
  };
}

Timing time_bfloat16(const Product& p, int count, double budget) {
  const std::vector<float> A = numbers(p.batch * p.M * p.K), B = numbers(p.batch * p.K * p.N);
  std::vector<float> C(p.batch * p.M * p.N), wide(C.size());
  const std::vector<vitrine::bfloat16> A16(A.begin(), A.end()), B16(B.begin(), B.end());
  std::vector<vitrine::bfloat16> C16(C.size());
  set_threads(count);
  return time_both(own_product(p, A16, B16, C16, wide), own_product(p, A, B, C, wide),
                   count == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, budget);
}

Timing time_float32(const Product& p, int count, double budget) {
  const std::vector<float> A = numbers(p.batch * p.M * p.K), B = numbers(p.batch * p.K * p.N);
  std::vector<float> C(p.batch * p.M * p.N);
  const int64_t lda = p.ta == Trans::yes ? p.M : p.K, ldb = p.tb == Trans::yes ? p.K : p.N;
  set_threads(count);
  set_openblas_threads(p.batch > 1 ? 1 : count);
  const auto ours = own_product(p, A, B, C, C);
  const auto multiply = [&](int64_t i) {
    cblas_sgemm(CblasRowMajor, flag(p.ta), flag(p.tb), p.M, p.N, p.K, 1, &A[i * p.M * p.K], lda,
                &B[i * p.K * p.N], ldb, 0, &C[i * p.M * p.N], p.N);
  };
  const auto blas = [&] {
    if (p.batch == 1) return multiply(0);
    parallel_for(0, p.batch, 1, [&](int64_t begin, int64_t end) {
      // The OpenMP build of OpenBLAS has a number of threads for each thread that calls it.
      [[maybe_unused]] thread_local const bool once = (set_openblas_threads(1), true);
      for (int64_t i = begin; i < end; ++i) multiply(i);
    });
  };
  return time_both(ours, blas, count == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, budget);
}

/// Time per training step of all products of one size, for the summary.
struct StepTotal {
  std::string size;
  int count = 0;  // threads
  Timing time{0, 0};
  double flops = 0;
};

void print_row(const Product& p, const Timing& t, int count, double peak) {
  const double gflops = p.flops() * 1e-9;
  fmt::print("{:<7}{:<18}{:>5}{:>7}{:>7}{:>7}{:>6}{:>10.1f}{:>10.1f}{:>8.2f}{:>8.0f}%\n", p.size, p.name,
             count, p.M, p.N, p.K, p.batch, gflops / t.ours, gflops / t.peer, t.peer / t.ours,
             100 * p.flops() / t.ours / (peak * count));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  // Threads of OpenBLAS wait in a loop for their next product, and would take a core from ours. The
  // variable is read when the program starts.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) {
    setenv("OMP_WAIT_POLICY", "passive", 1);
    execv("/proc/self/exe", argv);
  }
  CLI::App app(
      "The matrix product against OpenBLAS: GFLOP/s, ratio, and share of the peak of one's own kernels");
  double budget = 0.3;
  int most = threads();
  std::string only, dtype = "float32";
  app.add_option("--dtype", dtype, "float32 or bfloat16")->check(CLI::IsMember({"float32", "bfloat16"}));
  app.add_option("--seconds", budget, "Time for each row");
  app.add_option("--threads", most, "Threads of the second half of the rows");
  app.add_option("--only", only, "Only rows whose size (a, b, c, square) is this");
  CLI11_PARSE(app, argc, argv);

  const bool halves = dtype == "bfloat16";
  const double peak =
      halves && bench::bfloat16_peak() > 0 ? bench::bfloat16_peak() : bench::multiply_add_peak();
  const char* const peer = halves ? "float32" : "OpenBLAS";
  fmt::print("{}, {}, peak of one thread {:.1f} GFLOP/s\n\n", name(isa()), dtype, peak * 1e-9);
  fmt::print("{:<7}{:<18}{:>5}{:>7}{:>7}{:>7}{:>6}{:>10}{:>10}{:>8}{:>9}\n", "size", "product", "thr", "M",
             "N", "K", "batch", "ours", peer, "ratio", "of peak");
  std::vector<StepTotal> totals;
  for (int count : std::vector<int>(most > 1 ? std::vector<int>{1, most} : std::vector<int>{1})) {
    for (const Product& p : products()) {
      if (!only.empty() && p.size != only) continue;
      const Timing t = halves ? time_bfloat16(p, count, budget) : time_float32(p, count, budget);
      print_row(p, t, count, peak);
      if (p.per_step == 0) continue;
      if (totals.empty() || totals.back().size != p.size || totals.back().count != count)
        totals.push_back({p.size, count});
      StepTotal& total = totals.back();
      total.time.ours += static_cast<double>(p.per_step) * t.ours;
      total.time.peer += static_cast<double>(p.per_step) * t.peer;
      total.flops += static_cast<double>(p.per_step) * p.flops();
    }
  }
  fmt::print("\nAll linear layers of a training step\n{:<7}{:>5}{:>12}{:>14}{:>8}{:>10}\n", "size", "thr",
             "ours ms", fmt::format("{} ms", peer), "ratio", "GFLOP/s");
  for (const StepTotal& s : totals)
    fmt::print("{:<7}{:>5}{:>12.2f}{:>14.2f}{:>8.2f}{:>10.1f}\n", s.size, s.count, 1e3 * s.time.ours,
               1e3 * s.time.peer, s.time.peer / s.time.ours, s.flops * 1e-9 / s.time.ours);
}
