// Patterns and the channel mixing of an RWKV, and formulas that are inside a module, such as the
// mixture of a pointer-generator: a few ops write them again, so these cases check the ops.
#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "nn/attention/mask.h"
#include "nn/attention/patterns.h"
#include "nn/recurrent/channel_mix.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/matmul.h"
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
  return nn::block_pattern(size, x.at("layout"), number("block"));
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

Tensor channel_mix(nn::FeedForwardKind kind, In x, const char* mix_key) {
  const int64_t width = x.at("x").size(-1);
  nn::ChannelMix part(kind, {.width = width, .bias = nn::Bias::no}, x.at("wk").size(0));
  part.to(x.at("x").device());
  part.mix_key = Parameter(x.at(mix_key));
  part.key.weight = Parameter(x.at("wk")), part.value.weight = Parameter(x.at("wv"));
  if (part.receptance) {
    part.mix_receptance = Parameter(x.at("mu_r"));
    part.receptance->weight = Parameter(x.at("wr"));
  }
  return part.forward(x.at("x"), {.mask = {.causal = true}});
}

Tensor rwkv4_channel_mix(Params, In x) { return channel_mix(nn::FeedForwardKind::rwkv4, x, "mu_k"); }

Tensor rwkv7_channel_mix(Params, In x) { return channel_mix(nn::FeedForwardKind::rwkv7, x, "x_k"); }

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
    {"coverage_loss", coverage_loss},
    {"perplexity",
     [](Params p, In x) {
       return exp(cross_entropy(x.at("logits"), x.at("target"), {.ignore_index = p.at("ignore_index")}));
     }},
    {"pointer_generator", pointer_generator},
    {"rwkv4_channel_mix", rwkv4_channel_mix},
    {"rwkv7_channel_mix", rwkv7_channel_mix},
    {"sparse_attention", sparse_attention},
    {"sparse_mask", sparse_mask},
};

}  // namespace vitrine::test
