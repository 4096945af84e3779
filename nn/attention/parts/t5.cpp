// A learned bias for each distance of query and key (Raffel et al. 2020, T5).
#include <vector>

#include "core/creation.h"
#include "nn/attention/parts/rows.h"
#include "nn/attention/positions.h"
#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/toeplitz.h"
#include "ops/view.h"

namespace vitrine::nn::parts {
namespace {

/// Adds table[bucket(j − i), head] to the score of query i and key j. In a causal model half of the
/// buckets would be empty; `past` uses them all for keys before the query.
class T5 : public AttentionPart {
 public:
  T5(const AttentionSizes& sizes, const RelativeBuckets& buckets)
      : table(normal({buckets.count, sizes.heads}, 0.02)), buckets_(buckets) {
    relative_bucket(0, buckets);  // checks them
  }

  Traits traits() const override { return {.positions = true}; }
  bool fold(AttentionOptions& options, const FoldCall& call) const override {
    const Tensor own = bias(call.queries, call.keys, call.device);
    options.bias = options.bias.defined() ? options.bias + cast(own, options.bias.dtype()) : own;
    return true;
  }
  Tensor modify_scores(const Tensor& scores) const override {
    return scores + cast(bias(scores.size(-2), scores.size(-1), scores.device()), scores.dtype());
  }
  void fields(Fields& f) override { f("table", table); }

  Parameter table;  // [buckets, H]

 private:
  /// [H, Tq, Tk]; query i is at position i + Tk − Tq. The biases of all distances are a vector,
  /// which begins with the first key seen from the last query. The result is a view of it.
  Tensor bias(int64_t queries, int64_t keys, Device device) const {
    if (queries == 0 || keys == 0)
      return zeros({table.shape()[1], queries, keys}, accumulation_dtype(table.dtype()), device);
    std::vector<int64_t> of_relative;
    for (int64_t relative = 1 - keys; relative < queries; ++relative)
      of_relative.push_back(relative_bucket(relative, buckets_));
    const Tensor rows = embedding(table, index_tensor(of_relative, {queries + keys - 1}, device));
    return toeplitz(contiguous(cast(transpose(rows), accumulation_dtype(rows.dtype()))), queries);
  }

  RelativeBuckets buckets_;
};

}  // namespace

AttentionPartRow t5() {
  return {.name = "t5",
          .stage = Stage::modify,
          .help = "a learned bias for each distance of query and key, in buckets",
          .formula = "s_ij ← s_ij + b_h[bucket(j − i)]",
          .source = "Raffel et al. 2020",
          .rank = rank::distance,
          .owns = "a bias by distance",
          .options = {{.name = "buckets",
                       .help = "the number of buckets, even",
                       .initial = "32",
                       .least = 2,
                       .whole = true},
                      {.name = "distance",
                       .help = "from here on all distances share a bucket",
                       .initial = "128",
                       .least = 2,
                       .whole = true},
                      {.name = "direction",
                       .help = "past: all buckets are for keys before the query",
                       .words = {"past"},
                       .number = false,
                       .optional = true}},
          .make = [](const AttentionSizes& sizes, const PartValues& values) {
            return std::make_unique<T5>(sizes, RelativeBuckets{.count = values.whole("buckets"),
                                                               .max_distance = values.whole("distance"),
                                                               .bidirectional = !values.has("direction")});
          }};
}

}  // namespace vitrine::nn::parts
