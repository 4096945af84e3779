// The entropy of the weights as the number of keys grows.
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "core/creation.h"
#include "core/random.h"
#include "examples/labs/attention_scale/sections.h"
#include "nn/attention/scale.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/softmax.h"

namespace vitrine::labs {
namespace {

using namespace nn::report;

/// Means over 64 draws of n normal scores.
struct Entropies {
  double shannon, renyi;
};

Entropies entropies(int64_t n, double alpha) {
  manual_seed(1);
  const Tensor scores = randn({64, n}) * alpha, p = softmax(scores);
  return {-mean(sum(p * log_softmax(scores), {1})).item(), -mean(log(sum(square(p), {1}))).item()};
}

struct Rule {
  const char* name;
  double (*alpha)(double n);
};
constexpr Rule kRules[] = {{"α = 1", [](double) { return 1.0; }},
                           {"α*", nn::gradient_optimal_scale},
                           {"ln n / ln 512", nn::entropy_factor}};

}  // namespace

Section entropy_section() {
  TextTable shares{.title = "The Shannon entropy of the weights divided by ln n",
                   .columns = {"n", kRules[0].name, kRules[1].name, kRules[2].name}};
  for (int64_t n : {16, 64, 256, 1024, 4096}) {
    const auto keys = static_cast<double>(n);
    shares.rows.push_back({fmt::format("{}", n)});
    for (const Rule& rule : kRules)
      shares.rows.back().push_back(
          fmt::format("{:.2f}", entropies(n, rule.alpha(keys)).shannon / std::log(keys)));
  }
  LineChart shannon{.title = "Shannon entropy", .x = {"n", AxisScale::log}, .y = {"nats"}};
  LineChart renyi{.title = "Rényi entropy −ln Σp²", .x = {"n", AxisScale::log}, .y = {"nats"}};
  TextTable growth{.title = "Growth of the entropies from n = 64 to n = 16384, in nats (ln n grows by 5.55)",
                   .columns = {"rule", "Shannon", "Rényi"}};
  for (const Rule& rule : kRules) {
    Series h{rule.name, {}, {}}, h2{rule.name, {}, {}};
    for (int64_t n = 16; n <= 16384; n *= 4) {
      const auto keys = static_cast<double>(n);
      const Entropies e = entropies(n, rule.alpha(keys));
      h.add(keys, e.shannon), h2.add(keys, e.renyi);
    }
    growth.rows.push_back({rule.name, fmt::format("{:.2f}", h.y.back() - h.y[1]),
                           fmt::format("{:.2f}", h2.y.back() - h2.y[1])});
    shannon.lines.push_back({h}), renyi.lines.push_back({h2});
  }
  Series formula{"ln(1 + 2α*²)", {}, {}};
  for (double n = 16; n <= 16384; n *= 4) {
    const double alpha = nn::gradient_optimal_scale(n);
    formula.add(n, std::log1p(2 * alpha * alpha));
  }
  renyi.lines.push_back({formula, categorical_color(1), LineStyle::dashed});
  return {
      .title = "Entropies as the number of keys grows",
      .paragraphs =
          {{"Claim",
            "Σp² is e raised to minus the Rényi entropy. Maximizing the gradient makes this entropy, and so Shannon's, change slowly "
            "with n: roughly an invariance of the entropy. The rule ln n / ln 512 is made for that."},
           {"Seen",
            fmt::format(
                "From n = 64 to 16384 the Rényi entropy grows by {} nats with α = 1 and by {} with α*. At α* the "
                "approximation gives Σp² = 1/(1 + 2α*²), so the entropy grows like ln ln n. Shannon's "
                "entropy grows by {} with α = 1, by {} with α*, and by {} with ln n / ln 512.",
                growth.rows[0][2], growth.rows[1][2], growth.rows[0][1], growth.rows[1][1],
                growth.rows[2][1])},
           {"Verdict",
            "α* slows the growth of both entropies, but it does not stop them. In this range, with scores of variance "
            "1, the entropy rule slows Shannon's less than α* does."}},
      .figures = {
          {renyi,
           "Dashed: the Rényi entropy of the approximation at α*. Samples are above it because the largest score of a draw is bounded."},
          {shannon, ""},
          {growth, ""},
          {shares, "1 is uniform."}}};
}

}  // namespace vitrine::labs
