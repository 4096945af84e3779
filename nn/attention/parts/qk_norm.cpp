// QK-norm: LayerNorm or RMSNorm of queries and keys per head, with learned gains (Henry et al.
// 2020).
#include "nn/attention/parts/rows.h"
#include "nn/init.h"
#include "ops/norm.h"

namespace vitrine::nn::parts {
namespace {

class QkNorm : public AttentionPart {
 public:
  QkNorm(const AttentionSizes& sizes, bool rms, double eps)
      : query_gain(constant({sizes.head_size}, 1)),
        key_gain(constant({sizes.head_size}, 1)),
        rms_(rms),
        eps_(eps) {}

  bool fold(AttentionOptions&, const FoldCall&) const override { return true; }
  Tensor prepare_queries(const Tensor& q, const RowPositions&) const override { return norm(q, query_gain); }
  Tensor prepare_keys(const Tensor& k, const RowPositions&) const override { return norm(k, key_gain); }
  void fields(Fields& f) override {
    f("query_gain", query_gain);
    f("key_gain", key_gain);
  }

  Parameter query_gain, key_gain;  // [D]

 private:
  Tensor norm(const Tensor& x, const Parameter& gain) const {
    return rms_ ? rms_norm(x, gain, eps_) : layer_norm(x, gain, {}, eps_);
  }
  bool rms_;
  double eps_;
};

AttentionPartRow row(const std::string& name, const std::string& help, const std::string& formula, bool rms) {
  return {.name = name,
          .stage = Stage::prepare,
          .help = help,
          .formula = formula,
          .source = "Henry et al. 2020",
          .rank = rank::norm,
          .owns = "the norm of queries and keys",
          .options = {{"eps", "added to the variance or the mean square", "1e-6"}},
          .make = [rms](const AttentionSizes& sizes, const PartValues& values) {
            return std::make_unique<QkNorm>(sizes, rms, values.number("eps"));
          }};
}

}  // namespace

AttentionPartRow qk_norm() {
  return row("qk_norm", "LayerNorm of queries and keys per head",
             "x ← g·(x − mean x)/√(var x + ε) for x = q, k", false);
}
AttentionPartRow qk_norm_rms() {
  return row("qk_norm_rms", "RMSNorm of queries and keys per head", "x ← g·x/√(mean x² + ε) for x = q, k",
             true);
}

}  // namespace vitrine::nn::parts
