// Attention of a decoder to the states of an encoder, in the forms of Luong, Pham, Manning 2015:
// global, or local around a position.
#pragma once

#include <string>

#include "nn/layers/linear.h"

namespace vitrine::nn {

/// dot: h·s. general: hᵀ·W·s. concat: v·tanh(W·[h; s]).
enum class LuongScore { dot, general, concat };
/// Which states of the encoder a decoder's state sees. global: all. monotonic (local-m): those
/// within D of its own position. predictive (local-p): those within D of a predicted position.
enum class LuongView { global, monotonic, predictive };

struct LuongOptions {
  int64_t width = 0;         ///< of the decoder's states h
  int64_t source_width = 0;  ///< of the encoder's states s; for the score `dot` the same
  int64_t out_width = 0;     ///< of the result; 0 = width
  LuongScore score = LuongScore::general;
  LuongView view = LuongView::global;
  int64_t half_window = 10;  ///< D
};

/// y = tanh(Wc·[c; h]), where the context c = Σ a_s·s is the mean of the encoder's states by their
/// weights a = softmax(score). With `predictive`, the position is p = S·sigmoid(vp·tanh(Wp·h)) for
/// S visible states. The weights in the window are multiplied by a Gaussian of the distance to p,
/// of deviation D/2, and then sum to less than 1. It gives p a gradient; the window has none.
class LuongAttention : public Module {
 public:
  /// Errors: the score `dot` for states of two widths, and a half window below 1.
  explicit LuongAttention(const LuongOptions& options);

  struct Result {
    Tensor context, weights;  ///< [B, T, source_width] and [B, T, S]
    Tensor position;          ///< p [B, T]; undefined unless the view is predictive
  };
  /// h [B, T, width], source [B, S, source_width]. visible: bool [B, S], false for padding;
  /// undefined: all are visible. `first` is the position of the first h, for the monotonic view.
  Result attend(const Tensor& h, const Tensor& source, const Tensor& visible = {}, int64_t first = 0) const;
  /// tanh(Wc·[c; h]) for that context: [B, T, out_width].
  Tensor combine(const Tensor& context, const Tensor& h) const;
  Tensor forward(const Tensor& h, const Tensor& source, const Tensor& visible = {}, int64_t first = 0) const {
    return combine(attend(h, source, visible, first).context, h);
  }
  void fields(Fields& f) override;
  LuongAttention clone();

  /// W: [width, source_width] for `general`, [width, width + source_width] for `concat`
  Parameter score_weight;
  Parameter score_vector;                      ///< v [width], for `concat`
  Parameter position_weight, position_vector;  ///< Wp [width, width] and vp [width]
  Parameter combine_weight;                    ///< Wc [out_width, source_width + width]

 private:
  Tensor scores(const Tensor& h, const Tensor& source) const;
  Tensor predicted(const Tensor& h, const Tensor& visible, int64_t states) const;

  LuongOptions options_;
};

}  // namespace vitrine::nn
