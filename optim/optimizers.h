// The optimizers. Steps count from t = 1; m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ). "Coupled" weight decay adds decay·x to the
// gradient, "decoupled" multiplies x by 1 − lr·decay first (Loshchilov and Hutter 2019).
#pragma once

#include "optim/optimizer.h"

namespace vitrine::optim {

enum class Decay { coupled, decoupled };

struct SgdOptions {
  double lr = 1e-2, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
/// buffer ← μ·buffer + (1 − dampening)·g (g itself at first); x −= lr·buffer, or lr·(g + μ·buffer) with Nesterov.
class Sgd : public Optimizer {
 public:
  explicit Sgd(std::vector<Parameter> parameters, SgdOptions options = {});

 private:
  void update(Tensor& x, const Tensor& g, State& state, const GroupOptions& group, int64_t t) override;
  SgdOptions options_;
};

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  Decay decay = Decay::coupled;
  bool amsgrad = false;          ///< the running maximum of v in place of v. Reddi et al. 2018
  bool bias_correction = true;   ///< off: m and v as they are, as lectures compare
  double momentum_decay = 4e-3;  ///< ψ of NAdam
};

/// x −= lr·m̂/(√v̂ + eps). Kingma and Ba 2015. With decoupled decay it is AdamW.
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Parameter> parameters, AdamOptions options = {});

 private:
  void update(Tensor& x, const Tensor& g, State& state, const GroupOptions& group, int64_t t) override;
  AdamOptions options_;
};

/// x −= lr·(μ_{t+1}·m/(1 − Πμ_{t+1}) + (1 − μ_t)·g/(1 − Πμ_t))/(√v̂ + eps), μ_t = β₁(1 − 0.96^{tψ}/2). Dozat 2016; NAdamW with
/// decoupled decay.
class NAdam : public Optimizer {
 public:
  explicit NAdam(std::vector<Parameter> parameters, AdamOptions options = {});

 private:
  void update(Tensor& x, const Tensor& g, State& state, const GroupOptions& group, int64_t t) override;
  AdamOptions options_;
};

/// Adam whose adaptive rate is rectified by its variance, and left out while ρ_t ≤ 5. Liu et al. 2020.
class RAdam : public Optimizer {
 public:
  explicit RAdam(std::vector<Parameter> parameters, AdamOptions options = {});

 private:
  void update(Tensor& x, const Tensor& g, State& state, const GroupOptions& group, int64_t t) override;
  AdamOptions options_;
};

struct LambOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-6, weight_decay = 0, phi_min = 0, phi_max = 10;
};
/// u = m̂/(√v̂ + eps) + decay·x; x −= lr·φ(‖x‖)/‖u‖·u, φ clips to [phi_min, phi_max]; ratio 1 where a norm is 0. You et al.,
/// arXiv 1904.00962 version 5.
class Lamb : public Optimizer {
 public:
  explicit Lamb(std::vector<Parameter> parameters, LambOptions options = {});

 private:
  void update(Tensor& x, const Tensor& g, State& state, const GroupOptions& group, int64_t t) override;
  LambOptions options_;
};

struct LionOptions {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};
/// x −= lr·(sign(β₁m + (1 − β₁)g) + decay·x); m ← β₂m + (1 − β₂)g. Chen et al. 2023.
class Lion : public Optimizer {
 public:
  explicit Lion(std::vector<Parameter> parameters, LionOptions options = {});

 private:
  void update(Tensor& x, const Tensor& g, State& state, const GroupOptions& group, int64_t t) override;
  LionOptions options_;
};

/// Scales all gradients by min(1, max_norm/(norm + 1e-6)); returns the norm before. A norm that is not finite is an error.
double clip_gradients(const std::vector<Parameter>& parameters, double max_norm);

}  // namespace vitrine::optim
