// The variance of scores, and positions as seen from other positions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/random.h"
#include "examples/labs/attention_scale/sections.h"
#include "nn/attention/positions.h"
#include "nn/models/gpt.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::labs {
namespace {

using namespace nn::report;

TextTable random_pairs() {
  TextTable table{.title = "Independent standard normal q and k: 20,000 pairs",
                  .columns = {"D", "Var(q·k)", "Var(q·k/√D)"}};
  for (int64_t d : {16, 64, 256}) {
    manual_seed(1);
    const double variance = var(sum(randn({20000, d}) * randn({20000, d}), {1})).item();
    table.rows.push_back({fmt::format("{}", d), fmt::format("{:.1f}", variance),
                          fmt::format("{:.2f}", variance / static_cast<double>(d))});
  }
  return table;
}

/// What a layer of a GPT has before training.
struct LayerVariance {
  double q, k, predicted, measured;
};

std::vector<LayerVariance> at_initialization() {
  manual_seed(1);
  const nn::Gpt model({.vocabulary = 256, .context = 128, .width = 256, .layers = 4, .heads = 4});
  std::vector<nn::MixerTrace> traces;
  model.features(randint(0, 256, {8, 128}), {.traces = &traces});
  std::vector<LayerVariance> layers;
  for (const nn::MixerTrace& trace : traces) {
    const double q = var(trace.q).item(), k = var(trace.k).item();
    layers.push_back({q, k, q * k * static_cast<double>(trace.q.size(-1)),
                      var(matmul(trace.q, transpose(trace.k))).item()});
  }
  return layers;
}

}  // namespace

Section variance_section() {
  const auto layers = at_initialization();
  TextTable table{.title = "A GPT at initialization: 4 layers, 4 heads of 64 channels",
                  .columns = {"layer", "Var(q)", "Var(k)", "Var(q)·Var(k)·D", "Var(q·k)", "Var(q·k/√D)"}};
  double worst = 0, largest = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerVariance& layer = layers[i];
    worst = std::max(worst, std::abs(layer.measured / layer.predicted - 1));
    largest = std::max(largest, layer.measured / 64);
    table.rows.push_back({fmt::format("{}", i), fmt::format("{:.4f}", layer.q),
                          fmt::format("{:.4f}", layer.k), fmt::format("{:.3f}", layer.predicted),
                          fmt::format("{:.3f}", layer.measured), fmt::format("{:.4f}", layer.measured / 64)});
  }
  return {
      .title = "Why 1/√D",
      .paragraphs =
          {{"Claim",
            "If the channels of q and k are independent with mean 0 and variance 1, then Var(q·k) = D. The "
            "factor 1/√D gives scores of variance 1. With the variances σ² of q and k it is σ⁴D."},
           {"Seen",
            fmt::format(
                "Random pairs follow the formula. In a GPT at initialization, σ⁴D predicts the variance "
                "of the scores in each layer within {:.0f} %.",
                std::ceil(100 * worst))},
           {"Verdict",
            fmt::format(
                "The formula holds. But its premise σ = 1 does not hold in a GPT: its weights start as "
                "N(0, 0.02²), so the scores have a variance of at most {:.2f}. At initialization "
                "its softmax is nearly uniform, with α = 1 or with α = 2.5.",
                largest)}},
      .figures = {
          {random_pairs(), ""},
          {table,
           "Queries and keys are those of random tokens. Predicted is the fourth column, measured the "
           "fifth."}}};
}

namespace {

constexpr int64_t kWidth = 64, kPositions = 256;

/// The largest error of PE(p + k) as a rotation of PE(p): each pair of channels (sin, cos) of
/// frequency ω turns by ωk, and so the matrix depends on k alone.
double rotation_error(const std::vector<double>& rows) {
  double worst = 0;
  for (int64_t k : {1, 7, 64})
    for (int64_t p = 0; p + k < kPositions; ++p)
      for (int64_t i = 0; i < kWidth; i += 2) {
        const double angle =
            static_cast<double>(k) * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(kWidth));
        const double* const at = &rows[static_cast<size_t>(p * kWidth + i)];
        const double* const later = &rows[static_cast<size_t>((p + k) * kWidth + i)];
        worst = std::max({worst, std::abs(at[0] * std::cos(angle) + at[1] * std::sin(angle) - later[0]),
                          std::abs(at[1] * std::cos(angle) - at[0] * std::sin(angle) - later[1])});
      }
  return worst;
}

}  // namespace

Section sinusoidal_section() {
  const Tensor rows = nn::sinusoidal_positions(kPositions, kWidth, 10000, 0, DType::float64);
  const double error = rotation_error(rows.values());
  const std::vector<double> products = matmul(rows, transpose(rows)).values();
  LineChart chart{.title = "PE(p)·PE(p + k) as a function of k, for three positions p",
                  .x = {"k, the distance"},
                  .y = {"inner product"}};
  double spread = 0;
  for (int64_t p : {0, 64, 128}) {
    Series line{fmt::format("p = {}", p), {}, {}};
    for (int64_t k = 0; k < 128; ++k) {
      line.add(static_cast<double>(k), products[static_cast<size_t>(p * kPositions + p + k)]);
      spread = std::max(spread, std::abs(line.y.back() - products[static_cast<size_t>(k)]));
    }
    chart.lines.push_back({line,
                           {},
                           p == 0    ? LineStyle::solid
                           : p == 64 ? LineStyle::dashed
                                     : LineStyle::dots});
  }
  const TextTable table{
      .title = "Sinusoidal positions: 64 channels, 256 positions, float64",
      .columns = {"quantity", "largest error"},
      .rows = {{"PE(p + k) = R(k)·PE(p), with k = 1, 7, 64", fmt::format("{:.1e}", error)},
               {"PE(p)·PE(p + k) for p = 64, 128 against p = 0", fmt::format("{:.1e}", spread)}}};
  return {
      .title = "Sinusoidal positions are linear functions of each other",
      .paragraphs = {{"Claim",
                      "For each distance k there is one matrix R(k) with PE(p + k) = R(k)·PE(p) at every p "
                      "(Vaswani et al. 2017). So scores can depend on distances."},
                     {"Seen",
                      fmt::format(
                          "R(k) turns each pair of channels by its frequency times k. The largest error "
                          "is {:.1e}. The inner product depends on k alone: the three lines coincide.",
                          error)},
                     {"Verdict", "The claim holds exactly, to the rounding of float64."}},
      .figures = {{chart, "The lines for p = 0, 64 and 128 are one line."}, {table, ""}}};
}

}  // namespace vitrine::labs
