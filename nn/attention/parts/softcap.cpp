// Softcap: scores s become c·tanh(s/c), so their magnitude is less than c.
#include "nn/attention/parts/rows.h"
#include "ops/elementwise.h"

namespace vitrine::nn::parts {
namespace {

class Softcap : public AttentionPart {
 public:
  explicit Softcap(double cap) : cap_(cap) {}
  bool fold(AttentionOptions& options, const FoldCall&) const override {
    options.softcap = cap_;
    return true;
  }
  Tensor modify_scores(const Tensor& scores) const override { return cap_ * tanh(scores / cap_); }
  Tensor score_slope(const Tensor& scores) const override { return 1 - square(tanh(scores / cap_)); }

 private:
  double cap_;
};

}  // namespace

AttentionPartRow softcap() {
  return {.name = "softcap",
          .stage = Stage::modify,
          .help = "softcap=c: the scores become c·tanh(s/c)",
          .formula = "s ← c·tanh(s/c)",
          .source = "Bello et al. 2016",
          .rank = rank::softcap,
          .options = {{"cap", "the largest score, c", ""}},
          .make = [](const AttentionSizes&, const PartValues& values) {
            return std::make_unique<Softcap>(values.number("cap"));
          }};
}

}  // namespace vitrine::nn::parts
