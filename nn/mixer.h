// Whatever mixes positions: attention and recurrence, with one interface. A Transformer block,
// generation and the report work with each mixer; nn/transformer/mixers.h makes one by its name.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "nn/attention/mask.h"
#include "nn/layers/linear.h"
#include "nn/module.h"

namespace vitrine::nn {

/// What decoding keeps of earlier positions. The caller holds it; a forward changes nothing else.
class DecodingState {
 public:
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  virtual ~DecodingState() = default;
  virtual int64_t length() const = 0;                        ///< positions so far
  virtual int64_t capacity() const { return kUnlimited; }    ///< the most positions
  virtual std::unique_ptr<DecodingState> clone() const = 0;  ///< a deep copy
  int64_t bytes() const;                                     ///< of memory in tensors
  /// Row b becomes a copy of row rows[b]: rows is int64 [B'], and the state then has B' rows. For
  /// beam search.
  void reorder(const Tensor& rows);
  /// Every tensor of the state, [B, ...]; undefined ones may be among them.
  virtual std::vector<Tensor*> tensors() = 0;
};

/// The states of several mixers: of a block, or of a stack of blocks.
class StateList : public DecodingState {
 public:
  int64_t length() const override { return states.empty() ? 0 : states.front()->length(); }
  int64_t capacity() const override;  ///< the least of its members' and the limit
  std::unique_ptr<DecodingState> clone() const override;
  std::vector<Tensor*> tensors() override;

  std::vector<std::unique_ptr<DecodingState>> states;
  int64_t limit = kUnlimited;  ///< what the capacity is at most
};

/// What a mixer did, for display and for gradients by path.
struct MixerTrace {
  Tensor q, k, v;  ///< of attention: after preparation, [B, H, T, D]; else undefined
  /// [B, H, Tq, Tk]. Of a recurrence: how much of position j's input the state of position i holds,
  /// averaged over channels, with a head for each direction.
  Tensor weights;
  double scale = 1;  ///< what multiplied q·k
  /// A second factor for each query: broadcast to [B, H, Tq, 1]; undefined where it is 1
  Tensor row_scale;
  Tensor visible;            ///< bool, broadcast to the weights; undefined where no key is hidden
  bool distribution = true;  ///< the weights are ≥ 0 and sum to 1
  /// ∂(modified scores)/∂scores, like the weights: 1 − tanh²(s/c) of a softcap. Undefined where it
  /// is 1.
  Tensor score_slope;
};

/// What goes with the input of a mixer.
struct MixerCall {
  AttentionMask mask = {};
  /// [B, S, C]: keys and values come from here (cross-attention); undefined: from x
  Tensor source = {};
  /// int64 [B]: row b of x, or of the source, has lengths[b] positions; undefined: all
  Tensor lengths = {};
  DecodingState* state = nullptr;  ///< x continues what the state holds
  MixerTrace* trace = nullptr;     ///< is filled
};

/// Whether projections to queries, keys and values, and the one back, have a bias.
struct ProjectionBias {
  Bias query = Bias::yes, key = Bias::yes, value = Bias::yes, out = Bias::yes;
  ProjectionBias() = default;
  // Implicit: `.bias = Bias::no`
  ProjectionBias(Bias all) : query(all), key(all), value(all), out(all) {}
  ProjectionBias(Bias q, Bias k, Bias v, Bias o) : query(q), key(k), value(v), out(o) {}
};

/// Sizes of a mixer; those that do not fit each other are an error. A recurrence has no heads.
struct MixerOptions {
  int64_t width = 128;    ///< C, a multiple of heads
  int64_t heads = 4;      ///< H
  int64_t key_heads = 0;  ///< Hkv, a divisor of heads: grouped queries; 0 = heads
  int64_t context = 64;   ///< the longest sequence, for scales that depend on it
  /// The name of the mixer, or parts of attention: see parse_mixer
  std::string attention = "standard";
  ProjectionBias bias = {};     ///< a recurrence has one, that of the query
  double out_deviation = 0.02;  ///< of the initial weights of the projection back
  bool causal = true;           ///< a recurrence that is not causal reads in both directions
};

/// x [B, T, C] → [B, T, C].
class Mixer : public Module {
 public:
  /// Errors: a shape that does not fit, and a mask, a source or a state that the mixer has no use
  /// for.
  virtual Tensor forward(const Tensor& x, const MixerCall& call = {}) const = 0;
  /// The state before the first position, for B = `batch` and at most `capacity` positions.
  virtual std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const = 0;
  /// "attention", "lstm": the name of the member in a block, and of its parameters.
  virtual std::string kind() const = 0;
  /// How a forward is computed, and why.
  virtual std::string explain(const MixerCall& call = {}) const = 0;
};

}  // namespace vitrine::nn
