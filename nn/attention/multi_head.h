// Multi-head attention: projections to queries, keys and values, an attention, and the output
// projection.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "nn/attention/attention.h"
#include "nn/layers/linear.h"
#include "nn/mixer.h"

namespace vitrine::nn {

/// [q, k, v] = x·Wᵀ + b, split into heads; y = attention(q, k, v); the heads are concatenated and
/// projected by `out`. Weights start as N(0, 0.02²), those of `out` as N(0, out_deviation²). With a
/// source [B, S, C], k and v are projected from the source. Key j is at position j and query i at
/// position i + S − T: the last query is aligned with the last key. Vaswani et al. 2017.
class MultiHeadAttention : public Mixer {
 public:
  /// The attention is the one that the options name; see parse_attention.
  explicit MultiHeadAttention(const MixerOptions& options);
  /// `make` makes any attention for H heads of C/H channels. It is called for this module and for
  /// each clone.
  using MakeAttention = std::function<std::unique_ptr<Attention>(const MixerOptions&)>;
  MultiHeadAttention(const MixerOptions& options, MakeAttention make);

  Tensor forward(const Tensor& x, const MixerCall& call = {}) const override;
  /// For decoding with a source there is a second kind of state, from make_source_state: it stores
  /// the keys and values of the source, which are projected once. With it, masks that depend on
  /// positions are errors, because the number of queries is not known.
  std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const override;
  std::unique_ptr<DecodingState> make_source_state() const;
  std::string kind() const override { return "attention"; }
  std::string explain(const MixerCall& call = {}) const override;
  void fields(Fields& f) override;
  MultiHeadAttention clone();

  Linear query_key_value, out;  ///< [C + 2·Hkv·D, C] and [C, C]
  std::unique_ptr<Attention> attention;
  /// Called in every forward pass with the projected queries, keys and values, for example to hook
  /// their gradients. When recompute runs a forward pass again, it is called again, while the tape
  /// of the second run records.
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
