// What holds for every sequence-to-sequence model.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "nn/generation/beam_search.h"
#include "nn/generation/generate.h"
#include "nn/models/language_model.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "tests/ops/reference.h"

namespace vitrine::test {

inline Tensor random_ids(int64_t batch, int64_t time, int64_t vocabulary, uint64_t seed) {
  Generator generator(seed);
  return randint(0, vocabulary, {batch, time}, Device::cpu, generator);
}

/// A model in float64 and evaluation mode, with matrices that are far from 0.
template <class Model, class Options>
Model lively(const Options& options) {
  Model model(options);
  model.to(DType::float64);
  for (Parameter& p : model.parameters()) {
    if (p.shape().rank() == 1) continue;
    Generator g(p.name().size());
    p.assign(randn(p.shape(), DType::float64, Device::cpu, 0, 0.5, g));
  }
  model.eval();
  return model;
}

inline nn::StackCall call_of(const nn::Memory& memory, nn::DecodingState* state = nullptr) {
  return {
      .source = memory.source, .source_lengths = memory.lengths, .source_ids = memory.ids, .state = state};
}

/// Padding of the source changes nothing, and without the lengths it does. Ids are below `symbols`.
inline void check_padding(nn::Seq2SeqModel& model, int64_t symbols) {
  const Tensor source = random_ids(3, 6, symbols, 3), ids = random_ids(3, 4, symbols, 4);
  const std::vector<int64_t> lengths = {2, 6, 4};
  const Tensor together = model.forward(source, index_tensor(lengths, {3}), ids);
  for (int64_t b = 0; b < 3; ++b) {
    const Tensor own = slice(slice(source, 0, b, b + 1), 1, 0, lengths[static_cast<size_t>(b)]);
    const Tensor alone = model.forward(own, {}, slice(ids, 0, b, b + 1));
    CHECK(largest_difference(slice(together, 0, b, b + 1), alone) <= 1e-12);
  }
  CHECK(largest_difference(model.forward(source, {}, ids), together) > 1e-3);
}

/// Decoding in steps with a memory equals the full pass.
inline void check_steps(nn::Seq2SeqModel& model, int64_t symbols) {
  const Tape::Pause pause;
  const Tensor source = random_ids(2, 6, symbols, 5), ids = random_ids(2, 7, symbols, 6);
  const nn::Memory memory = model.encode(source, index_tensor(std::vector<int64_t>{3, 6}, {2}));
  const Tensor full = model.forward(source, memory.lengths, ids);
  const auto state = model.make_state(2);
  for (int64_t begin = 0; begin < 7; begin += begin == 0 ? 3 : 1) {
    const int64_t end = begin == 0 ? 3 : begin + 1;
    const Tensor now = model.forward(slice(ids, 1, begin, end), call_of(memory, state.get()));
    CHECK(largest_difference(now, slice(full, 1, begin, end)) <= 1e-11);
  }
  CHECK(state->length() == 7);
}

/// Greedy and beam search translate a batch as each source alone, by the probabilities of the full
/// pass.
inline void check_search(nn::Seq2SeqModel& model, int64_t symbols) {
  const Tape::Pause pause;
  const Tensor source = random_ids(3, 6, symbols, 7);
  const std::vector<int64_t> lengths = {4, 6, 1};
  const nn::Memory memory = model.encode(source, index_tensor(lengths, {3}));
  const std::vector<std::vector<int64_t>> prompts(3, {1});
  const auto greedy = generate_batch(model, prompts, 6, {.temperature = 0}, {{.tokens = {0}}, memory});
  const auto beams = beam_search(model, prompts, 6, {.beam = 3}, {{.tokens = {0}}, memory});
  for (int64_t b = 0; b < 3; ++b) {
    const auto i = static_cast<size_t>(b);
    const Tensor own = slice(slice(source, 0, b, b + 1), 1, 0, lengths[i]);
    const nn::Memory alone = model.encode(own);
    CHECK(generate(model, {1}, 6, {.temperature = 0}, {{.tokens = {0}}, alone}) == greedy[i]);
    const auto found = beam_search(model, {{1}}, 6, {.beam = 3}, {{.tokens = {0}}, alone})[0];
    REQUIRE(found.size() == beams[i].size());
    for (size_t k = 0; k < found.size(); ++k) {
      const std::vector<int64_t>& text = beams[i][k].tokens;
      CHECK(found[k].tokens == text);
      const auto time = std::ssize(text);
      const Tensor ids = index_tensor(text, {1, time});
      const Tensor logits = model.forward(own, {}, slice(ids, 1, 0, time - 1));
      const double wanted =
          -cross_entropy(logits, slice(ids, 1, 1, time), {.reduction = Reduction::sum}).item();
      CHECK(std::abs(beams[i][k].log_probability - wanted) <= 1e-10);
    }
  }
  CHECK(std::abs(beams[0][0].log_probability - beams[1][0].log_probability) > 1e-6);
}

}  // namespace vitrine::test
