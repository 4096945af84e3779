#include <algorithm>
#include <cmath>
#include <concepts>
#include <map>
#include <string>

#include "core/creation.h"
#include "core/files/file.h"
#include "core/files/safetensors.h"
#include "core/flops.h"
#include "core/random.h"
#include "core/tape.h"
#include "examples/vitrine/command.h"
#include "nn/training/checkpoint.h"
#include "ops/loss.h"

namespace vitrine::examples {

using namespace nn;

namespace {

struct InspectSettings {
  std::string drawing;
  bool tape = false;
  int64_t length = 8;

  void list(OptionList& o) {
    o.group("What is shown");
    o("tape", tape, "print the tape of a training step: each operation, its inputs and the memory it keeps");
    o("drawing", drawing, "write the drawing of this tape to a file, for dot -Tsvg");
    o("length", length, "tokens of the sequence on which the step is recorded").at_least(1);
  }
};

/// Long values, such as a vocabulary, are cut.
void print_metadata(const Safetensors& file) {
  for (const auto& [name, value] : file.metadata)
    say(stdout, "  {:<22}{}\n", name, value.size() > 60 ? value.substr(0, 57) + "…" : value);
}

/// The parameters of a checkpoint, or all tensors of a file that is none.
void print_tensors(const Safetensors& file) {
  const auto in_model = [](const auto& entry) { return entry.first.starts_with("model/"); };
  const bool checkpoint = std::ranges::any_of(file.tensors, in_model);
  say(stdout, "\n  {:<48}{:<10}{:<16}{:>11}{:>11}{:>11}{:>11}\n", "parameter", "dtype", "shape", "mean",
      "deviation", "least", "most");
  int64_t total = 0;
  for (const auto& entry : file.tensors) {
    if (checkpoint && !in_model(entry)) continue;
    const std::string name = checkpoint ? entry.first.substr(6) : entry.first;
    const Tensor& x = entry.second;
    total += x.numel();
    double sum = 0, squares = 0, least = INFINITY, most = -INFINITY;
    for (const double value : x.values()) {
      sum += value, squares += value * value;
      least = std::min(least, value), most = std::max(most, value);
    }
    const double n = static_cast<double>(x.numel()), mean = sum / n;
    say(stdout, "  {:<48}{:<10}{:<16}{:>11.3g}{:>11.3g}{:>11.3g}{:>11.3g}\n", name, vitrine::name(x.dtype()),
        fmt::format("{}", x.shape()), mean, std::sqrt(std::max(squares / n - mean * mean, 0.0)), least, most);
  }
  say(stdout, "\n{} numbers\n", total);
}

Tensor some_ids(int64_t vocabulary, int64_t length) { return randint(0, vocabulary, {1, length}); }

Tensor example_loss(const Gpt& model, int64_t length) {
  const int64_t time = std::min(length, model.context());
  return cross_entropy(model.forward(some_ids(model.vocabulary(), time)), some_ids(model.vocabulary(), time));
}

/// What limits a source and a target.
struct PairSizes {
  int64_t source_vocabulary, longest;
};
PairSizes sizes_of(const EncoderDecoderOptions& o) {
  return {o.source_vocabulary, std::min(o.context, o.source_context)};
}
PairSizes sizes_of(const RecurrentEncoderDecoderOptions& o) { return {o.source_vocabulary, o.context}; }
PairSizes sizes_of(const PointerGeneratorOptions& o) { return sizes_of(o.base); }

template <std::derived_from<Seq2SeqModel> Model>
Tensor example_loss(const Model& model, int64_t length) {
  const PairSizes sizes = sizes_of(model.options());
  const int64_t time = std::min(length, sizes.longest);
  const Seq2SeqModel& reads = model;
  return cross_entropy(
      reads.forward(some_ids(sizes.source_vocabulary, time), Tensor(), some_ids(model.vocabulary(), time)),
      some_ids(model.vocabulary(), time));
}

/// Records a training step on random tokens.
template <class Model>
void show_tape(const std::string& path, const InspectSettings& s) {
  Model model = training::load_model<Model>(path);
  model.named_parameters();  // gives the parameters their names in tables and drawings
  const FlopCounter counter;
  Tape tape;
  const Tensor loss = example_loss(model, s.length);
  const double forward = counter.total();
  if (s.tape) tape.print();
  if (!s.drawing.empty()) {
    const std::string drawing = tape.to_dot();
    const std::string_view parts[] = {drawing};
    write_file("inspect", s.drawing, parts);
    say(stdout, "\ndrawing: {0}; dot -Tsvg {0} -o tape.svg (Debian: graphviz)\n", s.drawing);
  }
  tape.backward(loss);
  say(stdout, "{:.4g} FLOPs forward and {:.4g} backward for a sequence of at most {} tokens\n", forward,
      counter.total() - forward, s.length);
}

/// Shows a step of a model of this kind. For other kinds the options that ask for one are errors.
void show_tape_of(const std::string& kind, const std::string& path, const InspectSettings& s) {
  const std::map<std::string, void (*)(const std::string&, const InspectSettings&)> shows = {
      {"gpt", show_tape<Gpt>},
      {"encoder_decoder", show_tape<EncoderDecoder>},
      {"recurrent_encoder_decoder", show_tape<RecurrentEncoderDecoder>},
      {"pointer_generator", show_tape<PointerGenerator>}};
  if (const auto show = shows.find(kind); show != shows.end()) return show->second(path, s);
  check(!s.tape && s.drawing.empty(),
        "inspect: {} has {}, and a step can be shown of a gpt, an encoder_decoder, a "
        "recurrent_encoder_decoder and a pointer_generator",
        path, kind.empty() ? "no kind of model" : "a " + kind);
}

int run(InspectSettings& s, const Call& call) {
  const std::string path = checkpoint_in(call.words[0]);
  const Safetensors file = read_safetensors(path);
  const auto found = file.metadata.find("model");
  const std::string kind = found == file.metadata.end() ? "" : found->second;
  say(stdout, "{}: {}\n\n", path, kind.empty() ? "weights of a model" : "a " + kind);
  print_metadata(file);
  print_tensors(file);
  show_tape_of(kind, path, s);
  return 0;
}

}  // namespace

Command inspect_command() {
  return make_command<InspectSettings>(
      "inspect", "Prints what a checkpoint has: options, parameters, cost, and the tape of a step.",
      "  vitrine inspect runs/laser\n"
      "  vitrine inspect runs/laser --tape --length 4\n"
      "  vitrine inspect runs/laser/checkpoint.safetensors --drawing tape.dot",
      {"checkpoint", "a run folder, or a checkpoint", 1, 1}, run);
}

}  // namespace vitrine::examples
