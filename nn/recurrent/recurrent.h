// The common base of recurrent mixers: one or two directions, lengths, the decoding state, and the
// trace.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/layers/linear.h"
#include "nn/mixer.h"
#include "ops/recurrent.h"

namespace vitrine::nn {

/// x [B, T, C] → h [B, T, C], by a cell that processes one position after another. If not `causal`,
/// a second cell runs from the last position to the first; each cell has C/2 channels, and their
/// outputs are concatenated. Positions after the length of a row give 0.
class Recurrent : public Mixer {
 public:
  /// The weights of one direction: sums = x·inputᵀ + b + h·recurrentᵀ, with one row per gate and
  /// channel.
  struct Direction : Module {
    Direction(int64_t width, int64_t channels, int64_t gates, const ProjectionBias& bias);
    void fields(Fields& f) override;
    Linear input;
    Parameter recurrent;  ///< [gates·C, C]; starts as orthogonal matrices
    Parameter bias;       ///< [C], of the candidate's product with h; Gru only
  };

  Tensor forward(const Tensor& x, const MixerCall& call = {}) const override;
  std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const override;
  std::string explain(const MixerCall& call = {}) const override;
  void fields(Fields& f) override;

  std::vector<Direction> directions;

 protected:
  Recurrent(const MixerOptions& options, int64_t gates);

  /// The states at every position, h first, each [B, T, C]. `first`: the states before the first
  /// position, or empty.
  virtual std::vector<Tensor> run(const Direction& direction, const Tensor& sums,
                                  const std::vector<Tensor>& first,
                                  const RecurrentOptions& options) const = 0;
  /// The share of the previous state that a position keeps, and the share of its input that it
  /// adds, each in [0, 1]. Both are [B, T, C], computed from the sums and from the hidden state
  /// before each position.
  struct Gates {
    Tensor keep, take;
  };
  virtual Gates gates(const Direction& direction, const Tensor& sums, const Tensor& h_before) const = 0;

  MixerOptions options_;

 private:
  Tensor weights(const Direction& direction, const Tensor& sums, const Tensor& h, bool reverse) const;
  void check_call(const Tensor& x, const MixerCall& call) const;
};

/// Long short-term memory (ops/recurrent.h). The bias of the forget gate starts as 1 (Jozefowicz et
/// al. 2015).
class Lstm : public Recurrent {
 public:
  explicit Lstm(const MixerOptions& options);
  std::string kind() const override { return "lstm"; }
  Lstm clone();

 private:
  std::vector<Tensor> run(const Direction& direction, const Tensor& sums, const std::vector<Tensor>& first,
                          const RecurrentOptions& options) const override;
  Gates gates(const Direction& direction, const Tensor& sums, const Tensor& h_before) const override;
};

/// Gated recurrent unit (ops/recurrent.h).
class Gru : public Recurrent {
 public:
  explicit Gru(const MixerOptions& options);
  std::string kind() const override { return "gru"; }
  Gru clone();

 private:
  std::vector<Tensor> run(const Direction& direction, const Tensor& sums, const std::vector<Tensor>& first,
                          const RecurrentOptions& options) const override;
  Gates gates(const Direction& direction, const Tensor& sums, const Tensor& h_before) const override;
};

}  // namespace vitrine::nn
