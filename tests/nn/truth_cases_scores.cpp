// The cases of attention with one head: from decoder to encoder, and with a learned query; and the
// buckets of T5's relative positions.
#include <cmath>
#include <map>

#include "core/creation.h"
#include "nn/attention/luong.h"
#include "nn/attention/pooling.h"
#include "nn/attention/positions.h"
#include "nn/attention/scores.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/nn/truth_adapters.h"

namespace vitrine::test {
namespace {

Outputs bahdanau(Params, In x) {
  const Tensor own =
      nn::additive_scores(x.at("query"), x.at("keys"), x.at("wq"), x.at("wk"), x.at("w"), x.get("b"));
  const Tensor weights = softmax(x.has("mask") ? where(x.at("mask"), own, -INFINITY) : own);
  return {matmul(weights, x.at("values")), weights};
}

/// The module with the parameters of the case.
nn::LuongAttention luong_module(In x, nn::LuongScore score, nn::LuongView view, int64_t half_window) {
  nn::LuongAttention module({.width = x.at("h").size(-1),
                             .source_width = x.at("hs").size(-1),
                             .score = score,
                             .view = view,
                             .half_window = half_window});
  for (const auto& [given, own] : {std::pair{"w", &module.score_weight},
                                   {"va", &module.score_vector},
                                   {"wp", &module.position_weight},
                                   {"vp", &module.position_vector}})
    if (x.has(given)) *own = Parameter(x.at(given));
  return module;
}

/// The cases of a mask have one row for all queries, [B, 1, S].
Tensor visible(In x) { return x.has("mask") ? select(x.at("mask"), 1, 0) : Tensor(); }

Outputs luong(Params p, In x) {
  const std::string score = p.at("score");
  const std::map<std::string, nn::LuongScore> scores = {
      {"dot", nn::LuongScore::dot}, {"general", nn::LuongScore::general}, {"concat", nn::LuongScore::concat}};
  const auto r =
      luong_module(x, scores.at(score), nn::LuongView::global, 1).attend(x.at("h"), x.at("hs"), visible(x));
  return {r.context, r.weights};
}

Outputs luong_local(nn::LuongView view, Params p, In x) {
  const nn::LuongScore score = x.has("w") ? nn::LuongScore::general : nn::LuongScore::dot;
  const auto r = luong_module(x, score, view, p.at("half_window")).attend(x.at("h"), x.at("hs"));
  if (view == nn::LuongView::monotonic) return r.context;
  return {r.context, r.weights, r.position};
}

Tensor luong_attentional(Params, In x) {
  const Tensor context = x.at("context"), h = x.at("h"), weight = x.at("wc");
  nn::LuongAttention module(
      {.width = h.size(-1), .source_width = context.size(-1), .out_width = weight.size(0)});
  module.combine_weight = Parameter(weight);
  return module.combine(context, h);
}

Outputs han_pooling(Params, In x) {
  const Tensor w = x.at("w");
  nn::AttentionPooling module(w.size(1), w.size(0));
  module.hidden.weight = Parameter(w), module.hidden.bias = Parameter(x.at("b"));
  module.query = Parameter(x.at("u"));
  const auto r = module.attend(x.at("h"), x.get("mask"));
  return {r.y, r.weights};
}

Tensor t5_bucket(Params p, In x) {
  const nn::RelativeBuckets buckets{
      .count = p.at("buckets"), .max_distance = p.at("max_distance"), .bidirectional = p.at("bidirectional")};
  std::vector<int64_t> ids;
  for (const double relative : x.at("relative").values())
    ids.push_back(nn::relative_bucket(static_cast<int64_t>(relative), buckets));
  return tensor(ids, x.at("relative").shape(), DType::int64, x.at("relative").device());
}

}  // namespace

const TruthAdapters kScoreTruthAdapters = {
    {"bahdanau", bahdanau},
    {"luong", luong},
    {"luong_local_m", [](Params p, In x) { return luong_local(nn::LuongView::monotonic, p, x); }},
    {"luong_local_p", [](Params p, In x) { return luong_local(nn::LuongView::predictive, p, x); }},
    {"luong_attentional", luong_attentional},
    {"han_pooling", han_pooling},
    {"t5_bucket", t5_bucket}};

}  // namespace vitrine::test
