// The cases of encoder-decoder attention with one head, and the buckets of T5's relative positions.
#include <cmath>

#include "core/creation.h"
#include "nn/attention/positions.h"
#include "nn/attention/scores.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/nn/truth_adapters.h"

namespace vitrine::test {
namespace {

/// softmax(scores)·values and the weights, where the case's mask hides keys.
Outputs read(const Tensor& scores, const Tensor& values, In x) {
  const Tensor weights = softmax(x.has("mask") ? where(x.at("mask"), scores, -INFINITY) : scores);
  return {matmul(weights, values), weights};
}

Outputs bahdanau(Params, In x) {
  return read(nn::additive_scores(x.at("query"), x.at("keys"), x.at("wq"), x.at("wk"), x.at("w"), x.get("b")),
              x.at("values"), x);
}

Outputs luong(Params p, In x) {
  const std::string score = p.at("score");
  const Tensor h = x.at("h"), source = x.at("hs");
  if (score == "dot") return read(matmul(h, transpose(source)), source, x);
  if (score == "general") return read(nn::bilinear_scores(h, source, x.at("w")), source, x);
  check(score == "concat", "the score {} is not known", score);
  const Tensor w = x.at("w");
  return read(nn::additive_scores(h, source, slice(w, 1, 0, h.size(-1)), slice(w, 1, h.size(-1), w.size(1)),
                                  x.at("va")),
              source, x);
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
    {"bahdanau", bahdanau}, {"luong", luong}, {"t5_bucket", t5_bucket}};

}  // namespace vitrine::test
