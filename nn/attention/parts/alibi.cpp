// ALiBi: scores decrease linearly with the distance of query and key (Press, Smith, Lewis 2021).
#include "nn/attention/parts/rows.h"
#include "nn/attention/positions.h"
#include "ops/elementwise.h"

namespace vitrine::nn::parts {
namespace {

class Alibi : public AttentionPart {
 public:
  explicit Alibi(const AttentionSizes& sizes) : heads_(sizes.heads) {}
  Traits traits() const override { return {.positions = true}; }
  bool fold(AttentionOptions& options, const FoldCall& call) const override {
    options.slopes = alibi_slopes(heads_, call.device);
    return true;
  }
  Tensor modify_scores(const Tensor& scores) const override {
    return scores + define::alibi_bias(alibi_slopes(heads_, scores.device()), scores.size(-2),
                                       scores.size(-1), scores.dtype());
  }

 private:
  int64_t heads_;
};

}  // namespace

AttentionPartRow alibi() {
  return {
      .name = "alibi",
      .stage = Stage::modify,
      .help = "scores decrease linearly with the distance of query and key",
      .formula = "s_ij ← s_ij − m_h·|i − j|, m_h = 2^(−8h/H)",
      .source = "Press et al. 2021",
      .rank = rank::distance,
      .owns = "a penalty on distance",
      .make = [](const AttentionSizes& sizes, const PartValues&) { return std::make_unique<Alibi>(sizes); }};
}

}  // namespace vitrine::nn::parts
