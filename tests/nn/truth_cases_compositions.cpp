// Mechanisms of the second set without a module in the library, each composed of a few ops: the
// cases check that the ops compose. A mechanism that is added to the library replaces its lines
// here.
#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "nn/attention/multi_head.h"
#include "nn/attention/patterns.h"
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

Tensor persistent_memory(Params p, In x) {
  const Tensor q = x.at("q");
  const auto with_memory = [&](const char* memory, const char* rest) {
    const Tensor m = x.at(memory), r = x.at(rest);
    return concat({expand(m, {r.size(0), m.size(0), m.size(1), m.size(2)}), r}, 2);
  };
  const Tensor k = with_memory("mem_k", "k"), v = with_memory("mem_v", "v");
  AttentionOptions o;
  o.causal = p.at("causal");  // the last query is aligned with the last key, so all see the memory
  return attention(q, k, v, o);
}

Tensor memory_tokens(Params p, In x) {
  const Tensor own = x.at("x"), memory = x.at("memory");
  const Tensor all = concat({expand(memory, {own.size(0), memory.size(0), memory.size(1)}), own}, 1);
  nn::MultiHeadAttention module(
      {.width = all.size(-1), .heads = p.at("heads"), .context = all.size(1), .bias = nn::Bias::no});
  module.to(all.device());
  module.query_key_value.weight = Parameter(concat({x.at("wq"), x.at("wk"), x.at("wv")}, 0));
  module.out.weight = Parameter(x.at("wo"));
  return module.forward(all, {.mask = {.causal = p.at("causal").get<bool>()}});
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

Tensor reversible_block(Params, In x) {
  const auto halves = split(x.at("x"), x.at("x").size(-1) / 2, -1);
  const Tensor y1 = halves[0] + tanh(linear(halves[1], x.at("wf"), x.at("bf")));
  return concat({y1, halves[1] + tanh(linear(y1, x.at("wg"), x.at("bg")))}, -1);
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

/// softmax over the visible elements of the last axis.
Tensor visible_softmax(const Tensor& scores, const Tensor& visible) {
  return softmax(where(expand(unsqueeze(visible, 1), scores.shape()), scores, -INFINITY));
}

Tensor esim_alignment(Params p, In x) {
  const bool is_a = p.at("side") == "a";
  const Tensor own = x.at(is_a ? "a" : "b"), other = x.at(is_a ? "b" : "a");
  const Tensor c =
      matmul(visible_softmax(matmul(own, transpose(other)), x.at(is_a ? "b_mask" : "a_mask")), other);
  return concat({own, c, own - c, own * c}, -1);
}

Tensor bidaf_attention(Params, In x) {
  const Tensor h = x.at("h"), u = x.at("u");
  const auto w = split(x.at("w"), h.size(-1), 0);
  const Tensor s =
      unsqueeze(matmul(h, w[0]), 2) + unsqueeze(matmul(u, w[1]), 1) + matmul(h * w[2], transpose(u));
  const Tensor read = matmul(visible_softmax(s, x.at("u_mask")), u);
  const Tensor visible = where(expand(unsqueeze(x.at("u_mask"), 1), s.shape()), s, -INFINITY);
  const Tensor weights = visible_softmax(unsqueeze(max(visible, {2}), 1), x.at("h_mask"));
  return concat({h, read, h * read, h * matmul(weights, h)}, -1);
}

}  // namespace

const TruthAdapters kCompositionTruthAdapters = {
    {"bidaf_attention", bidaf_attention},
    {"coverage_loss", coverage_loss},
    {"esim_alignment", esim_alignment},
    {"memory_tokens", memory_tokens},
    {"perplexity",
     [](Params p, In x) {
       return exp(cross_entropy(x.at("logits"), x.at("target"), {.ignore_index = p.at("ignore_index")}));
     }},
    {"persistent_memory_attention", persistent_memory},
    {"pointer_generator", pointer_generator},
    {"reversible_block", reversible_block},
    {"rwkv4_channel_mix", rwkv4_channel_mix},
    {"rwkv7_channel_mix", rwkv7_channel_mix},
    {"sparse_attention", sparse_attention},
    {"sparse_mask", sparse_mask},
};

}  // namespace vitrine::test
