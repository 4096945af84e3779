// Scores from a network with one hidden layer, in two published forms.
#include <cmath>

#include "nn/attention/parts/rows.h"
#include "nn/attention/scores.h"
#include "nn/init.h"
#include "nn/layers/linear.h"
#include "ops/view.h"

namespace vitrine::nn::parts {
namespace {

/// s_ij = w·tanh(Wq·q_i + Wk·k_j + b) with weights of each head. The weights start so that the
/// hidden values and the scores have a variance of about 1 for normal queries and keys.
class Additive : public AttentionPart {
 public:
  Additive(const AttentionSizes& sizes, int64_t hidden, Bias with_bias)
      : query_weight(normal({sizes.heads, hidden, sizes.head_size}, root(2 * sizes.head_size))),
        key_weight(normal({sizes.heads, hidden, sizes.head_size}, root(2 * sizes.head_size))),
        weight(normal({sizes.heads, 1, 1, hidden}, root(hidden))) {
    if (with_bias == Bias::yes) bias = constant({sizes.heads, 1, 1, hidden}, 0);
  }

  Tensor score(const Tensor& q, const Tensor& k) const override {
    const auto same_dtype = [&](const Parameter& p) { return p.defined() ? cast(p, q.dtype()) : Tensor(); };
    return additive_scores(q, k, same_dtype(query_weight), same_dtype(key_weight), same_dtype(weight),
                           same_dtype(bias));
  }
  void fields(Fields& f) override {
    f("query_weight", query_weight);
    f("key_weight", key_weight);
    f("weight", weight);
    f("bias", bias);
  }

  Parameter query_weight, key_weight;  // [H, A, D]
  Parameter weight, bias;              // [H, 1, 1, A]

 private:
  static double root(int64_t size) { return 1 / std::sqrt(static_cast<double>(size)); }
};

AttentionPartRow row(const std::string& name, const std::string& help, const std::string& formula,
                     const std::string& source, Bias bias) {
  return {.name = name,
          .stage = Stage::score,
          .help = help,
          .formula = formula,
          .source = source,
          .options = {{.name = "hidden",
                       .help = "the number of hidden channels; by default the size of a head",
                       .least = 1,
                       .whole = true,
                       .optional = true}},
          .make = [bias](const AttentionSizes& sizes, const PartValues& values) {
            return std::make_unique<Additive>(
                sizes, values.has("hidden") ? values.whole("hidden") : sizes.head_size, bias);
          }};
}

}  // namespace

AttentionPartRow additive() {
  return row("additive", "scores by a small neural network", "s = w·tanh(Wq·q + Wk·k + b)",
             "Bahdanau et al. 2014", Bias::yes);
}
AttentionPartRow luong_concat() {
  return row("luong_concat", "scores by a small neural network without biases", "s = w·tanh(W·[q; k])",
             "Luong et al. 2015", Bias::no);
}

}  // namespace vitrine::nn::parts
