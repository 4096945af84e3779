// The score "general" of Luong, Pham, Manning 2015: s = qᵀ·W·k.
#include "nn/attention/parts/rows.h"
#include "nn/init.h"
#include "ops/matmul.h"
#include "ops/view.h"

namespace vitrine::nn::parts {
namespace {

/// The queries q·W take the place of q in dot products without a scale. The weights start as
/// N(0, 1/D²). Normal queries and keys then give scores of variance 1, as scaled dot products do.
class LuongGeneral : public AttentionPart {
 public:
  explicit LuongGeneral(const AttentionSizes& sizes)
      : weight(normal({sizes.heads, sizes.head_size, sizes.head_size},
                      1 / static_cast<double>(sizes.head_size))) {}

  bool fold(AttentionOptions&, const FoldCall&) const override { return true; }
  const ScaleRule* scale() const override { return &rule_; }
  Tensor prepare_queries(const Tensor& q, const RowPositions&) const override {
    return matmul(q, cast(weight, q.dtype()));
  }
  void fields(Fields& f) override { f("weight", weight); }

  Parameter weight;  // [H, D, D]

 private:
  ScaleRule rule_{.of = [](double) { return 1.0; }, .name = "no scale", .constant = true};
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
