#include "nn/training/tasks/language_modeling.h"

#include <memory>

#include "core/memory/machine.h"
#include "nn/data/windows.h"
#include "nn/metrics/perplexity.h"
#include "nn/text/tokens.h"
#include "nn/training/checkpoint.h"
#include "nn/training/inspect_attention.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/view.h"

namespace vitrine::nn::training {
namespace {

/// A loader for the tokens of a split. Checks that the model knows all tokens, and that there are
/// enough for one window.
WindowLoader windows(const char* split, Tokens tokens, const LanguageModel& model, int64_t batch,
                     uint64_t seed) {
  check(tokens.size() > model.context(),
        "training: the {} text has {} tokens, wanted more than the context of {}", split, tokens.size(),
        model.context());
  for (int64_t i = 0; i < tokens.size(); ++i)
    check(tokens[i] >= 0 && tokens[i] < model.vocabulary(),
          "training: the {} text has the token {} at position {}, outside [0, {})", split, tokens[i], i,
          model.vocabulary());
  return {std::move(tokens), batch, model.context(), seed};
}

/// A lower bound of the memory of a batch: 8 bytes per id and target on the CPU, and what the model
/// stores in its own dtype on its device.
void check_batch(LanguageModel& model, int64_t batch) {
  const Tensor weight = model.parameters().front().value();
  const size_t bytes = weight.device().is_cpu() ? size_of(weight.dtype()) : 0;
  const double per_token = static_cast<double>(bytes) * static_cast<double>(model.values_per_token());
  check_memory(static_cast<double>(batch) * static_cast<double>(model.context()) * (16 + per_token),
               fmt::format("training: a batch of {} windows of {} tokens", batch, model.context()));
}

}  // namespace

Tensor next_token_loss(const LanguageModel& model, const std::vector<Tensor>& batch,
                       std::vector<MixerTrace>* traces) {
  std::vector<Routing> routing;
  Halted halted;
  const Tensor logits = model.forward(batch[0], {.traces = traces, .routing = &routing, .halted = &halted});
  const Tensor loss = cross_entropy(logits, batch[1]), auxiliary = auxiliary_loss(routing, halted);
  return auxiliary.defined() ? loss + auxiliary : loss;
}

Task language_modeling(LanguageModel& model, Tokens training, Tokens validation, int64_t batch,
                       uint64_t seed) {
  check(batch > 0, "training: batch is {}, wanted at least 1", batch);
  check_batch(model, batch);
  const auto in =
      std::make_shared<WindowLoader>(windows("training", std::move(training), model, batch, seed));
  const auto out =
      std::make_shared<WindowLoader>(windows("validation", std::move(validation), model, batch, seed));
  Task task{
      .model = model,
      .batch = [in](int64_t index) { return in->batch(index); },
      .validation = [out] { return out->whole(); },
      .loss = [&model](const std::vector<Tensor>& x) { return next_token_loss(model, x); },
      .logits = [&model](const std::vector<Tensor>& x) { return model.forward(x[0]); },
      .metrics = {perplexity_metric()},
      .words = {.item = "token",
                .loss_unit = "nats per token",
                .loss_meaning =
                    "The cross-entropy L = −mean ln p(next token | text before it), the surprise per token. "
                    "It equals that of a choice among e^L equally likely tokens.",
                .classes = model.vocabulary(),
                .writes_text = true},
      .setting = {{"seed", std::to_string(seed)},
                  {"batch", std::to_string(batch)},
                  {"training text", in->fingerprint()},
                  {"validation text", out->fingerprint()}}};
  keep_model(task, model);
  return task;
}

void inspect_attention(LanguageModel& model, const Batch& on_cpu,
                       const std::function<std::string(int64_t)>& label, report::RunRecord& record) {
  const Batch batch = on_cpu.to(model.parameters().front().value().device());
  const ModeScope evaluation(model, false);
  std::vector<MixerTrace> traces;
  Tape tape;
  const Tensor loss = next_token_loss(model, batch.tensors, &traces);
  std::vector<std::string> labels;
  for (double id : select(on_cpu.tensors[0], 0, 0).values())
    labels.push_back(label(static_cast<int64_t>(id)));
  inspect_attention(tape, loss, traces, labels, labels, record);
}

}  // namespace vitrine::nn::training
