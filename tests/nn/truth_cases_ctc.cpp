// The reference cases of CTC: the loss and its decoders.
#include "nn/generation/ctc.h"
#include "ops/ctc.h"
#include "ops/elementwise.h"
#include "ops/view.h"
#include "tests/nn/truth_adapters.h"

namespace vitrine::test {
namespace {

Tensor loss(Params p, In x) {
  const std::string reduction = p.at("reduction");
  CtcOptions o;
  o.input_lengths = x.at("input_lengths"), o.target_lengths = x.at("target_lengths");
  o.reduction = reduction == "mean" ? Reduction::mean : reduction == "sum" ? Reduction::sum : Reduction::none;
  o.zero_infinity = p.value("zero_infinity", false);
  const Tensor y = ctc_loss(x.at("logits"), x.at("targets"), o);
  if (reduction == "probability") return exp(-y);
  return reshape(y, {-1});
}

Tensor prefix_beam(Params p, In x) {
  const nn::CtcLabels best = nn::ctc_prefix_beam(x.at("logits"), p.at("beam"), x.at("input_lengths"));
  const std::string output = p.at("output");
  return output == "labels" ? best.labels : cast(best.log_probabilities, x.at("logits").dtype());
}

}  // namespace

const TruthAdapters kCtcTruthAdapters = {
    {"ctc_loss", loss},
    {"ctc_greedy", [](Params, In x) { return nn::ctc_greedy(x.at("logits"), x.at("input_lengths")); }},
    {"ctc_prefix_beam", prefix_beam},
};

}  // namespace vitrine::test
