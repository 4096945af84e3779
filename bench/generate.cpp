// Generation with the cache, one token after the other, float32, next to the same model in PyTorch:
// tokens per second, and the share of the memory bandwidth (both at their best), because each token
// reads every weight once. Contenders run in their own processes, in turn. Then what weights in
// fewer bits, several texts at once, and beam search change, and the speed of other models.
#include "nn/generation/generate.h"
#include "nn/generation/beam_search.h"
#include "nn/models/encoder_decoder.h"
#include "nn/models/gpt.h"
#include "nn/models/recurrent_encoder_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/contest.h"
#include "bench/measure/limits.h"
#include "core/parallel.h"
#include "core/random.h"
#include "ops/view.h"

using namespace vitrine;
using nlohmann::json;

namespace {

/// One token per step: PyTorch's twin does the same, greedily from token 0. The cache holds no more
/// than the context.
bench::Size in_steps(bench::Size s) {
  s.steps = static_cast<int>(std::min<int64_t>(s.model.context, 128));
  return s;
}

/// Seconds of each step that continues `rows` texts by a token, greedily from token 0.
std::vector<double> seconds_of_steps(const nn::Gpt& model, int64_t rows, int steps) {
  const auto state = model.make_state(rows);
  Generator generator(1);
  std::vector<int64_t> tokens(static_cast<size_t>(rows), 0);
  std::vector<double> seconds;
  for (int step = 0; step < steps; ++step) {
    const double start = bench::seconds();
    const Tensor logits = model.forward(index_tensor(tokens, {rows, 1}), {.state = state.get()});
    for (int64_t b = 0; b < rows; ++b)
      tokens[static_cast<size_t>(b)] =
          nn::sample_token(reshape(select(logits, 0, b), {-1}), {.temperature = 0}, generator);
    seconds.push_back(bench::seconds() - start);
  }
  return seconds;
}

/// The part of one contender, run as a process: prints what PyTorch's twin prints.
void generate_here(const bench::Size& s) {
  nn::Gpt model(s.model);
  model.eval();
  json result;
  result["seconds"] = seconds_of_steps(model, 1, s.steps);
  result["bandwidth"] = bench::bandwidth().read;
  fmt::print("{}\n", result.dump());
}

/// Bytes of weights that one token reads.
double weight_bytes(const bench::Size& s) {
  const double C = static_cast<double>(s.model.width);
  return 4 * (static_cast<double>(s.model.layers) * 12 * C * C + C * static_cast<double>(s.model.vocabulary));
}

void print(const bench::Size& s, const char* name, const std::vector<double>& seconds, double bandwidth) {
  // The weights of the small model stay in the caches: memory is no limit there.
  const double limit = bandwidth / weight_bytes(s);
  const std::string share =
      weight_bytes(s) > 64e6 ? fmt::format("{:.0f}%", 100 / bench::best(seconds) / limit) : "-";
  fmt::print("{:<5}{:<10}{:>12.1f}{:>12.1f}{:>11}\n", s.name, name, 1 / bench::median(seconds),
             1 / bench::best(seconds), share);
  std::fflush(stdout);
}

void compare(const bench::Contest& contest, const bench::Size& s) {
  std::vector<bench::Contender> contenders = bench::contenders(contest, s, "generate");
  bench::run(contest, contenders);
  // The best, as other programs disturb it
  const double bandwidth = bench::largest(contenders.front().runs, "bandwidth");
  for (const bench::Contender& c : contenders) print(s, c.name.c_str(), bench::seconds_of(c.runs), bandwidth);
  const bench::Contender* const peer = bench::best_peer(contenders);
  if (peer == nullptr) return;
  const auto ours = bench::seconds_of(contenders.front().runs), theirs = bench::seconds_of(peer->runs);
  fmt::print("{:<5}{:<10}{:>11.2f}x{:>11.2f}x\n\n", s.name, "ratio",
             bench::median(theirs) / bench::median(ours), bench::best(theirs) / bench::best(ours));
}

/// Tokens per second of all texts together, by the numbers that weights are stored in and by the
/// texts that are continued at once. The variants run in turn.
void print_variants(const bench::Contest& contest, const bench::Size& s) {
  struct Variant {
    const char* weights;
    const nn::Gpt* model;
    int64_t rows;
    std::vector<double> seconds = {};
  };
  manual_seed(1);
  nn::Gpt wide(s.model), narrow = wide.clone(), rounded = wide.clone();
  narrow.to(DType::bfloat16);
  nn::quantize_linear_layers(rounded);
  std::vector<Variant> variants;
  for (const int64_t rows : {1, 4, 16}) {
    variants.push_back({"float32", &wide, rows});
    variants.push_back({"bfloat16", &narrow, rows});
    variants.push_back({"int8", &rounded, rows});
  }
  for (nn::Gpt* model : {&wide, &narrow, &rounded}) model->eval();
  for (int round = 0; round < contest.rounds; ++round)
    for (Variant& v : variants)
      for (const double seconds : seconds_of_steps(*v.model, v.rows, s.steps)) v.seconds.push_back(seconds);
  for (const Variant& v : variants) {
    const auto rows = static_cast<double>(v.rows);
    fmt::print("{:<5}{:<10}{:>6}{:>12.1f}{:>12.1f}\n", s.name, v.weights, v.rows,
               rows / bench::median(v.seconds), rows / bench::best(v.seconds));
  }
  std::fflush(stdout);
}

/// Tokens per second of the texts that generate_batch and beam_search return, with all that they
/// compute besides the model: sampling, the choice of beams, and the reordering of the state. Each
/// token of a text costs a pass over as many rows as there are beams. The variants run in turn.
void print_searches(const bench::Contest& contest, const bench::Size& s) {
  struct Variant {
    const char* name;
    int64_t beams, texts;  ///< no beams: generate_batch
    nn::SamplingOptions sampling = {};
    std::vector<double> seconds = {};
  };
  manual_seed(1);
  nn::Gpt model(s.model);
  std::vector<Variant> variants;
  for (const int64_t texts : {1, 8}) {
    variants.push_back({"greedy", 0, texts, {.temperature = 0}});
    variants.push_back({"sampled", 0, texts, {.top_k = 50, .top_p = 0.9, .repetition_penalty = 1.1}});
    for (const int64_t beams : {1, 4}) variants.push_back({"beams", beams, texts});
  }
  for (int round = 0; round < 5 * contest.rounds; ++round)
    for (Variant& v : variants) {
      const std::vector<std::vector<int64_t>> prompts(static_cast<size_t>(v.texts), {0});
      const double start = bench::seconds();
      if (v.beams > 0)
        nn::beam_search(model, prompts, s.steps, {.beam = v.beams});
      else
        nn::generate_batch(model, prompts, s.steps, v.sampling);
      v.seconds.push_back(bench::seconds() - start);
    }
  for (const Variant& v : variants) {
    const auto tokens = static_cast<double>(v.texts * s.steps);
    fmt::print("{:<5}{:<10}{:>6}{:>6}{:>12.1f}{:>12.1f}\n", s.name, v.name,
               v.beams > 0 ? fmt::to_string(v.beams) : "-", v.texts, tokens / bench::median(v.seconds),
               tokens / bench::best(v.seconds));
  }
  std::fflush(stdout);
}

/// A model that is compared, with the sizes of a Gpt as far as it has them. The recurrent
/// encoder-decoder has one layer and no heads.
struct Model {
  std::string name;
  std::unique_ptr<nn::LanguageModel> model;
};

std::vector<Model> models(const nn::GptOptions& o) {
  std::vector<Model> all;
  for (const char* mixer : {"standard", "laser", "linear", "delta", "mamba", "rwkv7", "lstm"}) {
    nn::GptOptions with = o;
    with.mixer = mixer;
    all.push_back({fmt::format("gpt {}", mixer), std::make_unique<nn::Gpt>(with)});
  }
  nn::EncoderDecoderOptions transformer;
  transformer.source_vocabulary = transformer.vocabulary = o.vocabulary;
  transformer.source_context = transformer.context = o.context;
  transformer.width = o.width, transformer.heads = o.heads;
  transformer.encoder_layers = transformer.decoder_layers = o.layers;
  all.push_back({"encoder-decoder", std::make_unique<nn::EncoderDecoder>(transformer)});
  nn::RecurrentEncoderDecoderOptions recurrent;
  recurrent.source_vocabulary = recurrent.vocabulary = o.vocabulary;
  recurrent.context = o.context, recurrent.width = o.width;
  all.push_back({"gru, additive", std::make_unique<nn::RecurrentEncoderDecoder>(recurrent)});
  return all;
}

/// Tokens per second of other models, greedily and by 4 beams. Encoder-decoders read a source of
/// the length of the context, which is encoded once and not measured. The variants run in turn.
void print_models(const bench::Contest& contest, const bench::Size& s) {
  struct Variant {
    const Model* model;
    int64_t texts, beams;
    nn::Memory memory = {};
    std::vector<double> seconds = {};
  };
  manual_seed(1);
  const std::vector<Model> all = models(s.model);
  std::vector<Variant> variants;
  for (const Model& m : all)
    for (const int64_t texts : {1, 8})
      for (const int64_t beams : {1, 4}) {
        variants.push_back({&m, texts, beams});
        if (auto* const reader = dynamic_cast<nn::Seq2SeqModel*>(m.model.get()))
          variants.back().memory = reader->encode(randint(0, s.model.vocabulary, {texts, s.model.context}));
      }
  for (int round = 0; round < contest.rounds; ++round)
    for (Variant& v : variants) {
      const std::vector<std::vector<int64_t>> prompts(static_cast<size_t>(v.texts), {0});
      const double start = bench::seconds();
      if (v.beams > 1)
        nn::beam_search(*v.model->model, prompts, s.steps, {.beam = v.beams}, {.memory = v.memory});
      else
        nn::generate_batch(*v.model->model, prompts, s.steps, {.temperature = 0}, {.memory = v.memory});
      v.seconds.push_back(bench::seconds() - start);
    }
  for (const Variant& v : variants) {
    const auto tokens = static_cast<double>(v.texts * s.steps);
    fmt::print("{:<5}{:<16}{:>6}{:>6}{:>12.1f}{:>12.1f}\n", s.name, v.model->name, v.beams, v.texts,
               tokens / bench::median(v.seconds), tokens / bench::best(v.seconds));
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Contest contest =
      bench::parse_contest("Generation with the cache, float32, against PyTorch", argc, argv);
  if (contest.precision.dtype != DType::float32) {
    fmt::print(stderr, "generate: --dtype is {}, wanted float32; the rows below it have the other weights\n",
               name(contest.precision.dtype));
    return 2;
  }
  if (contest.process) return generate_here(in_steps(contest.sizes().front())), 0;

  fmt::print("{} threads\n\n", threads());
  fmt::print("{:<5}{:<10}{:>12}{:>12}{:>11}\n", "size", "", "tokens/s", "best", "of memory");
  for (const bench::Size& s : contest.sizes()) compare(contest, in_steps(s));
  fmt::print("\n{:<5}{:<10}{:>6}{:>12}{:>12}\n", "size", "weights", "texts", "tokens/s", "best");
  for (const bench::Size& s : contest.sizes()) print_variants(contest, in_steps(s));
  fmt::print("\n{:<5}{:<10}{:>6}{:>6}{:>12}{:>12}\n", "size", "choice", "beams", "texts", "tokens/s", "best");
  for (const bench::Size& s : contest.sizes()) print_searches(contest, in_steps(s));
  fmt::print("\n{:<5}{:<16}{:>6}{:>6}{:>12}{:>12}\n", "size", "model", "beams", "texts", "tokens/s", "best");
  for (const bench::Size& s : contest.sizes())
    if (s.name == "a") print_models(contest, in_steps(s));
  return 0;
}
