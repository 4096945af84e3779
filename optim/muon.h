#pragma once

#include <string>
#include <vector>

#include "optim/fused.h"

namespace vitrine::optim {

/// The factor of the orthogonal direction of a matrix [rows, columns].
enum class MuonScale {
  /// √max(1, rows/columns), Jordan 2024. Learning rates are those of Muon, such as 0.02.
  aspect,
  /// 0.2·√max(rows, columns), Liu et al. 2025. Elements move as with AdamW, so one rate serves
  /// both.
  adamw_rms
};

struct MuonOptions {
  double lr = 0.02;         ///< ≥ 0, also AdamW's; use groups for separate rates
  double momentum = 0.95;   ///< μ, [0, 1)
  bool nesterov = true;     ///< looks ahead by one more step of the mean
  double weight_decay = 0;  ///< ≥ 0, decoupled
  MuonScale scale = MuonScale::aspect;
  int64_t iterations = 5;  ///< of newton_schulz, ≥ 1
  /// A matrix with one of these words in its name, between dots, is an embedding or a head, and
  /// AdamW updates it.
  std::vector<std::string> adamw_words = {"tokens",     "positions", "segments",  "embedding",
                                          "embeddings", "head",      "classifier"};
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;  ///< of AdamW
};

/// x [rows, columns] with all its singular values moved near 1, to about [0.7, 1.2]: U·p(S)·Vᵀ for
/// x = U·S·Vᵀ. Each iteration is X ← aX + (bA + cA²)X with A = X·Xᵀ, a = 3.4445, b = −4.7750, c =
/// 2.0315, starting from X = x/(‖x‖ + 1e-7). An iteration multiplies small singular values by 3.4.
/// Floating dtypes. Jordan 2024.
Tensor newton_schulz(const Tensor& x, int64_t iterations = 5);

/// Orthogonalized momentum for the matrices inside a model: m ← μm + (1 − μ)g; u = μm + (1 − μ)g
/// with Nesterov, otherwise u = m; x ← (1 − lr·decay)x − lr·scale·newton_schulz(u). AdamW updates
/// tensors that are not matrices, embeddings and heads. Jordan 2024. State: momentum (m) for
/// matrices, moment1 and moment2 for the others.
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
