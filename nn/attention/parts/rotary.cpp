// Rotary positions: pairs of channels of queries and keys are rotated by an angle proportional to
// the position (Su et al. 2021).
#include "nn/attention/parts/rows.h"

namespace vitrine::nn::parts {
namespace {

class Rotary : public AttentionPart {
 public:
  explicit Rotary(const RotaryOptions& options) : options_(options) {}
  Traits traits() const override { return {.positions = true}; }
  bool fold(AttentionOptions&, const FoldCall&) const override { return true; }
  Tensor prepare_queries(const Tensor& q, const RowPositions& at) const override {
    return rotate(q, at, options_);
  }
  Tensor prepare_keys(const Tensor& k, const RowPositions& at) const override {
    return rotate(k, at, options_);
  }

 private:
  RotaryOptions options_;
};

}  // namespace

AttentionPartRow rotary() {
  return {
      .name = "rotary",
      .stage = Stage::prepare,
      .help = "rotary position embedding (RoPE)",
      .formula = "(x_a, x_b) ← (x_a·cos pθ − x_b·sin pθ, x_a·sin pθ + x_b·cos pθ) at position p",
      .source = "Su et al. 2021",
      .rank = rank::rotation,
      .options =
          {{.name = "pairs",
            .help = "the channels of a pair: `half` is (i, i + D/2), `interleaved` (2i, 2i + 1)",
            .initial = "half",
            .words = {"half", "interleaved"},
            .number = false},
           {"theta", "the base: the slowest pair rotates by about 1/theta per position", "10000"},
           {"share", "the share of the pairs that rotate, from the first channels on, rounded down", "1"},
           {"linear", "for longer sequences: positions are divided by this", "1"},
           {"ntk",
            "for longer sequences: the slowest pair turns slower by this factor, the fastest as before",
            "1"}},
      .make = [](const AttentionSizes& sizes, const PartValues& values) {
        check(sizes.head_size % 2 == 0, "rotary: the head size is {}, wanted an even one, such as {}",
              sizes.head_size, sizes.head_size + 1);
        const double share = values.number("share");
        const auto pairs = static_cast<int64_t>(share * static_cast<double>(sizes.head_size / 2));
        check(share <= 1 && pairs >= 1,
              "rotary: the share is {}, wanted 1 at most, and a pair of {} channels", share, sizes.head_size);
        const double ntk = values.number("ntk");
        check(ntk == 1 || pairs > 1, "rotary: ntk is {}, wanted 1 for a single pair, which has no slower one",
              ntk);
        return std::make_unique<Rotary>(RotaryOptions{.base = values.number("theta"),
                                                      .size = 2 * pairs,
                                                      .interleaved = values.text("pairs") == "interleaved",
                                                      .linear = values.number("linear"),
                                                      .ntk = ntk});
      }};
}

}  // namespace vitrine::nn::parts
