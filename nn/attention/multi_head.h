// Projections to queries, keys and values, any attention over the heads, and the projection back.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "nn/attention/attention.h"
#include "nn/layers/linear.h"
#include "nn/mixer.h"

namespace vitrine::nn {

/// [q, k, v] = x·Wᵀ + b, split into heads; y = attention(q, k, v); heads side by side through
/// `out`. Weights start as N(0, 0.02²), those of `out` by out_deviation. With a source, k and v
/// come from the source. Key j is at position j and query i at position i + S − T: the last query
/// is aligned with the last key. Vaswani et al. 2017.
class MultiHeadAttention : public Mixer {
 public:
  /// Attention by the name in the options; see parse_attention.
  explicit MultiHeadAttention(const MixerOptions& options);
  /// Any attention for H heads of C/H channels, which `make` makes: for this module and for each
  /// clone.
  using MakeAttention = std::function<std::unique_ptr<Attention>(const MixerOptions&)>;
  MultiHeadAttention(const MixerOptions& options, MakeAttention make);

  Tensor forward(const Tensor& x, const MixerCall& call = {}) const override;
  /// With a source, decoding has a state of its own: the source's keys and values, projected once.
  /// Then masks that depend on positions are errors, as the number of queries is not known.
  std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const override;
  std::unique_ptr<DecodingState> make_source_state() const;
  std::string kind() const override { return "attention"; }
  std::string explain(const MixerCall& call = {}) const override;
  void fields(Fields& f) override;
  MultiHeadAttention clone();

  Linear query_key_value, out;  ///< [C + 2·Hkv·D, C] and [C, C]
  std::unique_ptr<Attention> attention;
  /// Called in every pass with the projected queries, keys and values, to hook their gradients,
  /// say. Where a checkpoint runs its function again this is called again, while that second run's
  /// tape records.
  std::function<void(const Tensor& q, const Tensor& k, const Tensor& v)> on_projected;

 private:
  struct Heads {
    Tensor q, k, v;
  };
  Heads project(const Tensor& x) const;
  Heads project(const Tensor& x, const Tensor& source) const;
  Tensor bias() const;

  MixerOptions options_;
  MakeAttention make_;
  int64_t heads_, key_heads_, head_size_;
};

}  // namespace vitrine::nn
