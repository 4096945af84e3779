// The factors of the scores, and cosine scores, which have a scale of their own.
#include <cmath>

#include "nn/attention/parts/rows.h"
#include "nn/attention/scale.h"
#include "ops/norm.h"

namespace vitrine::nn::parts {
namespace {

class Scale : public AttentionPart {
 public:
  explicit Scale(ScaleRule rule) : rule_(std::move(rule)) {}
  // Attention itself scales.
  bool fold(AttentionOptions&, const FoldCall&) const override { return true; }
  const ScaleRule* scale() const override { return &rule_; }

 private:
  ScaleRule rule_;
};

/// The cosine of query and key replaces q·k: both are normalized to unit length.
class Cosine : public Scale {
 public:
  using Scale::Scale;
  Tensor prepare_queries(const Tensor& q, const RowPositions&) const override { return l2_normalize(q); }
  Tensor prepare_keys(const Tensor& k, const RowPositions&) const override { return l2_normalize(k); }
};

PartOption keys_option() {
  return {.name = "keys",
          .help = "the number n of keys; by default half of the context",
          .words = {"visible"},
          .least = 2,
          .optional = true};
}

/// The rule with the n from the option.
ScaleRule with_keys(ScaleRule rule, const PartValues& values) {
  if (!values.has("keys")) return rule;
  const bool visible = values.text("keys") == "visible";
  rule.keys = visible ? ScaleRule::Keys::visible : ScaleRule::Keys::given;
  if (!visible) rule.n = values.number("keys");
  return rule;
}

double root(const AttentionSizes& sizes) { return 1 / std::sqrt(static_cast<double>(sizes.head_size)); }

}  // namespace

AttentionPartRow cosine() {
  return {.name = "cosine",
          .stage = Stage::prepare,
          .help = "cosine of query and key, times the gradient-optimal scale; =N and =visible as for optimal",
          .formula = "s = α·(q/|q|)·(k/|k|), with the α that maximizes the gradient",
          .source = "Su 2023",
          .rank = rank::norm,
          .owns = "the norm of queries and keys",
          .options = {keys_option()},
          .make = [](const AttentionSizes& sizes, const PartValues& values) {
            const auto d = static_cast<double>(sizes.head_size);
            return std::make_unique<Cosine>(
                with_keys({.of = [d](double n) { return gradient_optimal_cosine_scale(n, d); },
                           .name = "gradient-optimal",
                           .key = "cosine"},
                          values));
          }};
}

AttentionPartRow luong_dot() {
  return {.name = "luong_dot",
          .stage = Stage::scale,
          .help = "scores q·k without a scale",
          .formula = "s = q·k",
          .source = "Luong et al. 2015",
          .make = [](const AttentionSizes&, const PartValues&) {
            return std::make_unique<Scale>(
                ScaleRule{.of = [](double) { return 1.0; }, .name = "no scale", .constant = true});
          }};
}

AttentionPartRow optimal() {
  return {.name = "optimal",
          .stage = Stage::scale,
          .help =
              "the scale that maximizes the gradient of the softmax for half of the context; =N: for N keys, "
              "=visible: for the keys that a query sees",
          .formula = "s = α·q·k/√D, with (1 + 2α²)·e^(α²) = n",
          .source = "Su 2023",
          .options = {keys_option()},
          .make = [](const AttentionSizes& sizes, const PartValues& values) {
            return std::make_unique<Scale>(
                with_keys({.of = [root = root(sizes)](double n) { return gradient_optimal_scale(n) * root; },
                           .name = "gradient-optimal",
                           .key = "optimal",
                           .of_dot_products = true},
                          values));
          }};
}

AttentionPartRow entropy() {
  return {
      .name = "entropy",
      .stage = Stage::scale,
      .help = "a scale that keeps the entropy of the weights nearly constant; =N and =visible as for optimal",
      .formula = "s = (log n/log 512)·q·k/√D",
      .source = "Su 2021",
      .options = {keys_option()},
      .make = [](const AttentionSizes& sizes, const PartValues& values) {
        return std::make_unique<Scale>(
            with_keys({.of = [root = root(sizes)](double n) { return entropy_factor(n) * root; },
                       .name = "log n/log 512/√D",
                       .key = "entropy",
                       .of_dot_products = true},
                      values));
      }};
}

AttentionPartRow scale() {
  return {
      .name = "scale",
      .stage = Stage::scale,
      .help = "scale=X: X replaces 1/√D as the factor of the scores",
      .formula = "s = X·q·k",
      .source = "Vaswani et al. 2017",
      .options = {{"factor", "the factor", ""}},
      .make = [](const AttentionSizes&, const PartValues& values) {
        return std::make_unique<Scale>(ScaleRule{.of = [x = values.number("factor")](double) { return x; },
                                                 .name = "a constant",
                                                 .constant = true});
      }};
}

}  // namespace vitrine::nn::parts
