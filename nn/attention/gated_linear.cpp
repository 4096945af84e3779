#include "nn/attention/gated_linear.h"

#include "nn/layers/heads.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

constexpr double kTemperature = 16;  // of the paper: decays start near 1

}  // namespace

GatedLinear::GatedLinear(const MixerOptions& o, int64_t rank)
    : ScanMixer("gated_linear", o, Gate::yes),
      decay_in((check(rank > 0, "gated_linear: the rank is {}, wanted at least 1", rank), o.width), rank,
               Bias::no),
      decay_out(rank, o.width) {}

/// log α = log σ(z)/16 = −softplus(−z)/16.
void GatedLinear::prepare(Heads& heads, const Tensor& x, int64_t) const {
  const Tensor z = split_heads(decay_out.forward(decay_in.forward(x)), options_.heads);
  heads.scan.log_decay = softplus(-cast(z, accumulation_dtype(z.dtype()))) * (-1 / kTemperature);
}

Tensor GatedLinear::normalized(const Tensor& o) const { return layer_norm(o); }

void GatedLinear::fields(Fields& f) {
  ScanMixer::fields(f);
  f("decay_in", decay_in);
  f("decay_out", decay_out);
}

GatedLinear GatedLinear::clone() {
  return clone_into([this] { return GatedLinear(options_, decay_in.weight.shape()[0]); });
}

}  // namespace vitrine::nn
