// A sliding window: a query sees its own position and the W − 1 before it.
#include "nn/attention/parts/rows.h"

namespace vitrine::nn::parts {
namespace {

class Window : public AttentionPart {
 public:
  explicit Window(int64_t width) : width_(width) {}
  bool fold(AttentionOptions&, const FoldCall&) const override { return true; }
  AttentionMask restrict(AttentionMask mask, int64_t queries, int64_t keys, Device device) const override {
    return mask.within(width_ - 1, 0, queries, keys, device);
  }

 private:
  int64_t width_;
};

}  // namespace

AttentionPartRow window() {
  return {.name = "window",
          .stage = Stage::mask,
          .help = "window=w: a query sees its own position and the w − 1 positions before it",
          .formula = "key j is visible if i − w < j ≤ i",
          .source = "Child et al. 2019; Beltagy et al. 2020",
          .linear_as = "window=32",
          .options = {{.name = "width", .help = "the number of keys, w", .least = 1, .whole = true}},
          .make = [](const AttentionSizes&, const PartValues& values) {
            return std::make_unique<Window>(values.whole("width"));
          }};
}

}  // namespace vitrine::nn::parts
