// Mixers: layers that mix information across positions, namely attention and recurrence, with one
// interface. A Transformer block, generation and the report work with any mixer.
// nn/transformer/mixers.h makes a mixer from its name.
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

/// What decoding stores about earlier positions. The caller owns it. A forward pass updates only
/// this state, never the module.
class DecodingState {
 public:
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  virtual ~DecodingState() = default;
  virtual int64_t length() const = 0;                        ///< positions so far
  virtual int64_t capacity() const { return kUnlimited; }    ///< the maximum number of positions
  virtual std::unique_ptr<DecodingState> clone() const = 0;  ///< a deep copy
  int64_t bytes() const;                                     ///< memory of its tensors
  /// Replaces row b by a copy of row rows[b]. `rows` is int64 [B'], and afterwards the state has B'
  /// rows. Used by beam search.
  void reorder(const Tensor& rows);
  /// All tensors of the state, each [B, ...]. Some of them may be undefined.
  virtual std::vector<Tensor*> tensors() = 0;
};

/// The states of several mixers, such as the blocks of a stack.
class StateList : public DecodingState {
 public:
  int64_t length() const override { return states.empty() ? 0 : states.front()->length(); }
  int64_t capacity() const override;  ///< the minimum of `limit` and the capacities of its members
  std::unique_ptr<DecodingState> clone() const override;
  std::vector<Tensor*> tensors() override;

  std::vector<std::unique_ptr<DecodingState>> states;
  int64_t limit = kUnlimited;  ///< an upper bound of the capacity
};

/// Intermediate results of a mixer, for display and for gradients by path.
struct MixerTrace {
  Tensor q, k, v;  ///< [B, H, T, D] after preparation; only attention sets them
  /// [B, H, Tq, Tk]. For a recurrence: the share of the input at position j in the state at
  /// position i, averaged over channels, with one head per direction.
  Tensor weights;
  double scale = 1;  ///< the factor of q·k
  /// A second factor per query, broadcast to [B, H, Tq, 1]; undefined if all factors are 1
  Tensor row_scale;
  Tensor visible;            ///< bool, broadcast to the weights; undefined if no key is hidden
  bool distribution = true;  ///< the weights are ≥ 0 and sum to 1
  /// g of the shape of the weights p, with ∂p/∂scores = diag(g) − g·gᵀ/Σg for each query.
  /// Undefined: g = p, as for softmax. NaN: the Jacobian has another form
  Tensor weight_slope;
  /// ∂(modified scores)/∂scores, of the shape of the weights; for a softcap c, 1 − tanh²(s/c).
  /// Undefined if it is 1 everywhere.
  Tensor score_slope;
};

/// The arguments of a mixer besides its input.
struct MixerCall {
  AttentionMask mask = {};
  /// [B, S, C]: the source of keys and values (cross-attention); undefined: they come from x
  Tensor source = {};
  /// int64 [B]: row b of x, or of the source, has lengths[b] valid positions; undefined: all are
  /// valid
  Tensor lengths = {};
  DecodingState* state = nullptr;  ///< the earlier positions that x continues
  MixerTrace* trace = nullptr;     ///< filled by the mixer if it is not null
};

/// Which projections have a bias: those to queries, keys and values, and the output projection.
struct ProjectionBias {
  Bias query = Bias::yes, key = Bias::yes, value = Bias::yes, out = Bias::yes;
  ProjectionBias() = default;
  // Implicit, so that `.bias = Bias::no` compiles
  ProjectionBias(Bias all) : query(all), key(all), value(all), out(all) {}
  ProjectionBias(Bias q, Bias k, Bias v, Bias o) : query(q), key(k), value(v), out(o) {}
};

/// Sizes of a mixer. Sizes that do not fit together are an error. A recurrence ignores the heads.
struct MixerOptions {
  int64_t width = 128;  ///< C, a multiple of heads
  int64_t heads = 4;    ///< H
  /// Hkv, a divisor of heads (grouped-query attention); 0 = heads. It has to be 0 for mixers
  /// without heads of keys, such as recurrences
  int64_t key_heads = 0;
  int64_t context = 64;  ///< the longest sequence; some scales depend on it
  /// The name of a mixer, or of parts of attention: see parse_mixer
  std::string name = "standard";
  /// A projection that makes several of query, key and value has one bias, by the first of them.
  /// The gates of a recurrence follow `query`
  ProjectionBias bias = {};
  double out_deviation = 0.02;  ///< of the initial weights of the output projection
  bool causal = true;           ///< a recurrence that is not causal runs in both directions
  int64_t layer = 0;            ///< the number of the layer in its stack, from 1 on; 0: in none
};

/// x [B, T, C] → [B, T, C].
class Mixer : public Module {
 public:
  /// Errors: shapes that do not fit, and a mask, source or state that this mixer does not support.
  virtual Tensor forward(const Tensor& x, const MixerCall& call = {}) const = 0;
  /// The state before the first position, for a batch of `batch` rows and at most `capacity`
  /// positions.
  virtual std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const = 0;
  /// "attention", "lstm": the name of the mixer in a block, and so in the paths of its parameters.
  virtual std::string kind() const = 0;
  /// Explains how a forward pass is computed, and why.
  virtual std::string explain(const MixerCall& call = {}) const = 0;
};

}  // namespace vitrine::nn
