// Linformer (Wang et al. 2020): keys and values are projected along time to a few rows.
#pragma once

#include <memory>
#include <string>

#include "nn/attention/composed.h"

namespace vitrine::nn {

/// y = attention(q, E·k, F·v), where E and F [R, T] are learned and shared by all heads. For a
/// sequence below the longest, T = `context`, their first columns are used; a hidden key is a row
/// of zeros. Time and memory are linear in T. Parts act on the projected keys and values. Errors: a
/// causal mask and a decoding state, since each projected key mixes all positions; other masks than
/// padding; parts that depend on positions; a sequence longer than the context.
class Linformer : public Attention {
 public:
  /// R is `rank`; 0: a quarter of the context.
  Linformer(const AttentionName& parts, const AttentionSizes& sizes, int64_t rank = 0);

  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                 DecodingState* state = nullptr, MixerTrace* trace = nullptr) const override;
  std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const override;
  std::string explain(bool weights_wanted = false, const AttentionMask& mask = {}) const override;
  void fields(Fields& f) override;
  Linformer clone();

  ComposedAttention map;
  Parameter key_projection, value_projection;  ///< E and F [R, context]

 private:
  int64_t context_;
};

}  // namespace vitrine::nn
