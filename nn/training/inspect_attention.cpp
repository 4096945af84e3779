#include "nn/training/inspect_attention.h"

#include <algorithm>
#include <array>

#include "nn/attention/statistics.h"
#include "ops/view.h"

namespace vitrine::nn::training {
namespace {

/// The gradients of the loss with respect to q, k and v of each trace; undefined if a mixer has
/// none.
std::vector<std::array<Tensor, 3>> path_gradients(Tape& tape, const Tensor& loss,
                                                  const std::vector<MixerTrace>& traces) {
  std::vector<Tensor> paths;
  for (const MixerTrace& t : traces)
    if (t.q.defined()) paths.insert(paths.end(), {t.q, t.k, t.v});
  const auto gradients = tape.gradient(loss, paths, Keep::yes);
  std::vector<std::array<Tensor, 3>> result(traces.size());
  auto next = gradients.begin();
  for (size_t i = 0; i < traces.size(); ++i)
    if (traces[i].q.defined())
      for (Tensor& gradient : result[i]) gradient = *next++;
  return result;
}

/// The labels of all keys. Those that a part adds come first and have no token.
std::vector<std::string> with_memory(const std::vector<std::string>& labels, int64_t keys) {
  const size_t added = static_cast<size_t>(keys) - std::min(labels.size(), static_cast<size_t>(keys));
  std::vector<std::string> all(added, "memory");
  all.insert(all.end(), labels.begin(), labels.end());
  return all;
}

}  // namespace

void inspect_attention(Tape& tape, const Tensor& loss, const std::vector<MixerTrace>& traces,
                       const std::vector<std::string>& query_labels,
                       const std::vector<std::string>& key_labels, report::RunRecord& record) {
  const auto gradients = path_gradients(tape, loss, traces);
  int layer = record.heads.empty() ? 0 : record.heads.back().layer + 1;
  for (size_t i = 0; i < traces.size(); ++i, ++layer) {
    const auto figures = inspect(traces[i], gradients[i],
                                 [&](double weight) { record.weights.add(static_cast<float>(weight)); });
    for (size_t head = 0; head < figures.size(); ++head) {
      record.heads.push_back({figures[head], layer, static_cast<int>(head)});
      const auto weights = select(select(traces[i].weights, 0, 0), 0, static_cast<int64_t>(head)).values();
      record.maps.push_back({layer, static_cast<int>(head), query_labels,
                             with_memory(key_labels, traces[i].weights.size(3)),
                             std::vector<float>(weights.begin(), weights.end())});
    }
  }
}

}  // namespace vitrine::nn::training
