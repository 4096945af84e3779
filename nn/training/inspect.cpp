// What the attention heads do on one batch.
#include <cmath>

#include "core/creation.h"
#include "nn/training/trainer.h"
#include "ops/loss.h"
#include "ops/view.h"

namespace vitrine::nn::training {
namespace {

/// Statistics of one head's weights over all rows that see more than one key. `weights` [B, T, T], causal.
HeadStatistics statistics_of(const Tensor& weights, double scale, WeightDistribution& distribution) {
  const auto w = weights.values();
  const int64_t batch = weights.size(0), queries = weights.size(1), keys = weights.size(2);
  HeadStatistics s;
  double entropy = 0, limit = 0, jacobian = 0, rows = 0, below3 = 0, below7 = 0, count = 0;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 1; i < queries; ++i) {
      double h = 0, squares = 0;
      for (int64_t j = 0; j <= i + keys - queries; ++j) {
        const double p = w[static_cast<size_t>((b * queries + i) * keys + j)];
        if (p > 0) h -= p * std::log(p);
        squares += p * p;
        below3 += p < 1e-3;
        below7 += p < 1e-7;
        ++count;
        distribution.add(static_cast<float>(p));
      }
      entropy += h;
      limit += std::log(static_cast<double>(i + 1 + keys - queries));
      jacobian += scale * (1 - squares);
      ++rows;
    }
  s.entropy = entropy / rows;
  s.entropy_limit = limit / rows;
  s.jacobian = jacobian / rows;
  s.share_below_1e3 = below3 / count;
  s.share_below_1e7 = below7 / count;
  return s;
}

double norm_of_head(const Tensor& gradient, int64_t head) {
  double squares = 0;
  for (double v : select(gradient, 1, head).values()) squares += v * v;
  return std::sqrt(squares);
}

}  // namespace

void inspect_attention(Gpt& model, const Batch& batch, const std::function<std::string(int64_t)>& label,
                       RunReport& report) {
  const bool was_training = model.training();
  model.eval();
  std::vector<AttentionTrace> traces;
  Tape tape;
  const Tensor loss = cross_entropy(model.forward(batch.inputs, nullptr, &traces), batch.targets);
  std::vector<Tensor> paths;
  for (const AttentionTrace& t : traces) paths.insert(paths.end(), {t.q, t.k, t.v});
  const auto gradients = tape.gradient(loss, paths);
  std::vector<std::string> labels;
  for (double id : select(batch.inputs, 0, 0).values()) labels.push_back(label(static_cast<int64_t>(id)));
  for (size_t layer = 0; layer < traces.size(); ++layer) {
    const AttentionTrace& t = traces[layer];
    const int64_t heads = t.weights.size(1), shared = heads / t.k.size(1);
    for (int64_t head = 0; head < heads; ++head) {
      HeadStatistics s = statistics_of(select(t.weights, 1, head), t.scale, report.weights);
      s.layer = static_cast<int>(layer);
      s.head = static_cast<int>(head);
      s.grad_norm_q = norm_of_head(gradients[3 * layer], head);
      s.grad_norm_k = norm_of_head(gradients[3 * layer + 1], head / shared);
      s.grad_norm_v = norm_of_head(gradients[3 * layer + 2], head / shared);
      report.heads.push_back(s);
      const auto weights = select(select(t.weights, 0, 0), 0, head).values();
      report.maps.push_back(
          {s.layer, s.head, labels, labels, std::vector<float>(weights.begin(), weights.end())});
    }
  }
  model.train(was_training);
}

}  // namespace vitrine::nn::training
