#include "nn/attention/statistics.h"

#include <cmath>

#include "ops/view.h"

namespace vitrine::nn {
namespace {

struct Sums {
  double entropy = 0, limit = 0, jacobian = 0, rows = 0, below3 = 0, below7 = 0, weights = 0;
};

/// A row of weights of `keys` keys. The other pointers may be null: which keys are visible, g of
/// HeadFigures::jacobian, which is p if it is null, and the derivative of the softcap.
struct WeightRow {
  const double *p, *visible, *g, *cap_slope;
  int64_t keys;
  double scale;
};

void add_row(Sums& sums, const WeightRow& row, const std::function<void(double)>& each_weight) {
  const double *const p = row.p, *const visible = row.visible, *const g = row.g == nullptr ? p : row.g;
  const int64_t keys = row.keys;
  const auto counts = [&](int64_t j) { return visible == nullptr || visible[j] != 0; };
  int64_t seen = 0;
  for (int64_t j = 0; j < keys; ++j) seen += counts(j);
  if (seen < 2) return;
  double total = 0, jacobian = 0;
  for (int64_t j = 0; j < keys; ++j) total += counts(j) ? g[j] : 0;
  for (int64_t j = 0; j < keys; ++j) {
    if (!counts(j)) continue;
    if (total != 0) jacobian += g[j] * (1 - g[j] / total) * (row.cap_slope == nullptr ? 1 : row.cap_slope[j]);
    if (p[j] > 0) sums.entropy -= p[j] * std::log(p[j]);
    sums.below3 += std::abs(p[j]) < 1e-3;
    sums.below7 += std::abs(p[j]) < 1e-7;
    if (each_weight) each_weight(p[j]);
  }
  sums.weights += static_cast<double>(seen);
  sums.limit += std::log(static_cast<double>(seen));
  sums.jacobian += row.scale * jacobian;
  ++sums.rows;
}

double norm_of_head(const Tensor& gradient, int64_t head, int64_t heads) {
  if (!gradient.defined()) return HeadFigures::kNone;
  double squares = 0;
  for (double v : select(gradient, 1, head * gradient.size(1) / heads).values()) squares += v * v;
  return std::sqrt(squares);
}

}  // namespace

std::vector<HeadFigures> inspect(const MixerTrace& trace, const std::array<Tensor, 3>& gradients,
                                 const std::function<void(double)>& each_weight) {
  check(trace.weights.defined() && trace.weights.rank() == 4,
        "inspect: the trace has no weights [B, H, Tq, Tk]: pass it to Attention::forward first");
  const int64_t heads = trace.weights.size(1), keys = trace.weights.size(3);
  Shape by_query = trace.weights.shape();
  by_query.back() = 1;
  std::vector<HeadFigures> figures;
  for (int64_t head = 0; head < heads; ++head) {
    const auto weights = select(trace.weights, 1, head).values();
    std::vector<double> visible;
    if (trace.visible.defined())
      visible = select(expand(trace.visible, trace.weights.shape()), 1, head).values();
    std::vector<double> cap_slope;
    if (trace.score_slope.defined()) cap_slope = select(trace.score_slope, 1, head).values();
    std::vector<double> slope;
    if (trace.weight_slope.defined()) slope = select(trace.weight_slope, 1, head).values();
    std::vector<double> scales(static_cast<size_t>(trace.weights.size(0) * trace.weights.size(2)),
                               trace.scale);
    if (trace.row_scale.defined()) {
      const auto factors = select(expand(trace.row_scale, by_query), 1, head).values();
      for (size_t row = 0; row < scales.size(); ++row) scales[row] *= factors[row];
    }
    Sums sums;
    for (size_t row = 0; row < scales.size(); ++row) {
      const auto of_row = [&](const std::vector<double>& all) {
        return all.empty() ? nullptr : all.data() + row * static_cast<size_t>(keys);
      };
      add_row(sums, {of_row(weights), of_row(visible), of_row(slope), of_row(cap_slope), keys, scales[row]},
              each_weight);
    }
    HeadFigures f;
    if (trace.distribution) f.entropy = sums.entropy / sums.rows, f.jacobian = sums.jacobian / sums.rows;
    f.entropy_limit = sums.limit / sums.rows;
    f.share_below_1e3 = sums.below3 / sums.weights;
    f.share_below_1e7 = sums.below7 / sums.weights;
    f.grad_norm_q = norm_of_head(gradients[0], head, heads);
    f.grad_norm_k = norm_of_head(gradients[1], head, heads);
    f.grad_norm_v = norm_of_head(gradients[2], head, heads);
    figures.push_back(f);
  }
  return figures;
}

}  // namespace vitrine::nn
