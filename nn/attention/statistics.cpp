#include "nn/attention/statistics.h"

#include <cmath>

#include "ops/view.h"

namespace vitrine::nn {
namespace {

struct Sums {
  double entropy = 0, limit = 0, jacobian = 0, rows = 0, below3 = 0, below7 = 0, weights = 0;
};

/// Adds one row: its weights, which of them are visible, and the derivative of the softcap. The
/// last two may be null.
void add_row(Sums& sums, const double* p, const double* visible, const double* cap_slope, int64_t keys,
             double scale, const std::function<void(double)>& each_weight) {
  const auto counts = [&](int64_t j) { return visible == nullptr || visible[j] != 0; };
  int64_t seen = 0;
  for (int64_t j = 0; j < keys; ++j) seen += counts(j);
  if (seen < 2) return;
  double squares = 0, flattened = 0;  // flattened: the part of Σ p(1 − p) that a softcap removes
  for (int64_t j = 0; j < keys; ++j) {
    if (!counts(j)) continue;
    if (cap_slope != nullptr) flattened += p[j] * (1 - p[j]) * (1 - cap_slope[j]);
    if (p[j] > 0) sums.entropy -= p[j] * std::log(p[j]);
    squares += p[j] * p[j];
    sums.below3 += std::abs(p[j]) < 1e-3;
    sums.below7 += std::abs(p[j]) < 1e-7;
    if (each_weight) each_weight(p[j]);
  }
  sums.weights += static_cast<double>(seen);
  sums.limit += std::log(static_cast<double>(seen));
  sums.jacobian += scale * (1 - squares - flattened);
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
    std::vector<double> scales(static_cast<size_t>(trace.weights.size(0) * trace.weights.size(2)),
                               trace.scale);
    if (trace.row_scale.defined()) {
      const auto factors = select(expand(trace.row_scale, by_query), 1, head).values();
      for (size_t row = 0; row < scales.size(); ++row) scales[row] *= factors[row];
    }
    Sums sums;
    for (size_t row = 0; row < scales.size(); ++row) {
      const size_t at = row * static_cast<size_t>(keys);
      add_row(sums, weights.data() + at, visible.empty() ? nullptr : visible.data() + at,
              cap_slope.empty() ? nullptr : cap_slope.data() + at, keys, scales[row], each_weight);
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
