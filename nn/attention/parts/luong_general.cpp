// The score "general" of Luong, Pham, Manning 2015: s = qᵀ·W·k.
#include "nn/attention/parts/rows.h"
#include "nn/attention/scores.h"
#include "nn/init.h"
#include "ops/view.h"

namespace vitrine::nn::parts {
namespace {

/// The weights start as N(0, 1/D²). Normal queries and keys then give scores of variance 1, as
/// scaled dot products do.
class LuongGeneral : public AttentionPart {
 public:
  explicit LuongGeneral(const AttentionSizes& sizes)
      : weight(normal({sizes.heads, sizes.head_size, sizes.head_size},
                      1 / static_cast<double>(sizes.head_size))) {}

  Tensor score(const Tensor& q, const Tensor& k) const override {
    return bilinear_scores(q, k, cast(weight, q.dtype()));
  }
  void fields(Fields& f) override { f("weight", weight); }

  Parameter weight;  // [H, D, D]
};

}  // namespace

AttentionPartRow luong_general() {
  return {.name = "luong_general",
          .stage = Stage::score,
          .help = "scores qᵀ·W·k with a learned W for each head",
          .formula = "s = qᵀ·W·k",
          .source = "Luong et al. 2015",
          .make = [](const AttentionSizes& sizes, const PartValues&) {
            return std::make_unique<LuongGeneral>(sizes);
          }};
}

}  // namespace vitrine::nn::parts
