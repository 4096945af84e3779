#pragma once

#include <string>
#include <vector>

#include "optim/fused.h"

namespace vitrine::optim {

/// What the orthogonal direction of a matrix [rows, columns] is multiplied by.
enum class MuonScale {
  /// √max(1, rows/columns), Jordan 2024: rates are those of Muon, as 0.02
  aspect,
  /// 0.2·√max(rows, columns), Liu et al. 2025: elements move as AdamW's do, so one rate serves both
  adamw_rms
};

struct MuonOptions {
  double lr = 0.02;         ///< ≥ 0, also AdamW's: see groups for rates of their own
  double momentum = 0.95;   ///< μ, [0, 1)
  bool nesterov = true;     ///< a look ahead by one more step of the mean
  double weight_decay = 0;  ///< ≥ 0, decoupled
  MuonScale scale = MuonScale::aspect;
  int64_t iterations = 5;  ///< of newton_schulz, ≥ 1
  /// Matrices with one of these words in their name, between dots, are embeddings or heads, which
  /// AdamW moves.
  std::vector<std::string> adamw_words = {"tokens",     "positions", "segments",  "embedding",
                                          "embeddings", "head",      "classifier"};
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;  ///< of AdamW
};

/// x [rows, columns] with all its singular values moved near 1, to about [0.7, 1.2]: U·p(S)·Vᵀ of x
/// = U·S·Vᵀ. Each iteration is X ← aX + (bA + cA²)X with A = X·Xᵀ, a = 3.4445, b = −4.7750, c =
/// 2.0315, from X = x/(‖x‖ + 1e-7); it multiplies small singular values by 3.4. Floating dtypes.
/// Jordan 2024.
Tensor newton_schulz(const Tensor& x, int64_t iterations = 5);

/// Momentum made orthogonal, for the matrices inside a model: m ← μm + (1 − μ)g, u = μm + (1 − μ)g
/// with Nesterov or m, x ← (1 − lr·decay)x − lr·scale·newton_schulz(u). AdamW moves what is no
/// matrix, embeddings and heads. Jordan 2024. State: momentum (m) of matrices, moment1 and moment2
/// of the rest.
class Muon : public FusedOptimizer {
 public:
  explicit Muon(std::vector<Parameter> parameters, MuonOptions options = {});

 private:
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Parameter& p) const override;
  bool is_hidden_matrix(const Parameter& p) const;
  void move_matrices(ParameterBatch& batch) const;
  void move_by_adamw(ParameterBatch& batch) const;
  MuonOptions options_;
};

}  // namespace vitrine::optim
