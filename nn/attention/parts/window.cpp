// A sliding window: a query sees its own position and the W − 1 before it.
#include <algorithm>
#include <cmath>

#include "nn/attention/parts/rows.h"

namespace vitrine::nn::parts {
namespace {

class Window : public AttentionPart {
 public:
  explicit Window(int64_t width) : width_(width) {}
  bool fold(AttentionOptions&, Device) const override { return true; }
  AttentionMask restrict(AttentionMask mask) const override {
    mask.left = std::min(mask.left, width_ - 1);
    return mask;
  }

 private:
  int64_t width_;
};

}  // namespace

AttentionPartRow window() {
  return {.name = "window",
          .stage = Stage::mask,
          .help = "window=w: a query sees its own position and the w − 1 positions before it",
          .source = "Child et al. 2019; Beltagy et al. 2020",
          .options = {{"width", "the number of keys, w", "", {}, true, 0, 1}},
          .make = [](const AttentionSizes&, const PartValues& values) {
            const double width = values.number("width");
            check(width == std::floor(width), "attention: window: width is {}, wanted a whole number", width);
            return std::make_unique<Window>(static_cast<int64_t>(std::min(width, 1e15)));
          }};
}

}  // namespace vitrine::nn::parts
