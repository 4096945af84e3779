// What recurrent mixers share: one or two directions, lengths, the state of decoding, and what
// there is to look at.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/layers/linear.h"
#include "nn/mixer.h"
#include "ops/recurrent.h"

namespace vitrine::nn {

/// x [B, T, C] → h [B, T, C], by a cell that reads position after position. Without `causal` a
/// second cell reads from the end, each has C/2 channels, and both are side by side. Positions
/// after a row's length give 0.
class Recurrent : public Mixer {
 public:
  /// The weights of one direction: sums = x·inputᵀ + b + h·recurrentᵀ, a row for each gate and
  /// channel.
  struct Direction : Module {
    Direction(int64_t width, int64_t channels, int64_t gates, const ProjectionBias& bias);
    void fields(Fields& f) override;
    Linear input;
    Parameter recurrent;  ///< [gates·C, C], orthogonal at the start
    Parameter bias;       ///< [C], of the candidate's product with h; only of a Gru
  };

  Tensor forward(const Tensor& x, const MixerCall& call = {}) const override;
  std::unique_ptr<DecodingState> make_state(int64_t batch, int64_t capacity) const override;
  std::string explain(const MixerCall& call = {}) const override;
  void fields(Fields& f) override;

  std::vector<Direction> directions;

 protected:
  Recurrent(const MixerOptions& options, int64_t gates);

  /// The states of every position, h first, [B, T, C] each; `first`: those before the first
  /// position, or empty.
  virtual std::vector<Tensor> run(const Direction& direction, const Tensor& sums,
                                  const std::vector<Tensor>& first,
                                  const RecurrentOptions& options) const = 0;
  /// How much of the state before a position is kept there, and how much of its input is taken in,
  /// in [0, 1]. Both [B, T, C], of the sums and the hidden states before each position.
  struct Gates {
    Tensor keep, take;
  };
  virtual Gates gates(const Direction& direction, const Tensor& sums, const Tensor& h_before) const = 0;

  MixerOptions options_;

 private:
  Tensor weights(const Direction& direction, const Tensor& sums, const Tensor& h, bool reverse) const;
  void check_call(const Tensor& x, const MixerCall& call) const;
};

/// Long short-term memory (ops/recurrent.h). The bias of the forget gate starts at 1 (Jozefowicz et
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
