// The cases of attentions of linear cost and of low rank.
#include "nn/attention/linear.h"
#include "nn/attention/linformer.h"
#include "nn/attention/performer.h"
#include "nn/attention/retention.h"
#include "ops/join.h"
#include "ops/view.h"
#include "tests/nn/truth_adapters.h"

namespace vitrine::test {
namespace {

nn::AttentionSizes sizes_of(In x) { return {x.at("q").size(1), x.at("q").size(3), x.at("k").size(2)}; }

Tensor linear_attention(Params p, In x) {
  check(p.at("eps").get<double>() == 0, "the weights of the library sum to 1, without eps");
  const nn::LinearAttention module(nn::parse_attention("standard"), sizes_of(x));
  return module.forward(x.at("q"), x.at("k"), x.at("v"), {.causal = p.at("causal")});
}

Tensor performer(Params p, In x) {
  nn::Performer module(nn::parse_attention("standard"), sizes_of(x));
  module.projection = x.at("proj");
  return module.forward(x.at("q"), x.at("k"), x.at("v"), {.causal = p.at("causal")});
}

Tensor linformer(Params, In x) {
  nn::Linformer module(nn::parse_attention("standard"), sizes_of(x), x.at("e").size(0));
  module.key_projection = Parameter(x.at("e")), module.value_projection = Parameter(x.at("f"));
  return module.forward(x.at("q"), x.at("k"), x.at("v"), {});
}

Tensor multi_scale_retention(Params p, In x) {
  check(p.at("eps").get<double>() == 1e-5, "the norm of the library has eps = 1e-5");
  nn::Retention module({.width = x.at("x").size(2), .heads = p.at("heads"), .bias = nn::Bias::no},
                       p.at("base"));
  module.query_key_value.weight = Parameter(concat({x.at("wq"), x.at("wk"), x.at("wv")}, 0));
  module.gate->weight = Parameter(x.at("wg")), module.out.weight = Parameter(x.at("wo"));
  return module.forward(x.at("x"), {.mask = {.causal = true}});
}

}  // namespace

const TruthAdapters kLinearTruthAdapters = {
    {"linear_attention", linear_attention},
    {"performer", performer},
    {"linformer", linformer},
    {"multi_scale_retention", multi_scale_retention},
};

}  // namespace vitrine::test
