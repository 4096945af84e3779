// Attention in its kinds. Cases have any number of axes before the heads, [.., H, T, D], or just [T, D]; here they are one.
#include <cmath>

#include "core/creation.h"
#include "nn/attention/attention.h"
#include "nn/attention/multi_head.h"
#include "ops/attention.h"
#include "ops/join.h"
#include "ops/view.h"
#include "tests/nn/truth_adapters.h"

namespace vitrine::test {
namespace {

/// x [.., H, T, D] as [B, H, T, D], where B is the size of `batch`, to which its own first axes broadcast.
Tensor four_axes(const Tensor& x, const Shape& batch) {
  Shape own = x.shape();
  while (own.rank() < 3) own.insert(0, 1);
  Shape whole = batch, merged = {numel(batch)};
  for (int axis = own.rank() - 3; axis < own.rank(); ++axis)
    whole.push_back(own[axis]), merged.push_back(own[axis]);
  return reshape(expand(reshape(x, own), whole), merged);
}

/// What an attention case says, but for how its scores are made.
struct Heads {
  Tensor q, k, v;  ///< [B, H, T, D]
  nn::AttentionMask mask;
  Shape output;

  Heads(Params p, In x);
};

/// An end of a window; null is none.
int64_t limit(const Json& end) { return end.is_null() ? AttentionForm::kUnlimited : end.get<int64_t>(); }

nn::AttentionMask mask_of(Params p, In x, const Shape& batch) {
  const auto merged = [&](const Tensor& mask) {
    return mask.defined() && batch.rank() > 1 ? four_axes(mask, batch) : mask;
  };
  nn::AttentionMask mask;
  mask.causal = p.value("causal", false);
  if (p.has("window")) mask.left = limit(p.at("window")[0]), mask.right = limit(p.at("window")[1]);
  mask.allowed = merged(x.get("mask")), mask.bias = merged(x.get("bias"));
  return mask;
}

Heads::Heads(Params p, In x) {
  output = x.at("q").shape();
  Shape batch;
  for (int axis = 0; axis < output.rank() - 3; ++axis) batch.push_back(output[axis]);
  q = four_axes(x.at("q"), batch), k = four_axes(x.at("k"), batch), v = four_axes(x.at("v"), batch);
  mask = mask_of(p, x, batch);
  output.back() = v.size(-1);
}

TruthAdapter fused(AttentionRead read) {
  return [read](Params p, In x) {
    const Heads h(p, x);
    AttentionOptions o;
    o.read = p.value("laser", false) ? AttentionRead::laser : read;
    o.scale = p.value("scale", 0.0), o.softcap = p.value("softcap", 0.0);
    o.causal = h.mask.causal, o.left = h.mask.left, o.right = h.mask.right;
    o.allowed = h.mask.allowed, o.bias = h.mask.bias;
    if (p.value("alibi", false)) o.slopes = to(nn::alibi_slopes(h.q.size(1)), h.q.device());
    return reshape(attention(h.q, h.k, h.v, o), h.output);
  };
}

/// The parts of an attention by name that any of them may have. Without a scale it is `scale`.
nn::AttentionSetting setting_of(Params p, double scale) {
  nn::AttentionSetting s;
  s.scale = nn::AttentionSetting::Scale::constant, s.constant = p.value("scale", scale);
  s.softcap = p.value("softcap", 0.0), s.alibi = p.value("alibi", false);
  if (p.value("laser", false)) s.read = AttentionRead::laser;
  return s;
}

double root(int64_t size) { return 1 / std::sqrt(static_cast<double>(size)); }

/// The module on prepared heads, with the gains and temperatures of the case.
Tensor attend(const nn::AttentionSetting& s, const Heads& h, In x) {
  nn::Attention module(s, h.q.size(1), h.q.size(3), h.k.size(2));
  module.to(h.q.device());
  if (x.has("gq")) module.query_gain = Parameter(x.at("gq"));
  if (x.has("gk")) module.key_gain = Parameter(x.at("gk"));
  if (x.has("w")) module.log_temperature = Parameter(x.at("w"));
  return reshape(module.forward(h.q, module.prepare_keys(h.k, 0), h.v, h.mask), h.output);
}

Tensor cosine(Params p, In x) {
  const Heads h(p, x);
  nn::AttentionSetting s = setting_of(p, root(h.q.size(3)));
  s.score = nn::AttentionSetting::Score::cosine;
  return attend(s, h, x);
}

Tensor qk_norm(Params p, In x) {
  const Heads h(p, x);
  nn::AttentionSetting s = setting_of(p, root(h.q.size(3)));
  const std::string kind = p.at("kind");
  check(kind == "rms" || kind == "layer", "the norm {} is not known", kind);
  s.qk_norm = kind == "rms" ? nn::AttentionSetting::QkNorm::rms : nn::AttentionSetting::QkNorm::layer;
  s.qk_norm_eps = p.value("eps", s.qk_norm_eps);
  return attend(s, h, x);
}

/// The root is a part of the temperature here, so a scale comes on top of it.
Tensor per_dim_temperature(Params p, In x) {
  const Heads h(p, x);
  nn::AttentionSetting s = setting_of(p, 1);
  s.constant *= root(h.q.size(3));
  s.temperature = true;
  return attend(s, h, x);
}

/// Rows of q, k and v of what a case gives for each, as the one tensor that the module has; zeros where it gives a part only.
Tensor joined(In x, const std::string& name, const std::vector<int64_t>& rows) {
  std::vector<Tensor> parts;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string part = name + "qkv"[i];
    parts.push_back(x.has(part) ? x.at(part) : zeros({rows[i]}, x.at("x").dtype(), x.at("x").device()));
  }
  return concat(parts, 0);
}

Tensor multi_head(Params p, In x) {
  const auto batched = [](const Tensor& sequence) {
    return reshape(sequence, {-1, sequence.size(-2), sequence.size(-1)});
  };
  const Tensor in = batched(x.at("x"));
  nn::MultiHeadOptions o;
  o.width = in.size(-1), o.heads = p.at("heads"), o.bias = nn::Bias::no;
  const int64_t size = o.width / o.heads, key_rows = x.at("wk").size(0);
  o.key_heads = key_rows / size;
  nn::MultiHeadAttention module(o);
  module.to(in.device());
  module.attention = nn::Attention(setting_of(p, root(size)), o.heads, size, in.size(1));
  const std::vector<int64_t> rows = {o.width, key_rows, key_rows};
  module.query_key_value.weight = Parameter(joined(x, "w", rows));
  if (x.has("bq") || x.has("bk") || x.has("bv"))
    module.query_key_value.bias = Parameter(joined(x, "b", rows));
  module.out.weight = Parameter(x.at("wo"));
  if (x.has("bo")) module.out.bias = Parameter(x.at("bo"));
  const nn::AttentionMask mask = mask_of(p, x, {});
  const Tensor y = x.has("ctx") ? module.cross(in, batched(x.at("ctx")), mask) : module.forward(in, mask);
  return reshape(y, x.at("x").shape());
}

}  // namespace

const TruthAdapters kAttentionTruthAdapters = {
    {"attention", fused(AttentionRead::mean)},
    {"laser", fused(AttentionRead::laser)},
    {"cosine_attention", cosine},
    {"qk_norm_attention", qk_norm},
    {"per_dim_temperature_attention", per_dim_temperature},
    {"multi_head_attention", multi_head},
};

}  // namespace vitrine::test
