// A sliding window: a query sees its own position and the W − 1 before it. Where later positions
// are not hidden, as in an encoder, it also sees the W − 1 after it.
#include <algorithm>

#include "nn/attention/parts/rows.h"

namespace vitrine::nn::parts {
namespace {

class Window : public AttentionPart {
 public:
  explicit Window(int64_t width) : width_(width) {}
  bool fold(AttentionOptions&, const FoldCall&) const override { return true; }
  AttentionMask restrict(AttentionMask mask, int64_t queries, int64_t keys, Device device) const override {
    AttentionMask near = mask.within(width_ - 1, 0, queries, keys, device);
    if (!near.causal) near.right = std::min(near.right, width_ - 1);
    return near;
  }

 private:
  int64_t width_;
};

}  // namespace

AttentionPartRow window() {
  return {
      .name = "window",
      .stage = Stage::mask,
      .help =
          "window=w: a query sees its own position and the w − 1 before it, in encoders also the w − 1 after it",
      .formula = "key j is visible if |i − j| < w, and in causal attention j ≤ i",
      .source = "Child et al. 2019; Beltagy et al. 2020",
      .linear_as = "window=32",
      .options = {{.name = "width", .help = "the number of keys, w", .least = 1, .whole = true}},
      .make = [](const AttentionSizes&, const PartValues& values) {
        return std::make_unique<Window>(values.whole("width"));
      }};
}

}  // namespace vitrine::nn::parts
