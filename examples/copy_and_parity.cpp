// Compares mechanisms on three tasks of memory: a string is copied, symbols are remembered over
// 4096 positions, and the ones of a string are counted modulo 2.
//
//   copy_and_parity [--tasks parity] [--mechanisms standard,rwkv7]      --help shows examples
//
// Models predict the next token. Training begins with short sequences, whose length doubles until
// it is the full one. The report has accuracy next to steps, time, memory and operations.
#include <algorithm>
#include <optional>

#include "examples/model_runs.h"
#include "examples/print_table.h"
#include "nn/data/loader.h"
#include "nn/data/synthetic/sequences.h"
#include "nn/metrics/accuracy.h"
#include "nn/models/gpt.h"
#include "nn/report/html.h"
#include "nn/training/checkpoint.h"
#include "nn/training/tasks/language_modeling.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/view.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::Part, synthetic::Sequences;

namespace {

constexpr int64_t kSymbols = 8, kRemembered = 10, kMany = int64_t{1} << 31;

/// What differs between the models. With several segments, a sequence is read in so many parts.
/// Each starts from the state after the part before, through which no gradient goes.
struct Mechanism {
  std::string name, mixer;
  void (*change)(GptOptions&) = [](GptOptions&) {};
  int64_t segments = 1;
};

std::vector<Mechanism> known_mechanisms() {
  return {{"standard", "standard"},
          {"experts", "standard", [](GptOptions& o) { o.experts.count = 4; }},
          {"universal", "standard", [](GptOptions& o) { o.universal = true, o.layers *= 4; }},
          {"reformer", "lsh", [](GptOptions& o) { o.reversible = true; }},
          {"transformer_xl", "transformer_xl", [](GptOptions&) {}, 2},
          {"rwkv4", "rwkv4", [](GptOptions& o) { o.feed_forward = FeedForwardKind::rwkv4; }},
          {"rwkv7", "rwkv7", [](GptOptions& o) { o.feed_forward = FeedForwardKind::rwkv7; }},
          {"mamba", "mamba"}};
}

/// A mechanism of the table, or a mixer by its name.
Mechanism mechanism_named(const std::string& name) {
  for (const Mechanism& mechanism : known_mechanisms())
    if (mechanism.name == name) return mechanism;
  parse_mixer(name);
  return {name, name};
}

std::vector<std::string> names_of_mechanisms() {
  std::vector<std::string> names;
  for (const Mechanism& mechanism : known_mechanisms()) names.push_back(mechanism.name);
  return names;
}

struct Settings {
  GptOptions model = {.width = 64, .layers = 2};
  examples::RunSettings run = {.training = {.steps = 1000}, .schedule = {.lr = 3e-3}};
  std::vector<std::string> tasks = {"copy", "long_copy", "parity"}, mechanisms = names_of_mechanisms();
  int64_t copied = 24, total = 4096, bits = 16, tokens = 4096, held_out = 16;

