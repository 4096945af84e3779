// Values and gradients against reference cases: which function answers to which op of the manifest.
#include <doctest/doctest.h>

#include <cmath>

#include "nn/attention/attention.h"
#include "nn/multi_head_attention.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/view.h"
#include "tests/cases.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

/// An optional input.
Tensor find(const Tensors& x, const std::string& name) { return x.count(name) ? x.at(name) : Tensor(); }

AttentionOptions options_of(const Json& p, const Tensors& x, AttentionRead read) {
  AttentionOptions o;
  o.read = p.value("laser", false) ? AttentionRead::laser : read;
  o.scale = p.value("scale", 0.0);
  o.causal = p.value("causal", false);
  o.softcap = p.value("softcap", 0.0);
  if (p.contains("window")) o.left = p.at("window")[0], o.right = p.at("window")[1];
  if (p.value("alibi", false)) o.slopes = nn::alibi_slopes(x.at("q").size(1));
  o.allowed = find(x, "mask");
  o.bias = find(x, "bias");
  return o;
}

using Adapter = Tensor (*)(const Json& params, const Tensors& x);

Tensor activation(const Json& p, const Tensors& x) {
  const std::string kind = p.at("kind");
  const Tensor& in = x.at("x");
  if (kind == "elu_plus_one") return elu(in) + 1;
  if (kind == "gelu_erf") return gelu(in);
  return kind == "silu" ? silu(in) : gelu_tanh(in);
}

/// An attention module with these gains and temperatures on prepared heads.
Tensor run(nn::AttentionSetting s, const Json& p, const Tensors& x) {
  if (p.contains("scale")) s.scale = nn::AttentionSetting::Scale::constant, s.constant = p.at("scale");
  if (p.value("laser", false)) s.read = AttentionRead::laser;
  nn::Attention attention(s, x.at("q").size(1), x.at("q").size(3), 64);
  if (x.count("gq")) attention.query_gain = Parameter(x.at("gq")), attention.key_gain = Parameter(x.at("gk"));
  if (x.count("w")) attention.log_temperature = Parameter(x.at("w"));
  const nn::AttentionMask mask{.causal = p.value("causal", false)};
  return attention.forward(x.at("q"), attention.prepare_keys(x.at("k"), 0), x.at("v"), mask);
}

Tensor multi_head(const Json& p, const Tensors& x) {
  nn::MultiHeadOptions o;
  o.width = x.at("x").size(-1), o.heads = p.at("heads");
  if (p.at("laser")) o.attention = "laser";
  nn::MultiHeadAttention module(o);
  module.query_key_value.weight = Parameter(concat({x.at("wq"), x.at("wk"), x.at("wv")}, 0));
  module.query_key_value.bias = Parameter(concat({x.at("bq"), x.at("bk"), x.at("bv")}, 0));
  module.out.weight = Parameter(x.at("wo")), module.out.bias = Parameter(x.at("bo"));
  const nn::AttentionMask mask{.causal = p.value("causal", false)};
  return x.count("ctx") ? module.cross(x.at("x"), x.at("ctx"), mask) : module.forward(x.at("x"), mask);
}

const std::map<std::string, Adapter> kAdapters = {
    {"attention",
     [](const Json& p, const Tensors& x) {
       return attention(x.at("q"), x.at("k"), x.at("v"), options_of(p, x, AttentionRead::mean));
     }},
    {"laser",
     [](const Json& p, const Tensors& x) {
       return attention(x.at("q"), x.at("k"), x.at("v"), options_of(p, x, AttentionRead::laser));
     }},
    {"cosine_attention",
     [](const Json& p, const Tensors& x) {
       nn::AttentionSetting s;
       s.score = nn::AttentionSetting::Score::cosine;
       return run(s, p, x);
     }},
    {"qk_norm_attention",
     [](const Json& p, const Tensors& x) {
       nn::AttentionSetting s;
       s.qk_norm =
           p.at("kind") == "rms" ? nn::AttentionSetting::QkNorm::rms : nn::AttentionSetting::QkNorm::layer;
       s.qk_norm_eps = p.at("eps");
       return run(s, p, x);
     }},
    {"per_dim_temperature_attention",
     [](const Json& p, const Tensors& x) {
       nn::AttentionSetting s;
       s.temperature = true;
       return run(s, p, x);
     }},
    {"multi_head_attention", multi_head},
    {"rope",
     [](const Json& p, const Tensors& x) {
       const nn::RotaryOptions o{p.at("base"), p.value("rotary_dim", int64_t{0}), p.at("interleaved")};
       return x.count("positions") ? nn::rotate(x.at("x"), x.at("positions"), o)
                                   : nn::rotate(x.at("x"), 0, o);
     }},
    {"sinusoidal",
     [](const Json& p, const Tensors&) {
       return nn::sinusoidal_positions(p.at("n"), p.at("d"), p.at("base"), p.at("offset"), DType::float64);
     }},
    {"activation", activation},
    {"layer_norm",
     [](const Json& p, const Tensors& x) {
       return layer_norm(x.at("x"), find(x, "gamma"), find(x, "beta"), p.at("eps"));
     }},
    {"rms_norm",
     [](const Json& p, const Tensors& x) { return rms_norm(x.at("x"), x.at("gamma"), p.at("eps")); }},
    {"swiglu",
     [](const Json&, const Tensors& x) {
       return matmul(silu(matmul(x.at("x"), x.at("w"))) * matmul(x.at("x"), x.at("v")), x.at("w2"));
     }},
    {"ffn_relu",
     [](const Json&, const Tensors& x) {
       return matmul(relu(matmul(x.at("x"), x.at("w1")) + x.at("b1")), x.at("w2")) + x.at("b2");
     }},
    {"cross_entropy",
     [](const Json& p, const Tensors& x) {
       CrossEntropyOptions o;
       o.label_smoothing = p.at("smoothing");
       o.ignore_index = p.at("ignore_index");
       return reshape(cross_entropy(x.at("logits"), x.at("target"), o), {1});
     }},
    {"alibi_slopes", [](const Json& p, const Tensors&) { return nn::alibi_slopes(p.at("heads")); }},
};

}  // namespace

TEST_CASE("reference cases: values and gradients at 1e-9") {
  const auto skips = read_skips("tests/nn/truth_cases_skips.txt");
  int run = 0;
  for (const TruthCase& c : truth_cases()) {
    if (skips.count(c.op)) continue;
    INFO(c.name);
    REQUIRE_MESSAGE(kAdapters.count(c.op), "the op ", c.op, " is neither run nor skipped with a reason");
    const auto f = [&](const Tensors& x) { return kAdapters.at(c.op)(c.params, x); };
    CHECK(check_truth(c, f) == "");
    CHECK(check_float32(c, f) == "");
    ++run;
  }
  if (has_default_cases()) CHECK(run == 60);
}
