#include "nn/layers/norm.h"

#include <cmath>

#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/power_norm.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

struct LayerNorm : NormRule {
  Tensor forward(const Norm& n, const Tensor& x) const override {
    return layer_norm(x, n.weight, n.bias, n.eps());
  }
  AddNorm forward(const Norm& n, const Tensor& x, const Tensor& residual) const override {
    return add_layer_norm(x, residual, n.weight, n.bias, n.eps());
  }
};

struct RmsNorm : NormRule {
  Tensor forward(const Norm& n, const Tensor& x) const override { return rms_norm(x, n.weight, n.eps()); }
  AddNorm forward(const Norm& n, const Tensor& x, const Tensor& residual) const override {
    return add_rms_norm(x, residual, n.weight, n.eps());
  }
};

/// The formula has no eps: a zero row stays zero.
struct ScaleNorm : NormRule {
  Tensor forward(const Norm& n, const Tensor& x) const override { return n.weight * l2_normalize(x); }
};

struct AdaNorm : NormRule {
  static constexpr double kFactor = 1, kSlope = 0.1;  // c and k of the paper's experiments
  Tensor forward(const Norm& n, const Tensor& x) const override {
    const Tensor y = layer_norm(x, {}, {}, n.eps());
    return detach(kFactor * (1 - kSlope * y)) * y;
  }
};

/// psi2 is the running mean of x², nu the running mean of the gradient along z.
struct PowerNorm : NormRule {
  explicit PowerNorm(int64_t width) : psi2(ones({width})), nu(zeros({width})) {}
  Tensor forward(const Norm& n, const Tensor& x) const override {
    if (n.training()) return power_norm(x, n.weight, n.bias, psi2, nu, kAlpha, n.eps());
    return define::power_norm(x, n.weight, n.bias, psi2, n.eps());
  }
  void fields(Fields& f) override {
    f("psi2", psi2);
    f("nu", nu);
  }
  static constexpr double kAlpha = 0.9;
  Tensor psi2, nu;
};

/// The rule of a kind, with the gain and the bias that the kind has.
std::unique_ptr<NormRule> make_rule(NormKind kind, int64_t width, Parameter& weight, Parameter& bias) {
  switch (kind) {
    case NormKind::layer:
      weight = constant({width}, 1), bias = constant({width}, 0);
      return std::make_unique<LayerNorm>();
    case NormKind::rms: weight = constant({width}, 1); return std::make_unique<RmsNorm>();
    case NormKind::scale:
      weight = constant({1}, std::sqrt(static_cast<double>(width)));
      return std::make_unique<ScaleNorm>();
    case NormKind::ada: return std::make_unique<AdaNorm>();
    case NormKind::power:
      weight = constant({width}, 1), bias = constant({width}, 0);
      return std::make_unique<PowerNorm>(width);
  }
  fail("Norm: unknown kind");
}

}  // namespace

AddNorm NormRule::forward(const Norm& norm, const Tensor& x, const Tensor& residual) const {
  const Tensor sum = x + residual;
  return {sum, forward(norm, sum)};
}

Norm::Norm(int64_t width, NormKind kind, double eps)
    : width_(width), kind_(kind), eps_(eps), rule_(make_rule(kind, width, weight, bias)) {
  check(width > 0, "Norm: the width is {}, wanted at least 1", width);
}
Tensor Norm::forward(const Tensor& x) const { return rule_->forward(*this, x); }
AddNorm Norm::forward(const Tensor& x, const Tensor& residual) const {
  return rule_->forward(*this, x, residual);
}
void Norm::fields(Fields& f) {
  f("weight", weight);
  f("bias", bias);
  rule_->fields(f);
}
Norm Norm::clone() {
  return clone_into([this] { return Norm(width_, kind_, eps_); });
}

}  // namespace vitrine::nn
