// What the attention heads do on one batch.
#include "nn/attention/inspect.h"
#include "core/creation.h"
#include "nn/training/trainer.h"
#include "ops/loss.h"
#include "ops/view.h"

namespace vitrine::nn::training {

void inspect_attention(Gpt& model, const Batch& on_cpu, const std::function<std::string(int64_t)>& label,
                       RunReport& report) {
  const Batch batch = on_cpu.to(model.parameters().front().value().device());
  const ModeScope evaluation(model, false);
  std::vector<AttentionTrace> traces;
  Tape tape;
  const Tensor loss = cross_entropy(model.forward(batch.inputs, nullptr, &traces), batch.targets);
  std::vector<Tensor> paths;
  for (const AttentionTrace& t : traces) paths.insert(paths.end(), {t.q, t.k, t.v});
  const auto gradients = tape.gradient(loss, paths);
  std::vector<std::string> labels;
  for (double id : select(on_cpu.inputs, 0, 0).values()) labels.push_back(label(static_cast<int64_t>(id)));
  for (size_t layer = 0; layer < traces.size(); ++layer) {
    const AttentionTrace& t = traces[layer];
    const auto figures =
        inspect(t, {gradients[3 * layer], gradients[3 * layer + 1], gradients[3 * layer + 2]},
                [&](double weight) { report.weights.add(static_cast<float>(weight)); });
    for (size_t head = 0; head < figures.size(); ++head) {
      HeadStatistics s{figures[head], static_cast<int>(layer), static_cast<int>(head)};
      report.heads.push_back(s);
      const auto weights = select(select(t.weights, 0, 0), 0, s.head).values();
      report.maps.push_back(
          {s.layer, s.head, labels, labels, std::vector<float>(weights.begin(), weights.end())});
    }
  }
}

}  // namespace vitrine::nn::training