  void list(OptionList& o) {
    o.group("Model");
    o("width", model.width, "number of channels").at_least(1);
    o("heads", model.heads, "number of heads").at_least(1);
    o("layers", model.layers,
      "number of blocks; a universal Transformer takes one block up to 4 times as often")
        .at_least(1);
    o.group("Data and comparison");
    o("tasks", tasks, "copy, long_copy, parity").decides(Role::files);
    o("mechanisms", mechanisms, "trains a model with each; also any name of a mixer").decides(Role::files);
    o("copied", copied, "symbols of the string of copy").at_least(2);
    o("total", total, "positions of long_copy").at_least(32);
    o("bits", bits, "bits of the string of parity").at_least(2);
    run.list(o);
    o.remove("batch");
    o("tokens", tokens, "tokens of a batch, all sequences together").at_least(1);
    o("held-out", held_out, "batches of held-out sequences").at_least(1);
  }
};

/// A task. Its items are sequences of one length each.
struct Problem {
  std::string name;
  int64_t vocabulary, length, shortest;  ///< training goes from short lengths to `length`
  std::function<Dataset<Sequences>(Part part, int64_t length)> items;
  std::optional<Dataset<Sequences>> longer;  ///< held-out items of twice the length
  std::string what, expectation;             ///< for the report
};

Problem problem_named(const std::string& name, const Settings& s) {
  const uint64_t seed = s.run.seed;
  if (name == "copy") {
    const auto items = [seed](Part part, int64_t length) {
      return written_after(synthetic::copies(part, kMany, {kSymbols, length, length}, seed), kSymbols);
    };
    return {
        name,
        kSymbols + 1,
        s.copied,
        2,
        items,
        items(Part::held_out, 2 * s.copied),
        fmt::format("A string of {} symbols, a separator, and the string again.", s.copied),
        "An attention looks up each symbol. A recurrence has to carry the whole string in a state of fixed "
        "size, so it needs more training and fails first when strings become longer."};
  }
  if (name == "long_copy") {
    const auto items = [seed](Part part, int64_t length) {
      const int64_t delay = length - 2 * kRemembered;
      return counted_from(synthetic::long_copies(part, kMany, {kSymbols, kRemembered, delay}, seed),
                          length - kRemembered);
    };
    return {
        name,
        kSymbols + 2,
        s.total,
        32,
        items,
        {},
        fmt::format("{} symbols, {} blanks, a sign, and the symbols again.", kRemembered,
                    s.total - 2 * kRemembered),
        "A recurrence has to keep its state over all blanks. The cost of standard attention grows with the "
        "square of the length, that of the Reformer and of recurrences in proportion to it."};
  }
  check(name == "parity", "there is no task {}, wanted copy, long_copy or parity", name);
  const auto items = [seed](Part part, int64_t length) {
    return synthetic::parities(part, kMany, length, length, seed);
  };
  return {
      name,
      2,
      s.bits,
      2,
      items,
      counted_from(items(Part::held_out, 2 * s.bits), s.bits),
      fmt::format("At each of {} bits, the sum modulo 2 of the bits so far.", s.bits),
      "Attention of a fixed depth does not count longer strings than it was trained on. A recurrence whose "
      "state only decays, such as RWKV-4 or Mamba, does not either: a bit 1 has to change the sign of a "
      "state. RWKV-7 can do that."};
}

int64_t positions_of(const Dataset<Sequences>& items) { return std::ssize(items[0].input); }

/// The number of sequences of a batch.
int64_t rows_of(const Dataset<Sequences>& items, int64_t tokens) {
  return std::max<int64_t>(1, tokens / positions_of(items));
}

/// The length of training after this share of the run. Each length has an equal part of the run,
/// and the last one two.
int64_t length_at(const Problem& p, double share) {
  int64_t lengths = 0;
  while ((p.length >> lengths) >= p.shortest) ++lengths;
  const auto at = static_cast<int64_t>(share * static_cast<double>(lengths + 1));
  return p.length >> std::max<int64_t>(0, lengths - 1 - at);
}

Batch training_batch(const Problem& p, const Settings& s, int64_t index) {
  const int64_t count = s.run.training.steps * s.run.training.accumulate;
  const auto items =
      p.items(Part::training, length_at(p, static_cast<double>(index) / static_cast<double>(count)));
  const int64_t rows = rows_of(items, s.tokens);
  std::vector<Sequences> chosen;
  for (const Sequences& item : subset(items, index * rows, (index + 1) * rows)) chosen.push_back(item);
  return synthetic::batch_of(chosen);
}

std::vector<Batch> held_out_batches(const Dataset<Sequences>& items, const Settings& s) {
  const int64_t rows = rows_of(items, s.tokens), count = rows * s.held_out;
  return Loader(subset(items, 0, count), ordered_batches(count, rows), synthetic::batch_of).whole();
}

Tensor logits_of(const Gpt& model, const Tensor& ids, int64_t segments) {
  if (segments == 1) return model.forward(ids);
  const auto state = model.make_state(ids.size(0));
  const int64_t time = ids.size(1);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < segments; ++i)
    parts.push_back(
        model.forward(slice(ids, 1, i * time / segments, (i + 1) * time / segments), {.state = state.get()}));
  return concat(parts, 1);
}

/// The rows in which each target that counts has the largest logit.
WeightedSum rows_without_mistake(const Tensor& logits, const Tensor& targets) {
  const Tensor right =
      logical_or(equal(argmax(logits, -1), targets),
                 equal(targets, full_like(targets, static_cast<double>(synthetic::kIgnored))));
  return {sum(cast(all(right, {1}), DType::int64)).item(), static_cast<double>(targets.size(0))};
}

