// Attention of a decoder to the states of an encoder, in the forms of Luong, Pham, Manning 2015:
// global, or local around a position. The scores of Bahdanau et al. 2014 and of See et al. 2017 are
// further choices.
#pragma once

#include <memory>
#include <string>

#include "core/names.h"
#include "nn/attention/read_out.h"
#include "nn/layers/linear.h"

namespace vitrine::nn {

/// dot: h·s. general: hᵀ·W·s. concat: v·tanh(W·[h; s]). additive: v·tanh(W·[h; s] + b), Bahdanau.
enum class LuongScore { dot, general, concat, additive };
inline EnumNames<LuongScore> names_of(LuongScore) {
  return {"score of attention",
          {{"dot", LuongScore::dot},
           {"general", LuongScore::general},
           {"concat", LuongScore::concat},
           {"additive", LuongScore::additive}}};
}
/// Which states of the encoder a decoder's state sees. global: all. monotonic (local-m): those
/// within D of its own position. predictive (local-p): those within D of a predicted position.
enum class LuongView { global, monotonic, predictive };
inline EnumNames<LuongView> names_of(LuongView) {
  return {
      "view of attention",
      {{"global", LuongView::global}, {"local-m", LuongView::monotonic}, {"local-p", LuongView::predictive}}};
}

struct LuongOptions {
  int64_t width = 0;         ///< of the decoder's states h
  int64_t source_width = 0;  ///< of the encoder's states s; for the score `dot` the same
  int64_t out_width = 0;     ///< of the result; 0 = width
  LuongScore score = LuongScore::general;
  LuongView view = LuongView::global;
  int64_t half_window = 10;  ///< D
  /// The scores concat and additive also read how much attention each state has received before,
  /// its coverage: w·coverage is added inside the tanh. See et al. 2017, equation 11
  bool coverage = false;
};

/// y = tanh(Wc·[c; h]), where the context c = Σ a_s·s is the mean of the encoder's states by their
/// weights a = softmax(score). With `predictive`, the position is p = S·sigmoid(vp·tanh(Wp·h)) for
/// S visible states. The weights in the window are multiplied by a Gaussian of the distance to p,
/// of deviation D/2, and then sum to less than 1. It gives p a gradient; the window has none.
class LuongAttention : public Module {
 public:
  /// `read` reads the states by their weights, for example by LASER; nullptr: their weighted mean.
  /// Errors: the score `dot` for states of two widths, a half window below 1, coverage with a score
  /// that has no tanh, and a `read` for the predictive view, whose weights do not sum to 1.
  explicit LuongAttention(const LuongOptions& options, std::shared_ptr<const ReadOut> read = nullptr);

  struct Result {
    Tensor context, weights;  ///< [B, T, source_width] and [B, T, S]
    Tensor position;          ///< p [B, T]; undefined unless the view is predictive
    Tensor visible;           ///< bool, broadcast to the weights; undefined if all are visible
  };
  /// h [B, T, width], source [B, S, source_width]. visible: bool [B, S], false for padding;
  /// undefined: all are visible. `first` is the position of the first h, for the monotonic view.
  /// coverage: [B, T, S], given if the options ask for it.
  Result attend(const Tensor& h, const Tensor& source, const Tensor& visible = {}, int64_t first = 0,
                const Tensor& coverage = {}) const;
  /// tanh(Wc·[c; h]) for that context: [B, T, out_width].
  Tensor combine(const Tensor& context, const Tensor& h) const;
  Tensor forward(const Tensor& h, const Tensor& source, const Tensor& visible = {}, int64_t first = 0) const {
    return combine(attend(h, source, visible, first).context, h);
  }
  void fields(Fields& f) override;
  LuongAttention clone();

  /// W: [width, source_width] for `general`, [width, width + source_width] for concat and additive
  Parameter score_weight;
  Parameter score_vector, score_bias;          ///< v [width]; b [width], for additive
  Parameter coverage_weight;                   ///< w [width]; undefined without coverage
  Parameter position_weight, position_vector;  ///< Wp [width, width] and vp [width]
  Parameter combine_weight;                    ///< Wc [out_width, source_width + width]

 private:
  Tensor scores(const Tensor& h, const Tensor& source, const Tensor& coverage) const;
  Tensor predicted(const Tensor& h, const Tensor& visible, int64_t states) const;

  LuongOptions options_;
  std::shared_ptr<const ReadOut> read_;
};

}  // namespace vitrine::nn
