// A learned bias for each distance of query and key (Raffel et al. 2020, T5).
#include <vector>

#include "core/creation.h"
#include "nn/attention/parts/rows.h"
#include "nn/attention/positions.h"
#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/index.h"

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
  Tensor modify_scores(const Tensor& scores) const override {
    const Tensor bias = embedding(table, buckets(scores.size(-2), scores.size(-1), scores.device()));
    return scores + cast(permute(bias, {2, 0, 1}), scores.dtype());
  }
  void fields(Fields& f) override { f("table", table); }

  Parameter table;  // [buckets, H]

 private:
  /// [Tq, Tk]: the bucket of each key; query i is at position i + Tk − Tq.
  Tensor buckets(int64_t queries, int64_t keys, Device device) const {
    std::vector<int64_t> of_relative;  // from the first key − the last query on
    for (int64_t relative = 1 - keys; relative < queries; ++relative)
      of_relative.push_back(relative_bucket(relative, buckets_));
    std::vector<int64_t> all;
    for (int64_t i = 0; i < queries; ++i) {
      const auto row = of_relative.begin() + (queries - 1 - i);
      all.insert(all.end(), row, row + keys);
    }
    return tensor(all, {queries, keys}, DType::int64, device);
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
