// A lesson on the scale of attention: the effect of 1/√D, and the scale that maximizes the gradient
// of the softmax. docs/scale.md explains it.
//
//   scale_lesson [FILE]    writes the curves of the picture on that page to FILE, as CSV
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "core/creation.h"
#include "core/files/file.h"
#include "core/random.h"
#include "nn/attention/scale.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/softmax.h"

using namespace vitrine;

namespace {

void show_variance() {
  fmt::print(
      "Normal queries and keys of D channels: the variance of q·k, before and after the factor 1/√D.\n\n");
  fmt::print("{:>8}{:>14}{:>14}\n", "D", "Var(q·k)", "Var(q·k/√D)");
  for (int64_t d : {16, 64, 256}) {
    manual_seed(1);
    const Tensor products = sum(randn({20000, d}) * randn({20000, d}), {1});
    const double variance = var(products).item();
    fmt::print("{:>8}{:>14.1f}{:>14.2f}\n", d, variance, variance / static_cast<double>(d));
  }
}

void show_optimum() {
  fmt::print("\nThe scale of n keys that maximizes the approximated gradient, and the rules of thumb.\n\n");
  fmt::print("{:>8}{:>14}{:>16}{:>18}{:>12}\n", "n", "α* normal", "0.84·√(ln n)", "α* cosine, D=128",
             "3.5·ln n");
  for (double n : {40.0, 64.0, 256.0, 1024.0, 4096.0, 20000.0})
    fmt::print("{:>8}{:>14.4f}{:>16.4f}{:>18.2f}{:>12.2f}\n", n, nn::gradient_optimal_scale(n),
               0.84 * std::sqrt(std::log(n)), nn::gradient_optimal_cosine_scale(n, 128), 3.5 * std::log(n));
}

constexpr int kDraws = 200;

/// The mean of α(1 − Σp²) over samples of n standard normal scores, for each α.
std::vector<double> sampled(int64_t n, const std::vector<double>& alphas) {
  manual_seed(1);
  std::vector<double> means(alphas.size());
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::vector<double> scores = randn({n}, DType::float64).values();
    for (size_t i = 0; i < alphas.size(); ++i) means[i] += nn::exact_objective(alphas[i], scores) / kDraws;
  }
  return means;
}

void show_objective(int64_t n) {
  const double optimum = nn::gradient_optimal_scale(static_cast<double>(n));
  const std::vector<double> alphas = {0.1, 0.5, 1, optimum, 2.5, 4, 8, 16};
  const std::vector<double> means = sampled(n, alphas);
  fmt::print("\nHalf the L1 norm of the softmax's Jacobian, α(1 − Σp²), for n = {} normal scores.\n\n", n);
  fmt::print("{:>8}{:>16}{:>22}\n", "α", "approximation", "mean of 200 draws");
  for (size_t i = 0; i < alphas.size(); ++i) {
    const double approximation = nn::normal_objective(alphas[i], static_cast<double>(n));
    fmt::print("{:>8.3f}{:>16}{:>22.3f}{}\n", alphas[i],
               approximation < 0 ? "negative" : fmt::format("{:.3f}", approximation), means[i],
               alphas[i] == optimum ? "   α*" : "");
  }
}

void show_entropy() {
  fmt::print(
      "\nThe entropy of the weights divided by ln n, for normal scores: with α = 1, α*, and ln n / ln 512.\n\n");
  fmt::print("{:>8}{:>10}{:>10}{:>18}\n", "n", "α = 1", "α*", "ln n / ln 512");
  for (int64_t n : {16, 64, 256, 1024, 4096}) {
    manual_seed(1);
    const Tensor scores = randn({64, n});
    const auto keys = static_cast<double>(n);
    fmt::print("{:>8}", n);
    for (double alpha : {1.0, nn::gradient_optimal_scale(keys), nn::entropy_factor(keys)}) {
      const Tensor p = softmax(scores * alpha);
      const double entropy = -mean(sum(p * log_softmax(scores * alpha), {1})).item();
      fmt::print("{:>{}.2f}", entropy / std::log(keys), alpha == nn::entropy_factor(keys) ? 18 : 10);
    }
    fmt::print("\n");
  }
}

void write_curves(const std::string& path) {
  std::vector<double> alphas;
  for (int i = 1; i <= 80; ++i) alphas.push_back(0.1 * i);
  std::string text = "alpha";
  std::vector<std::vector<double>> columns;
  for (int64_t n : {64, 1024}) {
    text += fmt::format(",approximation {0},draws {0}", n);
    std::vector<double> approximation;
    for (double alpha : alphas) approximation.push_back(nn::normal_objective(alpha, static_cast<double>(n)));
    columns.push_back(approximation);
    columns.push_back(sampled(n, alphas));
  }
  for (size_t i = 0; i < alphas.size(); ++i) {
    text += fmt::format("\n{:.1f}", alphas[i]);
    for (const auto& column : columns) text += fmt::format(",{:.6g}", column[i]);
  }
  text += '\n';
  const std::string_view parts[] = {text};
  write_file("scale_lesson", path, parts);
}

}  // namespace

int main(int argc, char** argv) {
  show_variance();
  show_optimum();
  show_objective(1024);
  show_entropy();
  if (argc > 1) write_curves(argv[1]);
  return std::fflush(stdout) == 0 ? 0 : 1;  // 1: the output could not be printed completely
}
