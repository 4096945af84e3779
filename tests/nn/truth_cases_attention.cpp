// The attention cases. A case has any number of axes before the heads, [.., H, T, D], or only [T,
// D]; here these axes are merged into one.
#include <cmath>

#include "core/creation.h"
#include "nn/attention/composed.h"
#include "nn/attention/differential.h"
#include "nn/attention/multi_head.h"
#include "nn/attention/positions.h"
#include "ops/attention.h"
#include "ops/join.h"
#include "ops/view.h"
#include "tests/nn/truth_adapters.h"

namespace vitrine::test {
namespace {

/// x [.., H, T, D] as [B, H, T, D], where B is the size of `batch`. The leading axes of x broadcast
/// to `batch`.
Tensor four_axes(const Tensor& x, const Shape& batch) {
  Shape own = x.shape();
  while (own.rank() < 3) own.insert(0, 1);
  Shape whole = batch, merged = {numel(batch)};
  for (int axis = own.rank() - 3; axis < own.rank(); ++axis)
    whole.push_back(own[axis]), merged.push_back(own[axis]);
  return reshape(expand(reshape(x, own), whole), merged);
}

/// The options of an attention case, except those of its scores.
struct Heads {
  Tensor q, k, v;  ///< [B, H, T, D]
  nn::AttentionMask mask;
  Shape output;

  Heads(Params p, In x);
};

/// One end of a window; null: unlimited.
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

/// The parts that a case may have.
std::string name_of(Params p, double scale) {
  std::string name = fmt::format("scale={:.17g}", scale);
  if (const double cap = p.value("softcap", 0.0); cap > 0) name += fmt::format("+softcap={:.17g}", cap);
  if (p.value("alibi", false)) name += "+alibi";
  if (p.value("laser", false)) name += "+laser";
  return name;
}

double root(int64_t size) { return 1 / std::sqrt(static_cast<double>(size)); }

/// Replaces the parameters of a module by those of the case.
class FromCase : public nn::Fields {
 public:
  explicit FromCase(In x) : x_(x) {}

 private:
  void on_parameter(const std::string& path, Parameter& parameter) override {
    for (const auto& [given, own] :
         {std::pair{"gq", "query_gain"}, {"gk", "key_gain"}, {"w", "log_temperature"}, {"table", "table"}})
      if (x_.has(given) && path.ends_with(own)) parameter = Parameter(x_.at(given));
  }
  In x_;
};

/// Runs the module on prepared heads, with the parameters of the case.
Tensor attend(const std::string& name, const Heads& h, In x) {
  nn::ComposedAttention module(nn::parse_attention(name), h.q.size(1), h.q.size(3), h.k.size(2));
  module.to(h.q.device());
  FromCase from_case(x);
  module.fields(from_case);
  return reshape(module.forward(h.q, h.k, h.v, h.mask), h.output);
}

Tensor cosine(Params p, In x) {
  const Heads h(p, x);
  return attend("cosine+" + name_of(p, p.value("scale", root(h.q.size(3)))), h, x);
}

Tensor qk_norm(Params p, In x) {
  const Heads h(p, x);
  const std::string kind = p.at("kind");
  check(kind == "rms" || kind == "layer", "the norm {} is not known", kind);
  const std::string norm = kind == "rms" ? "qk_norm_rms" : "qk_norm";
  const std::string scale = name_of(p, p.value("scale", root(h.q.size(3))));
  return attend(fmt::format("{}={:.17g}+{}", norm, p.value("eps", 1e-6), scale), h, x);
}

/// Here the temperature contains the root, so it is multiplied by a scale.
Tensor per_dim_temperature(Params p, In x) {
  const Heads h(p, x);
  return attend("temperature+" + name_of(p, p.value("scale", 1.0) * root(h.q.size(3))), h, x);
}

Tensor t5_attention(Params p, In x) {
  const Heads h(p, x);
  const bool past = !p.at("bidirectional").get<bool>();
  return attend(fmt::format("{}+t5=buckets={}:distance={}{}", name_of(p, p.at("scale")),
                            x.at("table").size(0), p.at("max_distance").get<int64_t>(), past ? ":past" : ""),
                h, x);
}

Outputs differential(Params p, In x) {
  const Tensor q = concat({x.at("q1"), x.at("q2")}, -1), k = concat({x.at("k1"), x.at("k2")}, -1);
  nn::DifferentialAttention module(nn::parse_attention(p.value("laser", false) ? "laser" : "standard"),
                                   {q.size(1), q.size(3), k.size(2)},
                                   nn::DifferentialAttention::initial_for_layer(p.at("layer")), p.at("eps"));
  module.first_query = Parameter(x.at("lq1")), module.first_key = Parameter(x.at("lk1"));
  module.second_query = Parameter(x.at("lq2")), module.second_key = Parameter(x.at("lk2"));
  module.gain = Parameter(x.at("gamma"));
  return {module.forward(q, k, x.at("v"), {.causal = p.at("causal")}), module.lambda()};
}

/// The module's combined tensor of the rows for q, k and v, from the case's separate tensors; zeros
/// for missing ones.
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
  nn::MixerOptions o;
  o.width = in.size(-1), o.heads = p.at("heads"), o.bias = nn::Bias::no;
  const int64_t size = o.width / o.heads, key_rows = x.at("wk").size(0);
  o.key_heads = key_rows / size;
  o.context = in.size(1), o.name = name_of(p, p.value("scale", root(size)));
  nn::MultiHeadAttention module(o);
  module.to(in.device());
  const std::vector<int64_t> rows = {o.width, key_rows, key_rows};
  module.query_key_value.weight = Parameter(joined(x, "w", rows));
  if (x.has("bq") || x.has("bk") || x.has("bv"))
    module.query_key_value.bias = Parameter(joined(x, "b", rows));
  module.out.weight = Parameter(x.at("wo"));
  if (x.has("bo")) module.out.bias = Parameter(x.at("bo"));
  const nn::AttentionMask mask = mask_of(p, x, {});
  const Tensor y = x.has("ctx") ? module.forward(in, {.mask = mask, .source = batched(x.at("ctx"))})
                                : module.forward(in, {.mask = mask});
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
    {"t5_attention", t5_attention},
    {"differential_attention", differential},
};

}  // namespace vitrine::test
