// Adam and related rules. The steps of a parameter count from t = 1. m ← β₁m + (1 − β₁)g, v ← β₂v +
// (1 − β₂)g², m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ). The state of each rule is moment1 (m) and moment2
// (v). An eps below 2^−63 is raised to that, and a g beyond 2^60 is limited to 2^60 with its sign,
// so that v neither underflows nor overflows unless g does. In float64 the bounds are 2^−511 and
// 2^400.
#pragma once

#include "optim/fused.h"

namespace vitrine::optim {

namespace formulas {
struct Adam;
}

/// Coupled weight decay adds decay·x to the gradient. Decoupled weight decay first multiplies x by
/// 1 − lr·decay (Loshchilov, Hutter 2019).
enum class Decay { coupled, decoupled };

struct AdamOptions {
  double lr = 1e-3;         ///< ≥ 0
  double beta1 = 0.9;       ///< of m, [0, 1)
  double beta2 = 0.999;     ///< of v, [0, 1)
  double eps = 1e-8;        ///< ≥ 0
  double weight_decay = 0;  ///< ≥ 0
  Decay decay = Decay::coupled;
  bool amsgrad = false;         ///< the running maximum of v instead of v. Reddi et al. 2018
  bool bias_correction = true;  ///< off: m and v without correction
};

/// x −= lr·m̂/(√v̂ + eps). Kingma and Ba 2015. With decoupled decay this is AdamW. With amsgrad the
/// state also has `largest`, the running maximum of v.
class Adam : public FusedOptimizer {
 public:
  explicit Adam(std::vector<Parameter> parameters, AdamOptions options = {});

 private:
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Parameter& p) const override;
  AdamOptions options_;
};

/// The variant of Nesterov momentum that replaces m̂.
enum class Nesterov {
  /// (μ_{t+1}·m/(1 − Πμ_{t+1}) + (1 − μ_t)·g/(1 − Πμ_t)), μ_t = β₁(1 − 0.96^{tψ}/2). Dozat 2016,
  /// as in PyTorch
  dozat,
  simple,  ///< (β₁m + (1 − β₁)g)/(1 − β₁ᵗ), as in AlgoPerf's NAdamW
  optax    ///< β₁m/(1 − β₁ᵗ⁺¹) + (1 − β₁)g/(1 − β₁ᵗ)
};

/// The first five options are the same as Adam's.
struct NAdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  Decay decay = Decay::coupled;
  Nesterov nesterov = Nesterov::dozat;
  double momentum_decay = 4e-3;  ///< ψ of Dozat, ≥ 0
};

/// Adam with Nesterov momentum: x −= lr·n/(√v̂ + eps), with n from Nesterov. NAdamW with decoupled
/// decay.
class NAdam : public FusedOptimizer {
 public:
  explicit NAdam(std::vector<Parameter> parameters, NAdamOptions options = {});

 private:
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Parameter& p) const override;
  formulas::Adam formula(const GroupOptions& group, int64_t t);
  double mu(int64_t t) const;
  double product(int64_t t);

  NAdamOptions options_;
  std::vector<double> products_ = {1};  ///< [t]: Πμ up to step t
};

/// The same as Adam's.
struct RAdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  Decay decay = Decay::coupled;
};

/// Adam with an adaptive rate that is rectified by its variance. While ρ_t ≤ 5 (4 in the paper) the
/// rate is not adaptive. Liu et al. 2020.
class RAdam : public FusedOptimizer {
 public:
  explicit RAdam(std::vector<Parameter> parameters, RAdamOptions options = {});

 private:
  void update(ParameterBatch& batch, const GroupOptions& group, int64_t t) override;
  std::vector<StateSlot> slots(const Parameter& p) const override;
  formulas::Adam formula(const GroupOptions& group, int64_t t);
  RAdamOptions options_;
};

}  // namespace vitrine::optim
