// A part of attention from outside this library. What it overrides takes the place of the built-in stage:
//
//   class Relu2 : public nn::AttentionPart {                                  // weights = relu(s)², not normalized
//     Traits traits() const override { return {.distribution = false}; }
//     Tensor normalize(const Tensor& scores) const override { return square(relu(scores)); }
//   };
//   nn::register_mechanism("relu2", "squared ReLU of the scores", [](auto) { return std::make_unique<Relu2>(); });
//   options.attention = "relu2+alibi";
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "nn/module.h"

namespace vitrine::nn {

/// What a part may depend on: H, D, and the longest sequence.
struct AttentionSizes {
  int64_t heads, head_size, context;
};

/// A stage of attention, or several; those that are not overridden stay as they are. Tensors are [B, H, T, D], scores
/// [B, H, Tq, Tk] after scale, softcap, ALiBi and bias, float32 where the queries are of low precision; hidden keys have −∞.
/// Parameters and buffers are listed in fields() as in any module.
class AttentionPart : public Module {
 public:
  struct Traits {
    bool distribution = true;  ///< the weights are ≥ 0 and sum to 1: what LASER's logarithm wants
    bool tiled = false;        ///< only queries and keys are prepared: the fused op can follow
  };
  virtual Traits traits() const { return {}; }  ///< what decides with which parts it composes
  /// `first` is the position of the first query (key).
  virtual Tensor prepare_queries(const Tensor& q, int64_t first) const;
  virtual Tensor prepare_keys(const Tensor& k, int64_t first) const;
  /// New scores of the same shape, before the mask.
  virtual Tensor modify_scores(const Tensor& scores) const { return scores; }
  /// Weights from scores; must give 0 for −∞. Undefined: softmax. Two parts that define it are an error.
  virtual Tensor normalize(const Tensor&) const { return {}; }
  void fields(Fields&) override {}
};

/// Makes a part for an attention of these sizes.
using AttentionPartFactory = std::function<std::unique_ptr<AttentionPart>(const AttentionSizes&)>;

/// Makes a part known by name, for "name+laser" and the like. A name that is taken, or holds + or =, and an empty `make` are
/// errors.
void register_mechanism(const std::string& name, const std::string& help, AttentionPartFactory make);

namespace detail {
struct RegisteredPart {
  std::string name, help;
  AttentionPartFactory make;
};
const std::vector<RegisteredPart>& registered_parts();
}  // namespace detail

}  // namespace vitrine::nn
