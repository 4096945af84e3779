// Gradient norms for the record of a run: of the parameters of each layer, and along the queries,
// keys and values of each attention.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nn/attention/multi_head.h"
#include "nn/report/run.h"

namespace vitrine::nn::training {

/// The parameters of one layer, and its path.
struct Layer {
  std::string path;
  std::vector<Parameter> parameters;
};

/// The layers of a model in order: its outermost numbered modules ("blocks.0", "encoder.blocks.2").
std::vector<Layer> layers_of(Module& model);

/// All attentions of a model with their paths, in order.
std::vector<std::pair<std::string, MultiHeadAttention*>> attentions_of(Module& model);

/// Measures, during its lifetime, the gradients of the projected queries, keys and values of each
/// attention. It does not request the weights: attention stays fused, and recomputed blocks are
/// still recomputed. Where all is frozen up to an attention, these have no gradient, and count as
/// 0.
class PathRecorder {
 public:
  explicit PathRecorder(const std::vector<std::pair<std::string, MultiHeadAttention*>>& attentions);
  ~PathRecorder();
  /// Adds one value per attention to `paths`, at `step`: the norm over all backward passes so far,
  /// divided by `scale`.
  void add_to(std::vector<report::PathGradients>& paths, double step, double scale) const;
  PathRecorder(const PathRecorder&) = delete;
  PathRecorder& operator=(const PathRecorder&) = delete;

 private:
  struct Squares {
    double q = 0, k = 0, v = 0;
  };
  using Callback = decltype(MultiHeadAttention::on_projected);
  std::vector<std::pair<MultiHeadAttention*, Callback>>
      attentions_;                ///< each with the user's callback, which is still called
  std::vector<Squares> squares_;  ///< Σg² of each attention
};

}  // namespace vitrine::nn::training
