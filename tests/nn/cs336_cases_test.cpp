// Stanford's course CS336: what PyTorch gave there for a norm, a feed-forward layer and attention.
#include <doctest/doctest.h>

#include <cmath>
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

using In = const Inputs&;

Tensor weight(In x, const std::string& name) { return x.at("weight:" + name); }

Tensor masked_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& allowed) {
  AttentionOptions options;
  options.allowed = allowed;
  return attention(q, k, v, options);
}

/// [B, T, D] as one head: [B, 1, T, D].
Tensor one_head(const Tensor& x) { return reshape(x, {x.size(0), 1, x.size(1), x.size(2)}); }

std::string head_weight(const char* part, int head) {
  return fmt::format("weight:{}_heads.{}.weight", part, head);
}

Tensor causal_heads(In x) {
  std::vector<Tensor> rows;
  int heads = 0;
  while (x.has(head_weight("q", heads))) ++heads;
  for (const char* part : {"q", "k", "v"})
    for (int head = 0; head < heads; ++head) rows.push_back(x.at(head_weight(part, head)));
  const Tensor in = x.at("input");
  nn::MultiHeadAttention module(
      {.width = in.size(-1), .heads = heads, .context = in.size(1), .bias = nn::Bias::no});
  module.query_key_value.weight = Parameter(concat(rows, 0));
  module.out.weight = Parameter(weight(x, "output_proj.weight"));
  return module.forward(in, {.causal = true});
}

const std::map<std::string, Tensor (*)(In)> kAdapters = {
    {"rmsnorm", [](In x) { return rms_norm(x.at("input"), weight(x, "weight"), 1e-5); }},
    {"feedforward_gelu",
     [](In x) {
       return linear(gelu(linear(x.at("input"), weight(x, "w1.weight"))), weight(x, "w2.weight"));
     }},
    {"sdpa_mask",
     [](In x) {
       return masked_attention(x.at("query"), x.at("key"), x.at("value"), logical_not(x.at("mask")));
     }},
    {"sdpa_3d_unequal_lengths",
     [](In x) {
       const Tensor y = masked_attention(one_head(x.at("query")), one_head(x.at("key")),
                                         one_head(x.at("value")), one_head(x.at("mask")));
       return reshape(y, x.at("expected").shape());
     }},
    {"causal_mha_per_head", causal_heads},
};

}  // namespace

TEST_CASE("reference cases of CS336") {
  const auto manifest = read_json("cs336_cases/manifest.json");
  if (!manifest) return;
  int run = 0;
  for (const Json& c : manifest->at("cases")) {
    const std::string name = c.at("case");
    INFO(name);
    REQUIRE_MESSAGE(kAdapters.count(name), "no adapter runs this case");
    const auto file = *data_directory() / "cs336_cases" / c.at("file").get<std::string>();
    const Inputs x(read_safetensors(file.string()).tensors);
    const Tensor got = kAdapters.at(name)(x), want = x.at("expected");
    CHECK_NOTHROW(x.check_all_read(name));
    REQUIRE(got.shape() == want.shape());
    const auto a = got.values(), b = want.values();
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i)
      worst = a[i] == b[i] ? worst : std::fmax(worst, std::isfinite(a[i]) ? std::fabs(a[i] - b[i]) : 1e30);
    CHECK(worst <= c.at("atol").get<double>());
    ++run;
  }
  if (is_default_data_directory()) CHECK(run == 5);
}
