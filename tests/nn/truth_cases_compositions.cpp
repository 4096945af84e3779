// Mechanisms of the second set without a module in the library, each composed of a few ops: the
// cases check that the ops compose. A mechanism that is added to the library replaces its lines
// here.
#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "nn/attention/mask.h"
#include "nn/attention/patterns.h"
#include "nn/attention/positions.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/nn/truth_adapters.h"

namespace vitrine::test {
namespace {

/// The pattern of a sparse attention over n tokens.
Tensor pattern_of(Params p, In x, const nn::PatternSize& size) {
  const std::string pattern = p.at("pattern");
  const auto number = [&](const char* name) { return p.at(name).get<int64_t>(); };
  if (pattern == "dilated") return nn::dilated_pattern(size, number("window"), number("dilation"));
  if (pattern == "global_window") {
    const std::vector<int64_t> everywhere = p.at("global");
    return nn::global_pattern(size, number("window"), everywhere);
  }
  if (pattern == "strided") return nn::strided_pattern(size, number("stride"));
  if (pattern == "fixed") return nn::fixed_pattern(size, number("stride"), number("summary"));
  check(pattern == "block", "the pattern {} is not known", pattern);
  return nn::block_mask(x.at("layout"), number("block"));
}

Tensor sparse_mask(Params p, In x) {
  const int64_t n = p.at("n");
  return nn::AttentionMask{.causal = p.at("causal"), .allowed = pattern_of(p, x, {n, n})}.visible(
      n, n, Device::cpu);
}

Tensor sparse_attention(Params p, In x) {
  AttentionOptions o;
  const int64_t n = x.at("q").size(-2);
  o.allowed = pattern_of(p, x, {n, n, x.at("q").device()});
  o.causal = p.value("causal", false);
  return attention(x.at("q"), x.at("k"), x.at("v"), o);
}

/// x [B, T, C] shifted by one token; the first token is zero.
Tensor shifted(const Tensor& x) { return slice(pad(x, {0, 1, 0}, {0, 0, 0}), 1, 0, x.size(1)); }

Tensor rwkv4_channel_mix(Params, In x) {
  const auto mix = [&, now = x.at("x"), before = shifted(x.at("x"))](const char* mu) {
    return x.at(mu) * now + (1 - x.at(mu)) * before;
  };
  return sigmoid(linear(mix("mu_r"), x.at("wr"))) *
         linear(square(relu(linear(mix("mu_k"), x.at("wk")))), x.at("wv"));
}

Tensor rwkv7_channel_mix(Params, In x) {
  const Tensor mixed = x.at("x") + (shifted(x.at("x")) - x.at("x")) * x.at("x_k");
  return linear(square(relu(linear(mixed, x.at("wk")))), x.at("wv"));
}

/// One number per channel (axis 1), broadcast to x [N, C, ...].
Tensor per_channel(const Tensor& c, const Tensor& x) {
  Shape shape = {c.numel()};
  for (int axis = 2; axis < x.rank(); ++axis) shape.push_back(1);
  return reshape(c, shape);
}

Tensor group_norm(Params p, In in) {
  const Tensor x = in.at("x");
  const Tensor z = reshape(
      layer_norm(reshape(x, {x.size(0), p.at("groups").get<int64_t>(), -1}), {}, {}, p.at("eps")), x.shape());
  return z * per_channel(in.at("gamma"), x) + per_channel(in.at("beta"), x);
}

Tensor batch_norm(Params p, In in) {
  const Tensor x = in.at("x");
  const std::string output = p.at("output");
  const bool training = p.at("training");
  Axes axes = {0};
  for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  const auto running = [&](const char* name, const Tensor& batch) {
    const double momentum = p.at("momentum");
    return (1 - momentum) * in.at(name) + momentum * batch;
  };
  if (output == "running_mean") return running("running_mean", mean(x, axes));
  if (output == "running_var") return running("running_var", var(x, axes, 1));
  const Tensor center = training ? mean(x, axes) : in.at("running_mean");
  const Tensor spread = training ? var(x, axes) : in.at("running_var");
  const Tensor z = (x - per_channel(center, x)) * per_channel(rsqrt(spread + p.at("eps").get<double>()), x);
  return z * per_channel(in.at("gamma"), x) + per_channel(in.at("beta"), x);
}

Tensor ada_norm(Params p, In x) {
  const double c = p.at("c"), k = p.at("k");
  const Tensor y = layer_norm(x.at("x"), {}, {}, p.at("eps"));
  return detach(c * (1 - k * y)) * y;
}

Tensor power_norm_v(Params p, In x) {
  const Tensor size = mean(square(x.at("x")), {0, 1});
  return x.at("x") * rsqrt(size + p.at("eps").get<double>()) * x.at("gamma") + x.at("beta");
}

Tensor lora(Params p, In x) {
  const Tensor a = x.at("a"), b = x.at("b");
  const double scale = p.at("alpha").get<double>() / static_cast<double>(a.size(0));
  if (p.at("output") == "merged_weight") return x.at("w") + scale * matmul(b, a);
  return linear(x.at("x"), x.at("w"), x.at("bias")) + scale * linear(linear(x.at("x"), a), b);
}

Tensor drop_path(Params p, In x) {
  const double rate = p.at("rate");
  if (!p.at("training").get<bool>()) return x.at("x");
  const Tensor keep = reshape(cast(x.at("keep"), x.at("x").dtype()), {-1, 1, 1});
  return x.at("x") * keep / (1 - rate);
}

/// The integers 0 .. n − 1, the targets of a contrastive loss.
Tensor diagonal_targets(const Tensor& scores) {
  return arange(0, static_cast<double>(scores.size(0)), 1, DType::int64, scores.device());
}

Tensor info_nce(Params p, In x) {
  const double temperature = p.at("temperature"), margin = p.value("margin", 0.0);
  const Tensor a = l2_normalize(x.at("a")), b = l2_normalize(x.at("b"));
  const auto direction = [&](const Tensor& from, const Tensor& to, const Tensor& more) {
    Tensor scores = matmul(from, transpose(to));
    scores = scores - margin * one_hot(diagonal_targets(scores), scores.size(1), scores.dtype());
    if (more.defined()) scores = concat({scores, matmul(from, transpose(l2_normalize(more)))}, 1);
    return cross_entropy(scores / temperature, diagonal_targets(scores));
  };
  const Tensor forward = direction(a, b, x.get("negatives"));
  return p.at("symmetric").get<bool>() ? (forward + direction(b, a, {})) / 2 : forward;
}

Tensor margin_softmax(Params p, In x) {
  const double m = p.at("margin"), scale = p.at("scale");
  const std::string kind = p.at("kind");
  const Tensor cosine = matmul(l2_normalize(x.at("x")), transpose(l2_normalize(x.at("w"))));
  Tensor target = cosine - m;
  if (kind == "arcface") {  // cos(θ + m), if θ + m < π
    const Tensor turned = cosine * std::cos(m) - sqrt(1 - square(cosine)) * std::sin(m);
    target = where(greater(cosine, full({1}, -std::cos(m), cosine.dtype(), cosine.device())), turned,
                   cosine - m * std::sin(m));
  } else {
    check(kind == "am_softmax", "the margin {} is not known", kind);
  }
  const Tensor chosen = one_hot(x.at("target"), cosine.size(1), cosine.dtype());
  return cross_entropy(scale * (chosen * target + (1 - chosen) * cosine), x.at("target"));
}

Tensor mixture_of_softmaxes(Params p, In x) {
  const Tensor in = x.at("x");
  const Tensor prior = log_softmax(linear(in, x.at("w_prior")));
  const Tensor hidden =
      tanh(reshape(linear(in, x.at("w_h")), {in.size(0), p.at("mixtures").get<int64_t>(), -1}));
  return log_sum_exp(unsqueeze(prior, -1) + log_softmax(linear(hidden, x.at("w_out"))), {1});
}

Tensor pointer_generator(Params p, In x) {
  const Tensor g = unsqueeze(sigmoid(x.at("gate")), -1), copied = (1 - g) * softmax(x.at("scores"));
  const Tensor words = pad(g * softmax(x.at("logits")), {0, 0, 0}, {0, 0, p.at("extra").get<int64_t>()});
  return scatter_add(words, 2, contiguous(expand(unsqueeze(x.at("source"), 1), copied.shape())), copied);
}

Tensor coverage_loss(Params, In x) {
  const Tensor a = softmax(x.at("scores"));
  return sum(minimum(a, cumsum(a, 1, true)), {-1});
}

}  // namespace

const TruthAdapters kCompositionTruthAdapters = {
    {"ada_norm", ada_norm},
    {"batch_norm", batch_norm},
    {"coverage_loss", coverage_loss},
    {"deep_norm",
     [](Params p, In x) {
       const double alpha = p.at("alpha");
       return layer_norm(alpha * x.at("x") + x.at("f"), x.at("gamma"), x.at("beta"), p.at("eps"));
     }},
    {"drop_path", drop_path},
    {"group_norm", group_norm},
    {"info_nce", info_nce},
    {"laser_output",
     [](Params, In x) { return log_sum_exp(unsqueeze(log_softmax(x.at("logits")), -1) + x.at("v"), {-2}); }},
    {"lora_linear", lora},
    {"margin_softmax", margin_softmax},
    {"mixture_of_softmaxes", mixture_of_softmaxes},
    {"perplexity",
     [](Params p, In x) {
       return exp(cross_entropy(x.at("logits"), x.at("target"), {.ignore_index = p.at("ignore_index")}));
     }},
    {"pointer_generator", pointer_generator},
    {"power_norm_v", power_norm_v},
    {"rwkv4_channel_mix", rwkv4_channel_mix},
    {"rwkv7_channel_mix", rwkv7_channel_mix},
    {"scale_norm", [](Params, In x) { return x.at("g") * l2_normalize(x.at("x")); }},
    {"sparse_attention", sparse_attention},
    {"sparse_mask", sparse_mask},
    {"universal_coordinates",
     [](Params p, In) {
       const int64_t n = p.at("n"), d = p.at("d"), step = p.at("step");
       return nn::sinusoidal_positions(n, d, 1e4, 0, DType::float64) +
              nn::sinusoidal_positions(1, d, 1e4, step, DType::float64);
     }},
};

}  // namespace vitrine::test
