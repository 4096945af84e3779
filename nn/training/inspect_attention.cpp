#include "nn/training/inspect_attention.h"

#include "nn/attention/statistics.h"
#include "ops/view.h"

namespace vitrine::nn::training {

void inspect_attention(Tape& tape, const Tensor& loss, const std::vector<AttentionTrace>& traces,
                       const std::vector<std::string>& query_labels,
                       const std::vector<std::string>& key_labels, report::RunRecord& record) {
  std::vector<Tensor> paths;
  for (const AttentionTrace& t : traces) paths.insert(paths.end(), {t.q, t.k, t.v});
  const auto gradients = tape.gradient(loss, paths, Keep::yes);
  int layer = record.heads.empty() ? 0 : record.heads.back().layer + 1;
  for (size_t i = 0; i < traces.size(); ++i, ++layer) {
    const auto figures = inspect(traces[i], {gradients[3 * i], gradients[3 * i + 1], gradients[3 * i + 2]},
                                 [&](double weight) { record.weights.add(static_cast<float>(weight)); });
    for (size_t head = 0; head < figures.size(); ++head) {
      record.heads.push_back({figures[head], layer, static_cast<int>(head)});
      const auto weights = select(select(traces[i].weights, 0, 0), 0, static_cast<int64_t>(head)).values();
      record.maps.push_back({layer, static_cast<int>(head), query_labels, key_labels,
                             std::vector<float>(weights.begin(), weights.end())});
    }
  }
}

}  // namespace vitrine::nn::training
