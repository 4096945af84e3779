#include "nn/transformer/residual.h"

#include <cmath>

#include "nn/attention/multi_head.h"
#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/join.h"

namespace vitrine::nn {
namespace {

void check_layers(int64_t layers) {
  check(layers > 0, "deep_norm: there are {} layers, wanted at least 1", layers);
}

/// Draws the weight again: N(0, gain²·2/(in + out)), Xavier normal.
void draw(const Parameter& weight, double gain, int64_t in, int64_t out) {
  Parameter to = weight;
  to.assign(normal(weight.shape(), gain * std::sqrt(2.0 / static_cast<double>(in + out))));
}

}  // namespace

DeepNorm deep_norm(int64_t layers) {
  check_layers(layers);
  const auto l = static_cast<double>(layers);
  return {std::pow(2 * l, 0.25), std::pow(8 * l, -0.25)};
}

DeepNorm deep_norm_of_encoder(int64_t encoder_layers, int64_t decoder_layers) {
  check_layers(encoder_layers), check_layers(decoder_layers);
  const double n = static_cast<double>(encoder_layers), m = static_cast<double>(decoder_layers);
  const double root = std::pow(n * n * n * n * m, 1.0 / 16);
  return {0.81 * root, 0.87 / root};
}

DeepNorm deep_norm_of_decoder(int64_t decoder_layers) {
  check_layers(decoder_layers);
  const auto m = static_cast<double>(decoder_layers);
  return {std::pow(3 * m, 0.25), std::pow(12 * m, -0.25)};
}

void initialize_deepnet(Mixer& mixer, double beta) {
  auto* const attention = dynamic_cast<MultiHeadAttention*>(&mixer);
  check(attention != nullptr,
        "initialize_deepnet: the mixer is {}; wanted attention, whose values and output start smaller",
        mixer.kind());
  Parameter& all = attention->query_key_value.weight;
  const int64_t width = all.shape()[1], keys = (all.shape()[0] - width) / 2;
  const auto part = [&](int64_t out, double gain) -> Tensor { return xavier_normal({out, width}, gain); };
  all.assign(concat({part(width, 1), part(keys, 1), part(keys, beta)}, 0));
  draw(attention->out.weight, beta, width, width);
}

void initialize_deepnet(FeedForward& f, double beta) {
  const int64_t width = f.down.weight.shape()[0], hidden = f.down.weight.shape()[1];
  draw(f.up.weight, beta, width, hidden);
  draw(f.down.weight, beta, hidden, width);
}

void initialize_deepnet(MixtureOfExperts& experts, double beta) {
  const int64_t width = experts.down.shape()[1], hidden = experts.down.shape()[2];
  draw(experts.up, beta, width, hidden);
  draw(experts.down, beta, hidden, width);
}

Shortcut::Shortcut(Residual residual, int64_t width, double alpha)
    : alpha_(residual == Residual::deepnet ? alpha : 1) {
  if (residual == Residual::admin) omega = constant({width}, 1);
}

Tensor Shortcut::forward(const Tensor& x) const {
  if (omega.defined()) return x * omega;
  return alpha_ == 1 ? x : x * alpha_;
}

void Shortcut::fields(Fields& f) { f("omega", omega); }

Shortcut Shortcut::clone() {
  return clone_into([this] {
    return omega.defined() ? Shortcut(Residual::admin, omega.numel(), 1)
                           : Shortcut(Residual::deepnet, 1, alpha_);
  });
}

}  // namespace vitrine::nn
