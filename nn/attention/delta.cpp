#include "nn/attention/delta.h"

#include <cmath>

#include "nn/init.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// The logarithm of rates between 1 and 16.
Parameter initial_log_rate(int64_t heads) { return Parameter(log(uniform({heads}, 7.5).master() + 8.5)); }

/// Biases whose softplus is between 0.001 and 0.1, evenly in the logarithm.
Tensor initial_bias(int64_t heads) {
  const double low = std::log(0.001), high = std::log(0.1);
  const Tensor step = exp(uniform({heads}, (high - low) / 2).master() + (low + high) / 2);
  return log(expm1(step));
}

}  // namespace

DeltaNet::DeltaNet(const MixerOptions& o, bool gated)
    : ScanMixer("delta", o, gated ? Gate::yes : Gate::no),
      beta(o.width, o.heads, Bias::no),
      decay(gated ? std::make_unique<Linear>(o.width, o.heads) : nullptr) {
  if (!gated) return;
  log_rate = initial_log_rate(o.heads);
  decay->bias.assign(initial_bias(o.heads));
}

Tensor DeltaNet::per_head(const Linear& layer, const Tensor& x) const {
  const Tensor z = layer.forward(x);
  return cast(transpose(z), accumulation_dtype(z.dtype()));
}

/// The delta rule as a linear scan: what is erased along −β·k is e^g·k·S, and β·k takes up v.
void DeltaNet::prepare(Heads& heads, const Tensor& x, int64_t) const {
  // silu leaves almost nothing of a row far below 0. Derivatives of its direction grow as 1/|row|.
  constexpr double kShortest = 1e-12;
  const auto unit = [](const Tensor& y) { return l2_normalize(silu(y), kShortest * kShortest); };
  heads.q = unit(heads.q);
  const Tensor k = unit(heads.k), share = cast(unsqueeze(sigmoid(per_head(beta, x)), -1), k.dtype());
  heads.k = k * share;
  heads.scan.erase_to = -heads.k, heads.scan.erase_from = k;
  if (!decay) return;
  const Tensor rate = exp(cast(log_rate, accumulation_dtype(x.dtype())));
  heads.scan.log_decay = -(unsqueeze(rate, -1) * softplus(per_head(*decay, x)));
  heads.scan.erase_from = k * cast(unsqueeze(exp(heads.scan.log_decay), -1), k.dtype());
}

Tensor DeltaNet::normalized(const Tensor& o) const { return rms_norm(o); }

void DeltaNet::fields(Fields& f) {
  ScanMixer::fields(f);
  f("beta", beta);
  f("decay", decay);
  f("log_rate", log_rate);
}

DeltaNet DeltaNet::clone() {
  return clone_into([this] { return DeltaNet(options_, decay != nullptr); });
}

}  // namespace vitrine::nn
