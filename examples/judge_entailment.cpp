// Trains ESIM to judge whether a sentence follows from another one: entailment, neutral, or
// contradiction. The report shows the alignment of their words and a confusion matrix.
//
//   judge_entailment [--mixer rotary]
//
// "a girl carries a blue bag and an umbrella": that the bag is blue follows, that it is red is
// contradicted, and nothing is said of the colour of the umbrella.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "examples/model_task.h"
#include "nn/data/padding.h"
#include "nn/data/synthetic/entailment.h"
#include "nn/metrics/accuracy.h"
#include "nn/models/esim.h"
#include "nn/text/words.h"
#include "nn/training/checkpoint.h"
#include "ops/loss.h"
#include "ops/reduce.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::Entailment, synthetic::entailment, synthetic::Part;

namespace {

const std::vector<std::string> kRelations = {"entailment", "neutral", "contradiction"};

struct Settings {
  EsimOptions model;
  examples::RunSettings run = {.training = {.steps = 1000}, .schedule = {.lr = 5e-3}, .batch = 64};

  void list(OptionList& o) {
    model.list(o);
    for (const char* name : {"vocabulary", "classes"}) o.remove(name);
    run.list(o);
  }
};

/// The words of the premises [B, P] and of the hypotheses [B, H], each with their numbers [B], and
/// the relations [B].
Batch batch_of(std::span<const Entailment> all, const Tokenizer& tokenizer) {
  std::vector<std::vector<int64_t>> premises, hypotheses;
  std::vector<int64_t> relations;
  for (const Entailment& pair : all) {
    const Tokens premise = tokenizer.encode(pair.premise), hypothesis = tokenizer.encode(pair.hypothesis);
    premises.emplace_back(premise.begin(), premise.end());
    hypotheses.emplace_back(hypothesis.begin(), hypothesis.end());
    relations.push_back(static_cast<int64_t>(pair.relation));
  }
  const Padded a = pad_ids(premises, 0), b = pad_ids(hypotheses, 0);
  const int64_t count = std::ssize(all);
  return {{a.values, a.lengths, b.values, b.lengths, index_tensor(relations, {count})}, count};
}

void run(const Settings& s, const std::string& title) {
  const Split<Entailment> pairs = {entailment(Part::training, 30000), entailment(Part::held_out, 1000)};
  std::vector<std::string> texts;
  for (const Entailment& pair : pairs.training) texts.push_back(pair.premise + " " + pair.hypothesis);
  const PipelineTokenizer tokenizer = whole_words(texts);
  EsimOptions options = s.model;
  options.words.vocabulary = tokenizer.size();
  manual_seed(s.run.seed);
  Esim model(options);
  const std::function batch = [&](std::span<const Entailment> all) { return batch_of(all, tokenizer); };
  const auto judged = [&](const auto& x) { return model.forward(x[0], x[2], x[1], x[3]); };
  training::Task task = examples::make_task(model, pairs, batch, s.run);
  task.loss = [&](const auto& x) { return cross_entropy(judged(x).logits, x[4]); };
  task.metrics = {
      {.name = "accuracy", .of_batch = [&](const auto& x) { return accuracy(judged(x).logits, x[4]); }}};
  task.words = {.item = "pair", .loss_unit = "nats per pair", .classes = 3};
  training::keep_tokenizer(task, tokenizer);
  report::RunRecord record = examples::train(task, s, "ESIM");
  const ModeScope evaluation(model, false);
  examples::add_confusion(
      kRelations, task, [&](const auto& x) { return judged(x).logits; }, record);
  record.examples = {"Held-out pairs", {"premise", "hypothesis", "true", "chosen"}, {}};
  for (int64_t i = 0; i < 6; ++i) {
    const Entailment pair = pairs.held_out[i];
    const Batch one = batch({&pair, 1});
    Tape tape;
    const auto result = judged(one.tensors);
    const auto chosen = static_cast<size_t>(argmax(result.logits, -1).item());
    record.examples.rows.push_back(
        {pair.premise, pair.hypothesis, kRelations[static_cast<size_t>(pair.relation)], kRelations[chosen]});
    const Tensor loss = cross_entropy(result.logits, one.tensors[4]);
    const auto premise = examples::words_of(select(one.tensors[0], 0, 0), tokenizer),
               hypothesis = examples::words_of(select(one.tensors[2], 0, 0), tokenizer);
    examples::show_weights(result.b_weights, tape, loss, hypothesis, premise, record);
    examples::show_weights(result.a_weights, tape, loss, premise, hypothesis, record);
  }
  examples::say(stdout, "{} parameters; the relation of {:.1f} % of {} held-out pairs is right\n",
                model.parameter_count(), 100 * record.metrics[0].last(), pairs.held_out.size());
  examples::write_comparison(s.run, title, {record});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_model_program(
      "judge_entailment", "Trains ESIM to judge whether a sentence follows from another one.",
      "  judge_entailment\n  judge_entailment --mixer rotary --dropout 0.1", Settings(), argc, argv, run);
}
