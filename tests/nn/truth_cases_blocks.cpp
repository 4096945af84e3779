// Norms, residual connections, experts, adapters, halting and losses of the second set.
#include <vector>

#include "core/creation.h"
#include "core/tape.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/conformer_convolution.h"
#include "nn/layers/drop_path.h"
#include "nn/layers/group_norm.h"
#include "nn/layers/lora.h"
#include "nn/layers/mixture_of_experts.h"
#include "nn/layers/norm.h"
#include "nn/layers/output.h"
#include "nn/losses/contrastive.h"
#include "nn/losses/margin.h"
#include "nn/transformer/residual.h"
#include "nn/transformer/universal.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/power_norm.h"
#include "ops/view.h"
#include "tests/nn/truth_adapters.h"

namespace vitrine::test {
namespace {

Tensor group_norm(Params p, In in) {
  nn::GroupNorm norm(p.at("groups"), in.at("gamma").numel(), p.at("eps"));
  norm.weight = Parameter(in.at("gamma")), norm.bias = Parameter(in.at("beta"));
  return norm.forward(in.at("x"));
}

/// A batch norm over the axis of the channels of x with the case's statistics. They are copies,
/// because training writes into them.
nn::BatchNorm batch_norm_of(Params p, In in, const Tensor& x, int64_t axis) {
  nn::BatchNorm norm(x.size(axis),
                     {.momentum = p.value("momentum", 0.1), .eps = p.value("eps", 1e-5), .axis = axis});
  norm.to(x.dtype()), norm.to(x.device());
  norm.train(p.at("training"));
  if (in.has("running_mean")) norm.running_mean = copy_as(in.at("running_mean"), x.dtype());
  if (in.has("running_var")) norm.running_var = copy_as(in.at("running_var"), x.dtype());
  return norm;
}

Tensor batch_norm(Params p, In in) {
  const Tensor x = in.at("x");
  const std::string output = p.at("output");
  nn::BatchNorm norm = batch_norm_of(p, in, x, 1);
  if (output == "y") norm.weight = Parameter(in.at("gamma")), norm.bias = Parameter(in.at("beta"));
  const Tensor y = norm.forward(x);
  return output == "y" ? y : output == "running_mean" ? norm.running_mean : norm.running_var;
}

/// The case gives the taps as [C, K].
Tensor conformer_conv(Params p, In in) {
  const Tensor x = in.at("x"), kernel = in.at("w_depth");
  check(p.at("eps") == 1e-5, "the epsilon of the Conformer's norms is fixed");
  nn::ConformerConvolution module(x.size(2), kernel.size(1));
  module.norm.weight = Parameter(in.at("ln_gamma")), module.norm.bias = Parameter(in.at("ln_beta"));
  module.gate.weight = Parameter(in.at("w1")), module.gate.bias = Parameter(in.at("b1"));
  module.depthwise.weight = Parameter(unsqueeze(kernel, 1)),
  module.depthwise.bias = Parameter(in.at("b_depth"));
  module.batch_norm = batch_norm_of(p, in, transpose(x), 1);
  module.batch_norm.weight = Parameter(in.at("bn_gamma")),
  module.batch_norm.bias = Parameter(in.at("bn_beta"));
  module.out.weight = Parameter(in.at("w2")), module.out.bias = Parameter(in.at("b2"));
  return module.forward(x);
}

/// A norm of a block with the given gain and bias.
Tensor block_norm(nn::NormKind kind, Params p, const Tensor& x, const Tensor& gain, const Tensor& bias) {
  nn::Norm norm(x.size(-1), kind, p.value("eps", 1e-5));
  if (gain.defined()) norm.weight = Parameter(gain);
  if (bias.defined()) norm.bias = Parameter(bias);
  return norm.forward(x);
}

Tensor ada_norm(Params p, In in) {
  check(p.at("c") == 1.0 && p.at("k") == 0.1, "the constants of AdaNorm are fixed");
  return block_norm(nn::NormKind::ada, p, in.at("x"), {}, {});
}

/// The statistics are copies, because the backward writes into them.
Tensor power_norm(Params p, In in) {
  const Tensor x = in.at("x");
  const Shape channels = {x.size(-1)};
  const Tensor psi2 = copy_as(in.at("psi2"), x.dtype()), none = zeros(channels, x.dtype(), x.device());
  const Tensor nu = in.has("nu") ? copy_as(in.at("nu"), x.dtype()) : none;
  const auto norm = [&](const Tensor& gamma, const Tensor& beta) {
    return vitrine::power_norm(x, gamma, beta, psi2, nu, p.value("alpha", 0.9), p.value("eps", 1e-5));
  };
  if (p.at("output") == "y") return norm(in.at("gamma"), in.at("beta"));
  const Tape::Pause pause;
  Tape tape;
  tape.watch(x);
  const Tensor y = norm(in.has("gamma") ? in.at("gamma") : ones(channels, x.dtype(), x.device()), none);
  tape.gradient({y}, {x}, {in.has("dy") ? in.at("dy") : ones_like(y)});
  return p.at("output") == "psi2" ? psi2 : nu;
}

Tensor deep_norm(Params p, In in) {
  const Tensor x = in.at("x");
  const nn::Shortcut shortcut(nn::Residual::deepnet, x.size(-1), p.at("alpha"));
  nn::Norm norm(x.size(-1), nn::NormKind::layer, p.at("eps"));
  norm.weight = Parameter(in.at("gamma")), norm.bias = Parameter(in.at("beta"));
  return norm.forward(shortcut.forward(x), in.at("f")).y();
}

Tensor deep_norm_constants(Params p, In) {
  const int64_t encoder = p.value("encoder_layers", int64_t{0}),
                decoder = p.value("decoder_layers", int64_t{0});
  const bool is_encoder = p.at("part") == "encoder";
  const nn::DeepNorm c = encoder == 0 || decoder == 0 ? nn::deep_norm(encoder + decoder)
                         : is_encoder                 ? nn::deep_norm_of_encoder(encoder, decoder)
                                                      : nn::deep_norm_of_decoder(decoder);
  return tensor({c.alpha, c.beta}, DType::float64);
}

Tensor lora(Params p, In in) {
  const Tensor w = in.at("w"), a = in.at("a");
  nn::Linear layer(w.size(1), w.size(0));
  layer.weight = Parameter(w);
  layer.lora = std::make_unique<nn::LowRank>(w.size(1), w.size(0),
                                             nn::LoraOptions{.rank = a.size(0), .alpha = p.at("alpha")});
  layer.lora->a = Parameter(a), layer.lora->b = Parameter(in.at("b"));
  if (p.at("output") == "merged_weight") return nn::merged_weight(layer);
  layer.bias = Parameter(in.at("bias"));
  return layer.forward(in.at("x"));
}

Tensor drop_path(Params p, In in) {
  if (p.at("training").get<bool>()) return nn::drop_path(in.at("x"), in.at("keep"), p.at("rate"));
  nn::DropPath layer(p.at("rate"));
  layer.eval();
  return layer.forward(in.at("x"));
}

Tensor moe(Params p, In in) {
  const Tensor x = in.at("x"), router = in.at("w_router");
  const std::string output = p.at("output");
  const Tensor logits = linear(x, router);
  const nn::Routing r = nn::route(logits, p.at("top_k"), p.value("capacity", int64_t{0}));
  if (output == "experts") return r.experts;
  if (output == "slots") return r.slots;
  if (output == "balance_loss") return p.at("alpha").get<double>() * nn::balance_loss(logits, r);
  if (output == "z_loss") return nn::z_loss(logits);
  const Tensor w1 = in.at("w1");
  nn::MixtureOfExperts layer(x.size(1), w1.size(1), nn::Activation::relu, nn::Bias::yes, 0,
                             {.count = w1.size(0), .per_token = p.at("top_k")});
  layer.up = Parameter(w1), layer.up_bias = Parameter(in.at("b1"));
  layer.down = Parameter(in.at("w2")), layer.down_bias = Parameter(in.at("b2"));
  return layer.mix(x, r);
}

Tensor act_halting(Params p, In in) {
  nn::HaltingOptions o;
  o.kind = value_named<nn::HaltingKind>(p.at("kind") == "graves" ? "graves" : "universal");
  o.threshold = p.at("threshold");
  o.max_steps = p.at("max_steps");
  nn::Halting halting(in.at("x").size(-1), o);
  halting.unit.weight = Parameter(unsqueeze(in.at("wp"), 0));
  halting.unit.bias = Parameter(in.at("bp"));
  const nn::Halted h = halting.forward(
      in.at("x"), [&](const Tensor& s, int64_t) { return tanh(linear(s, in.at("w"), in.at("b"))); });
  return p.at("output") == "state" ? h.state : p.at("output") == "ponder" ? h.ponder : h.steps;
}

Tensor info_nce(Params p, In in) {
  return nn::info_nce(
      in.at("a"), in.at("b"), in.get("negatives"),
      {.temperature = p.at("temperature"), .margin = p.value("margin", 0.0), .symmetric = p.at("symmetric")});
}

Tensor margin_softmax(Params p, In in) {
  return nn::margin_softmax(in.at("x"), in.at("w"), in.at("target"),
                            {.kind = value_named<nn::Margin>(p.at("kind").get<std::string>()),
                             .margin = p.at("margin"),
                             .scale = p.at("scale")});
}

Tensor mixture_of_softmaxes(Params p, In in) {
  const Tensor x = in.at("x"), out = in.at("w_out");
  nn::MixtureOfSoftmaxes layer(x.size(1), out.size(0), p.at("mixtures"), out.size(1));
  layer.prior.weight = Parameter(in.at("w_prior")), layer.hidden.weight = Parameter(in.at("w_h"));
  layer.out.weight = Parameter(out);
  return layer.forward(x);
}

}  // namespace

const TruthAdapters kBlockTruthAdapters = {
    {"act_halting", act_halting},
    {"ada_norm", ada_norm},
    {"batch_norm", batch_norm},
    {"conformer_conv", conformer_conv},
    {"deep_norm", deep_norm},
    {"deep_norm_constants", deep_norm_constants},
    {"drop_path", drop_path},
    {"group_norm", group_norm},
    {"info_nce", info_nce},
    {"laser_output", [](Params, In in) { return nn::laser_output(in.at("logits"), in.at("v")); }},
    {"lora_linear", lora},
    {"margin_softmax", margin_softmax},
    {"mixture_of_softmaxes", mixture_of_softmaxes},
    {"moe", moe},
    {"power_norm", power_norm},
    {"power_norm_v",
     [](Params p, In in) {
       return vitrine::power_norm_v(in.at("x"), in.at("gamma"), in.at("beta"), p.at("eps"));
     }},
    {"scale_norm",
     [](Params p, In in) { return block_norm(nn::NormKind::scale, p, in.at("x"), in.at("g"), {}); }},
    {"universal_coordinates",
     [](Params p, In) {
       return nn::universal_coordinates(0, p.at("n"), p.at("step"), zeros({1, p.at("d")}, DType::float64));
     }},
};

}  // namespace vitrine::test
