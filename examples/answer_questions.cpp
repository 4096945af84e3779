// Trains BiDAF to answer questions about a story by a span of its words. The report shows what the
// story and the question read of each other, and some answers.
//
//   answer_questions [--steps 4000 --width 96]
//
// "mary went to the old mill . mary took the lamp . john went to the garden . where is the lamp ?"
// The answer is "old mill": the lamp is where the person is who carries it.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "examples/model_task.h"
#include "nn/data/padding.h"
#include "nn/data/synthetic/stories.h"
#include "nn/generation/spans.h"
#include "nn/models/bidaf.h"
#include "nn/text/words.h"
#include "nn/training/checkpoint.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/reduce.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::Part, synthetic::stories, synthetic::Story;

namespace {

struct Settings {
  BiDafOptions model;
  examples::RunSettings run = {.training = {.steps = 2500}, .schedule = {.lr = 3e-3}, .batch = 32};

  void list(OptionList& o) {
    model.list(o);
    o.remove("vocabulary");
    run.list(o);
  }
};

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

/// The words of the stories [B, T] and of the questions [B, J], each with their numbers [B], and
/// the first and the last word of the answers, [B, 2].
Batch batch_of(std::span<const Story> all, const Tokenizer& tokenizer) {
  std::vector<std::vector<int64_t>> contexts, questions;
  std::vector<int64_t> answers;
  for (const Story& s : all) {
    const Tokens story = tokenizer.encode(joined(s.story)), question = tokenizer.encode(joined(s.question));
    contexts.emplace_back(story.begin(), story.end());
    questions.emplace_back(question.begin(), question.end());
    answers.insert(answers.end(), {s.begin, s.end - 1});
  }
  const Padded x = pad_ids(contexts, 0), q = pad_ids(questions, 0);
  const int64_t count = std::ssize(all);
  return {{x.values, x.lengths, q.values, q.lengths, index_tensor(answers, {count, 2})}, count};
}

void run(const Settings& s, const std::string& title) {
  const Split<Story> all = {stories(Part::training, 100000), stories(Part::held_out, 1000)};
  std::vector<std::string> texts;
  for (const Story& one : subset(all.training, 0, 1000))
    texts.push_back(joined(one.story) + " " + joined(one.question));
  const PipelineTokenizer tokenizer = whole_words(texts);
  BiDafOptions options = s.model;
  options.words.vocabulary = tokenizer.size();
  manual_seed(s.run.seed);
  BiDaf model(options);
  const std::function batch = [&](std::span<const Story> some) { return batch_of(some, tokenizer); };
  const auto read = [&](const auto& x) { return model.forward(x[0], x[2], x[1], x[3]); };
  const auto loss = [](const BiDaf::Result& found, const Tensor& answers) {
    return cross_entropy(found.first, select(answers, 1, 0)) +
           cross_entropy(found.last, select(answers, 1, 1));
  };
  const auto exact = [&](const auto& x) {
    const BiDaf::Result found = read(x);
    const Tensor right = vitrine::all(equal(best_spans(found.first, found.last), x[4]), {1});
    return WeightedSum{sum(cast(right, DType::float64)).item(), static_cast<double>(x[4].size(0))};
  };
  training::Task task = examples::make_task(model, all, batch, s.run);
  task.loss = [&](const auto& x) { return loss(read(x), x[4]); };
  task.metrics = {{.name = "exact answers", .of_batch = exact}};
  task.words = {.item = "question", .loss_unit = "nats per question"};
  training::keep_tokenizer(task, tokenizer);
  report::RunRecord record = examples::train(task, s, "BiDAF");
  const ModeScope evaluation(model, false);
  record.examples = {"Held-out questions", {"story", "question", "answer", "found"}, {}};
  for (int64_t i = 0; i < 3; ++i) {
    const Story story = all.held_out[i];
    const Batch one = batch({&story, 1});
    Tape tape;
    const BiDaf::Result found = read(one.tensors);
    const auto span = best_spans(found.first, found.last).values();
    const auto words = [&](int64_t begin, int64_t end) {
      return joined({story.story.begin() + begin, story.story.begin() + end});
    };
    record.examples.rows.push_back({joined(story.story), joined(story.question),
                                    words(story.begin, story.end),
                                    words(static_cast<int64_t>(span[0]), static_cast<int64_t>(span[1]) + 1)});
    const auto weights = found.context_weights.values();
    record.texts.push_back({joined(story.question), story.story, {weights.begin(), weights.end()}});
    examples::show_weights(found.query_weights, tape, loss(found, one.tensors[4]), story.story,
                           story.question, record);
  }
  examples::say(stdout, "{} parameters; {:.1f} % of {} held-out questions are answered exactly\n",
                model.parameter_count(), 100 * record.metrics[0].last(), all.held_out.size());
  examples::write_comparison(s.run, title, {record});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_model_program("answer_questions", "Trains BiDAF to answer questions about stories.",
                                     "  answer_questions\n  answer_questions --steps 4000 --width 96",
                                     Settings(), argc, argv, run);
}
