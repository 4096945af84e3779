// The reference cases of beam search.
#include "core/creation.h"
#include "nn/generation/beam_search.h"
#include "tests/nn/models/bigram.h"
#include "tests/nn/truth_adapters.h"

namespace vitrine::test {
namespace {

Tensor beam_search(Params p, In x) {
  Bigram model(x.at("logits"));
  const int64_t end = p.at("eos"), count = p.at("max_length"), beam = p.at("beam"), begin = p.at("bos");
  const nn::BeamOptions options = {
      .beam = beam,
      .length_power = p.at("length_power"),
      .length_penalty = value_named<nn::LengthPenalty>(p.at("length_form").get<std::string>())};
  const nn::BeamText best =
      nn::beam_search(model, {{begin}}, count, options, {.stop = {.tokens = {end}}}).front().front();
  const std::string output = p.at("output");
  if (output == "score") return tensor({best.score}, {1}, x.at("logits").dtype());
  std::vector<int64_t> tokens(best.tokens.begin() + 1, best.tokens.end());
  tokens.resize(static_cast<size_t>(count), -1);
  return index_tensor(tokens, {count});
}

}  // namespace

const TruthAdapters kGenerationTruthAdapters = {{"beam_search", beam_search}};

}  // namespace vitrine::test
