// The reference cases of attention with a limited view, of memories, and of two sequences that are
// compared.
#include "core/creation.h"
#include "nn/attention/alignment.h"
#include "nn/attention/composed.h"
#include "nn/attention/lsh.h"
#include "nn/attention/memory_tokens.h"
#include "nn/attention/multi_head.h"
#include "nn/attention/transformer_xl.h"
#include "nn/transformer/reversible.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/view.h"
#include "tests/nn/truth_adapters.h"

namespace vitrine::test {
namespace {

/// Replaces the parameters of a module, by the last word of their paths, by inputs of the case.
class Replace : public nn::Fields {
 public:
  Replace(In x, std::map<std::string, std::string> inputs) : x_(x), inputs_(std::move(inputs)) {}

 private:
  void on_parameter(const std::string& path, Parameter& parameter) override {
    parameter = Parameter(x_.at(inputs_.at(path.substr(path.rfind('.') + 1))));
  }
  In x_;
  std::map<std::string, std::string> inputs_;
};

/// A composed attention, with the parameters of the case. A context of 1 makes a share of the
/// context a number of positions.
Tensor attend(const std::string& name, In x, bool causal, std::map<std::string, std::string> inputs) {
  const Tensor q = x.at("q");
  nn::ComposedAttention module(nn::parse_attention(name), q.size(1), q.size(3), 1);
  module.to(q.device());
  Replace replace(x, std::move(inputs));
  module.fields(replace);
  return module.forward(q, x.at("k"), x.at("v"), {.causal = causal});
}

Tensor adaptive_span(Params p, In x) {
  return attend(fmt::format("adaptive_span=ramp={}", p.at("ramp").get<double>()), x, true, {{"share", "z"}});
}

Tensor persistent_memory(Params p, In x) {
  return attend(fmt::format("persistent={}", x.at("mem_k").size(1)), x, p.at("causal"),
                {{"keys", "mem_k"}, {"values", "mem_v"}});
}

Tensor memory_tokens(Params p, In x) {
  nn::MemoryTokens memory(x.at("memory").size(0), x.at("memory").size(1));
  memory.tokens = Parameter(x.at("memory"));
  const Tensor all = memory.before(x.at("x"));
  nn::MultiHeadAttention module(
      {.width = all.size(-1), .heads = p.at("heads"), .context = all.size(1), .bias = nn::Bias::no});
  module.to(all.device());
  module.query_key_value.weight = Parameter(concat({x.at("wq"), x.at("wk"), x.at("wv")}, 0));
  module.out.weight = Parameter(x.at("wo"));
  return module.forward(all, {.mask = {.causal = p.at("causal").get<bool>()}});
}

Tensor lsh(Params p, In x) {
  return nn::lsh_attention(
      x.at("qk"), x.at("v"), nn::lsh_buckets(x.at("qk"), x.at("rotations")),
      {.chunk = p.at("chunk"), .causal = p.at("causal"), .duplicates = p.at("duplicates")});
}

/// The case has one head and no axis for it.
Tensor transformer_xl(Params p, In x) {
  const auto head = [&](const char* name, int64_t axis) { return unsqueeze(x.at(name), axis); };
  const nn::ComposedAttention read({}, 1, x.at("q").size(-1), x.at("k").size(-2));
  return squeeze(nn::relative_attention(read, head("q", 1), head("k", 1), head("v", 1), head("r", 0),
                                        head("u", 0), head("w", 0), {.causal = p.at("causal").get<bool>()}),
                 {1});
}

Tensor reversible_block(Params, In x) {
  const auto halves = split(x.at("x"), x.at("x").size(-1) / 2, -1);
  const auto layer = [&](const char* w, const char* b) {
    return [w = x.at(w), b = x.at(b)](const Tensor& h) { return tanh(linear(h, w, b)); };
  };
  const auto y = nn::reversible({{layer("wf", "bf"), layer("wg", "bg")}}, halves[0], halves[1]);
  return concat({y.first, y.second}, -1);
}

Tensor esim_alignment(Params p, In x) {
  const bool is_a = p.at("side") == "a";
  const auto both = nn::soft_alignment(x.at("a"), x.at("b"), is_a ? Tensor() : x.at("a_mask"),
                                       is_a ? x.at("b_mask") : Tensor());
  return is_a ? both.a : both.b;
}

Tensor bidaf_attention(Params, In x) {
  nn::AttentionFlow module(x.at("h").size(-1));
  module.weight = Parameter(x.at("w"));
  return module.forward(x.at("h"), x.at("u"), x.at("h_mask"), x.at("u_mask"));
}

}  // namespace

const TruthAdapters kViewTruthAdapters = {
    {"adaptive_span", adaptive_span},
    {"bidaf_attention", bidaf_attention},
    {"esim_alignment", esim_alignment},
    {"lsh_attention", lsh},
    {"lsh_buckets", [](Params, In x) { return nn::lsh_buckets(x.at("qk"), x.at("rotations")); }},
    {"memory_tokens", memory_tokens},
    {"persistent_memory_attention", persistent_memory},
    {"reversible_block", reversible_block},
    {"transformer_xl_attention", transformer_xl},
};

}  // namespace vitrine::test
