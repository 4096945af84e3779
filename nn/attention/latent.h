// Multi-head latent attention (DeepSeek-V2, 2024): keys and values of all heads are projections of
// one short vector per position, and only this vector is cached.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/attention/composed.h"
#include "nn/layers/norm.h"
#include "nn/mixer.h"

namespace vitrine::nn {

/// Sizes of the latent vector and of the rotary key.
struct LatentSizes {
  int64_t rank = 0;    ///< r, channels of the latent vector c; 0: min(4·D, C/2), at least 1
  int64_t rotary = 0;  ///< Dr, channels of the rotary key, even; 0: about D/2, at least 2
};

/// c = RMSNorm(x·Wdᵀ) [B, T, r] and one rotary key kr = rotate(x·Wrᵀ) [B, T, Dr] for all heads. Per
/// head: k = [Wk·c; kr], v = Wv·c, q = [Wq·x; rotate(Wqr·x)], softmax(q·k/√(D + Dr))·v. The
/// position is in kr alone, so that the rest of the score can be computed from c.
///
/// A state stores [c; kr], r + Dr numbers per position, where a cache of keys and values stores
/// 2·Hkv·D. Decoding absorbs Wk into the query and Wv into the output, q·k = [Wkᵀq; qr]·[c; kr], so
/// that no key or value is computed from the state: c is the key and the value of every head. It
/// gives the full pass. If a part reads the values or combines heads, as LASER does, Wv is not
/// absorbed, and decoding computes the values from c. key_heads has no meaning here.
class LatentAttention : public Mixer {
 public:
  explicit LatentAttention(const MixerOptions& options, const LatentSizes& sizes = {},
                           const AttentionName& parts = {});
  static const std::vector<Stage>& stages();  ///< of the parts that it accepts
  Tensor forward(const Tensor& x, const MixerCall& call = {}) const override;
  std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const override;
  std::string kind() const override { return "attention"; }
  std::string explain(const MixerCall& call = {}) const override;
  void fields(Fields& f) override;
  LatentAttention clone();

  Linear query;        ///< [H·(D + Dr), C]: for each head Wq, then Wqr
  Linear down;         ///< [r + Dr, C]: Wd, then Wr
  Norm norm;           ///< of c
  Parameter up_key;    ///< Wk [H, D, r]
  Parameter up_value;  ///< Wv [H, D, r]
  Linear out;          ///< [C, C]
  ComposedAttention read;

 private:
  MixerOptions options_;
  LatentSizes sizes_;
};

}  // namespace vitrine::nn
