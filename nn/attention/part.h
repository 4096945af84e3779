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

/// A stage of attention, or several; those that are not overridden stay as they are. Tensors are [B, H, T, D], scores and weights
/// [B, H, Tq, Tk]; from the scores on all are float32 where the queries are of low precision. Parameters and buffers are listed in
/// fields() as in any module. Of score(), normalize() and read() an undefined tensor means the built-in stage, and two parts that
/// define the same one are an error.
class AttentionPart : public Module {
 public:
  struct Traits {
    bool distribution = true;  ///< the weights are ≥ 0 and sum to 1: what LASER's logarithm wants
    bool tiled = false;        ///< only queries, keys and values are prepared: the fused op can follow
    bool cacheable =
        true;  ///< prepared keys and values do not depend on later positions: a cache may keep them
  };
  virtual Traits traits() const { return {}; }  ///< what decides with which parts it composes
  /// `first` is the position of the first query (key, value). Keys and values have Hkv heads.
  virtual Tensor prepare_queries(const Tensor& q, int64_t first) const;
  virtual Tensor prepare_keys(const Tensor& k, int64_t first) const;
  virtual Tensor prepare_values(const Tensor& v, int64_t first) const;
  /// Scores in place of scale·q·kᵀ; k has as many heads as q. Scales and cosine do not go with it.
  virtual Tensor score(const Tensor& /*q*/, const Tensor& /*k*/) const { return {}; }
  /// New scores of the same shape, after softcap, bias and ALiBi, before the mask.
  virtual Tensor modify_scores(const Tensor& scores) const { return scores; }
  /// Weights in place of the softmax of scores; must give 0 for the −∞ of a hidden key.
  virtual Tensor normalize(const Tensor& /*scores*/) const { return {}; }
  /// What a query takes from the values, in place of weights·v or LASER; v has as many heads as the weights.
  virtual Tensor read(const Tensor& /*weights*/, const Tensor& /*v*/) const { return {}; }
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
