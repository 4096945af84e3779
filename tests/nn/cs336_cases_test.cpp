// Stanford's course CS336: what PyTorch gave there for a norm, a feed-forward layer and attention.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "core/safetensors.h"
#include "nn/multi_head_attention.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/view.h"
#include "tests/cases.h"
#include "tests/data.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

Tensor weight(const Tensors& x, const std::string& name) { return x.at("weight:" + name); }

Tensor masked_attention(const Tensors& x, const Tensor& allowed) {
  AttentionOptions options;
  options.allowed = allowed;
  return attention(x.at("query"), x.at("key"), x.at("value"), options);
}

/// [B, T, D] as one head: [B, 1, T, D].
Tensor one_head(const Tensor& x) { return reshape(x, {x.size(0), 1, x.size(1), x.size(2)}); }

Tensor causal_heads(const Tensors& x) {
  std::vector<Tensor> rows;
  for (const char* part : {"q", "k", "v"})
    for (const char* head : {"0", "1"})
      rows.push_back(weight(x, std::string(part) + "_heads." + head + ".weight"));
  nn::MultiHeadAttention module({.width = 64, .heads = 2, .context = 128, .bias = nn::Bias::no});
  module.query_key_value.weight = Parameter(concat(rows, 0));
  module.out.weight = Parameter(weight(x, "output_proj.weight"));
  return module.forward(x.at("input"), {.causal = true});
}

const std::map<std::string, Tensor (*)(const Tensors&)> kAdapters = {
    {"rmsnorm", [](const Tensors& x) { return rms_norm(x.at("input"), weight(x, "weight"), 1e-5); }},
    {"feedforward_gelu",
     [](const Tensors& x) {
       return linear(gelu(linear(x.at("input"), weight(x, "w1.weight"))), weight(x, "w2.weight"));
     }},
    {"sdpa_mask", [](const Tensors& x) { return masked_attention(x, logical_not(x.at("mask"))); }},
    {"sdpa_3d_unequal_lengths",
     [](const Tensors& x) {
       const Tensors heads = {{"query", one_head(x.at("query"))},
                              {"key", one_head(x.at("key"))},
                              {"value", one_head(x.at("value"))}};
       return reshape(masked_attention(heads, one_head(x.at("mask"))), x.at("query").shape());
     }},
    {"causal_mha_per_head", causal_heads},
};

}  // namespace

TEST_CASE("reference cases of CS336") {
  const auto directory = data_directory();
  if (!directory) return;
  const auto folder = *directory / "cs336_cases";
  std::ifstream file(folder / "manifest.json");
  REQUIRE(file.good());
  int run = 0;
  const Json manifest = Json::parse(file);
  for (const Json& c : manifest.at("cases")) {
    const std::string name = c.at("case");
    INFO(name);
    REQUIRE_MESSAGE(kAdapters.count(name), "no adapter runs this case");
    const Tensors x = read_safetensors((folder / c.at("file").get<std::string>()).string()).tensors;
    const Tensor got = kAdapters.at(name)(x), want = x.at("expected");
    REQUIRE(got.shape() == want.shape());
    const auto a = got.values(), b = want.values();
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i)
      worst = a[i] == b[i] ? worst : std::fmax(worst, std::isfinite(a[i]) ? std::fabs(a[i] - b[i]) : 1e30);
    CHECK(worst <= c.at("atol").get<double>());
    ++run;
  }
  if (has_default_cases()) CHECK(run == 5);
}
