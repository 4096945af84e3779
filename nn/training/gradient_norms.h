// Norms of gradients, for the record of a run: of each layer's parameters, and along the queries,
// keys and values of each attention.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nn/attention/multi_head.h"
#include "nn/report/run.h"

namespace vitrine::nn::training {

/// Parameters of one layer, by its path.
struct Layer {
  std::string path;
  std::vector<Parameter> parameters;
};

/// The layers of a model: its modules that are numbered, the outermost of each ("blocks.0",
/// "encoder.blocks.2"), in order.
std::vector<Layer> layers_of(Module& model);

/// All attentions of a model by their paths, in order.
std::vector<std::pair<std::string, MultiHeadAttention*>> attentions_of(Module& model);

/// While it lives, what backwards bring to the projected queries, keys and values of each attention
/// is measured. It asks for no weights: attention stays fused, and recomputed blocks stay
/// recomputed.
class PathRecorder {
 public:
  explicit PathRecorder(const std::vector<std::pair<std::string, MultiHeadAttention*>>& attentions);
  ~PathRecorder();
  /// Adds to `paths`, one per attention, at `step`, the norm over all backwards so far, divided by
  /// `scale`.
  void add_to(std::vector<report::PathGradients>& paths, double step, double scale) const;
  PathRecorder(const PathRecorder&) = delete;
  PathRecorder& operator=(const PathRecorder&) = delete;

 private:
  struct Squares {
    double q = 0, k = 0, v = 0;
  };
  using Callback = decltype(MultiHeadAttention::on_projected);
  std::vector<std::pair<MultiHeadAttention*, Callback>>
      attentions_;                ///< each with its user's callback, which is called too
  std::vector<Squares> squares_;  ///< Σg² of each attention
};

}  // namespace vitrine::nn::training