report::RunRecord train(const Settings& s, const Problem& p, const Mechanism& mechanism) {
  GptOptions options = s.model;
  options.vocabulary = p.vocabulary;
  options.context = positions_of(p.longer ? *p.longer : p.items(Part::held_out, p.length));
  options.mixer = mechanism.mixer;
  mechanism.change(options);
  manual_seed(s.run.seed);
  Gpt model(options);
  const auto accuracy_of = [&](const std::vector<Tensor>& x) {
    return accuracy(logits_of(model, x[0], mechanism.segments), x[1]);
  };
  const std::vector<Batch> held_out = held_out_batches(p.items(Part::held_out, p.length), s);
  training::Task task{
      .model = model,
      .batch = [&](int64_t index) { return training_batch(p, s, index); },
      .validation = [&] { return held_out; },
      .loss =
          [&](const std::vector<Tensor>& x) {
            return mechanism.segments == 1 ? training::next_token_loss(model, x)
                                           : cross_entropy(logits_of(model, x[0], mechanism.segments), x[1]);
          },
      .metrics = {{.name = "accuracy", .of_batch = accuracy_of},
                  {.name = "sequences without a mistake",
                   .of_batch =
                       [&](const std::vector<Tensor>& x) {
                         return rows_without_mistake(logits_of(model, x[0], mechanism.segments), x[1]);
                       }}},
      .words = {.item = "answer",
                .loss_unit = "nats per answer",
                .loss_meaning = "The cross-entropy of the symbols that count.",
                .classes = p.vocabulary}};
  std::vector<Batch> longer;
  if (p.longer) {
    longer = held_out_batches(*p.longer, s);
    task.metrics.push_back({.name = "accuracy, twice as long", .of_split = [&](double) {
                              WeightedSum whole;
                              for (const Batch& batch : longer) {
                                const WeightedSum one = accuracy_of(batch.tensors);
                                whole.sum += one.sum, whole.weight += one.weight;
                              }
                              return whole.sum / whole.weight;
                            }});
  }
  training::keep_model(task, model);
  report::RunRecord record = examples::train(task, s, mechanism.name);
  for (const auto& [name, value] : option_values(options, {Role::result})) {
    const auto has_name = [&name = name](const auto& setting) { return setting.first == name; };
    if (std::none_of(record.settings.begin(), record.settings.end(), has_name))
      record.settings.emplace_back(name, value);
  }
  examples::say(stdout, "{}, {}: {:.1f} % of the answers are right\n", p.name, mechanism.name,
                100 * record.metrics[0].last());
  return record;
}

/// The first evaluated step at which 99 % of the answers are right.
std::string steps_to_99(const report::Series& accuracy) {
  for (size_t i = 0; i < accuracy.y.size(); ++i)
    if (accuracy.y[i] >= 0.99) return fmt::format("{:.0f}", accuracy.x[i]);
  return "–";
}

report::Section section_of(const Problem& p, const std::vector<report::RunRecord>& records) {
  report::TextTable table{.title = p.name, .columns = {"mechanism"}};
  report::LineChart chart{
      .title = p.name + ": accuracy", .x = {.label = "step", .whole = true}, .y = {"share of right answers"}};
  for (const report::MetricValues& metric : records.at(0).metrics)
    table.columns.push_back(metric.name + ", %");
  for (const char* column : {"steps to 99 %", "parameters", "operations", "peak memory", "time"})
    table.columns.emplace_back(column);
  for (const report::RunRecord& run : records) {
    auto& row = table.rows.emplace_back(std::vector{run.name});
    for (const report::MetricValues& metric : run.metrics)
      row.push_back(fmt::format("{:.1f}", 100 * metric.last()));
    double operations = 0;
    for (const double step : run.flops.y) operations += step;
    row.insert(row.end(), {steps_to_99(run.metrics[0].values), fmt::format("{}", run.parameters),
                           report::readable_flops(operations), report::readable_bytes(run.peak_memory_bytes),
                           report::readable_duration(run.seconds)});
    report::Series line = run.metrics[0].values;
    line.name = run.name;
    chart.lines.push_back({line});
  }
  examples::print_table(table);
  return {.title = p.name,
          .paragraphs = {{"Task", p.what}, {"Expectation", p.expectation}},
          .figures = {{table, "On held-out sequences. Time and memory are those of training."}, {chart}}};
}

void run(const Settings& s, const std::string& title) {
  std::vector<Problem> problems;
  std::vector<Mechanism> mechanisms;
  for (const std::string& name : s.tasks) problems.push_back(problem_named(name, s));
  for (const std::string& name : s.mechanisms) mechanisms.push_back(mechanism_named(name));
  check(!problems.empty() && !mechanisms.empty(), "wanted at least one task and one mechanism");
  report::Page page{.title = title};
  for (const Problem& problem : problems) {
    Settings own = s;
    own.run.out += "/" + problem.name;
    if (!own.run.training.tensorboard.empty()) own.run.training.tensorboard += "/" + problem.name;
    std::vector<report::RunRecord> records;
    for (const Mechanism& mechanism : mechanisms)
      if (records.empty() || !training::interrupted()) records.push_back(train(own, problem, mechanism));
    examples::write_comparison(own.run, title + " Task: " + problem.name, records);
    page.sections.push_back(section_of(problem, records));
    if (training::interrupted()) break;
  }
  write_page(s.run.out + "/report.html", page);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_model_program(
      "copy_and_parity", "Compares mechanisms on copying, remembering and counting.",
      "  copy_and_parity --tasks parity --mechanisms rwkv7,lstm,rotary --bits 32\n"
      "  copy_and_parity --tasks long_copy --total 1024 --mechanisms standard,reformer",
      Settings(), argc, argv, run);
}
