// The common base of recurrent mixers: one or two directions, lengths, the decoding state, and the
// trace.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/names.h"
#include "nn/layers/linear.h"
#include "nn/mixer.h"
#include "ops/recurrent.h"

namespace vitrine::nn {

/// x [B, T, C] → h [B, T, C], by a cell that processes one position after another. If not `causal`,
/// a second cell runs from the last position to the first; each cell has C/2 channels, and their
/// outputs are concatenated. Positions after the length of a row give 0. The inputs x may have
/// another number of channels, `in`.
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
  /// The states at every position of x [B, T, in], the hidden one first, each [B, T, C], for a
  /// decoder that computes its next input from them. `first` are the states before x, [B, C] each,
  /// with gradients: none, the hidden state alone, or all; the others are 0. Error: two directions.
  std::vector<Tensor> states(const Tensor& x, const std::vector<Tensor>& first = {}) const;
  void fields(Fields& f) override;
  int64_t in() const { return in_; }

  std::vector<Direction> directions;

 protected:
  Recurrent(const MixerOptions& options, int64_t gates, int64_t in);

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
  int64_t in_;  ///< channels of x

 private:
  Tensor weights(const Direction& direction, const Tensor& sums, const Tensor& h, bool reverse) const;
  void check_call(const Tensor& x, const MixerCall& call) const;
};

/// Long short-term memory (ops/recurrent.h). The bias of the forget gate starts as 1 (Jozefowicz et
/// al. 2015).
class Lstm : public Recurrent {
 public:
  explicit Lstm(const MixerOptions& options, int64_t in = 0);  ///< `in` = 0: the width C
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
  explicit Gru(const MixerOptions& options, int64_t in = 0);  ///< `in` = 0: the width C
  std::string kind() const override { return "gru"; }
  Gru clone();

 private:
  std::vector<Tensor> run(const Direction& direction, const Tensor& sums, const std::vector<Tensor>& first,
                          const RecurrentOptions& options) const override;
  Gates gates(const Direction& direction, const Tensor& sums, const Tensor& h_before) const override;
};

/// The cell of a recurrence.
enum class Cell { gru, lstm };
inline EnumNames<Cell> names_of(Cell) {
  return {"recurrent cell", {{"gru", Cell::gru}, {"lstm", Cell::lstm}}};
}

std::unique_ptr<Recurrent> make_recurrent(Cell cell, const MixerOptions& options, int64_t in = 0);

}  // namespace vitrine::nn
