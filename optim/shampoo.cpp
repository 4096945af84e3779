#include "optim/shampoo.h"

#include <cmath>

#include "core/tensor_kernels.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/view.h"
#include "optim/matrix_root.h"

namespace vitrine::optim {
namespace {

/// g, limited so that sums of squares are finite; NaN if g is NaN or infinite.
Tensor limited(const Tensor& g) {
  const double most = g.dtype() == DType::float64 ? 0x1p400 : 0x1p50;
  return clamp(g, -most, most) + g * 0.0;
}

/// A side of matrices: its statistics, and the root that multiplies g.
struct Side {
  std::vector<Tensor> statistics, roots;  // undefined where a parameter has none
};

/// Writes the roots of all statistics, of which `other` says whether the other side has some too.
void refresh(Side& side, const Side& other, double eps) {
  for (const bool both : {false, true}) {
    std::vector<Tensor> matrices, roots;
    for (size_t i = 0; i < side.statistics.size(); ++i)
      if (side.statistics[i].defined() && other.statistics[i].defined() == both)
        matrices.push_back(side.statistics[i]), roots.push_back(side.roots[i]);
    const std::vector<Tensor> values = inverse_roots(matrices, both ? 4 : 2, eps);
    for (size_t i = 0; i < roots.size(); ++i) VITRINE_RUN(copy, roots[i], values[i]);
  }
}

}  // namespace

Shampoo::Shampoo(std::vector<Parameter> parameters, ShampooOptions o)
    : Optimizer(std::move(parameters), {o.lr, o.weight_decay}), options_(o) {
  check(o.eps > 0 && std::isfinite(o.eps), "Shampoo: eps is {}, wanted a finite number above 0", o.eps);
  check(o.every >= 1, "Shampoo: every is {}, wanted at least 1 step", o.every);
  check(o.largest >= 0, "Shampoo: largest is {}, wanted at least 0", o.largest);
}

void Shampoo::update(ParameterBatch& batch, const GroupOptions& group, int64_t t) {
  Side left{batch.slots("left"), batch.slots("left_root")},
      right{batch.slots("right"), batch.slots("right_root")};
  std::vector<Tensor> squares = batch.slots("squares"), g;
  for (size_t i = 0; i < batch.g.size(); ++i) {
    g.push_back(limited(batch.g[i]));
    if (squares[i].defined()) {
      add_in_place(squares[i], square(g[i]));
      continue;
    }
    g[i] = reshape(g[i], {g[i].size(0), -1});
    if (left.statistics[i].defined()) add_in_place(left.statistics[i], matmul(g[i], transpose(g[i])));
    if (right.statistics[i].defined()) add_in_place(right.statistics[i], matmul(transpose(g[i]), g[i]));
  }
  if ((t - 1) % options_.every == 0) {
    refresh(left, right, options_.eps);
    refresh(right, left, options_.eps);
  }
  for (size_t i = 0; i < g.size(); ++i) {
    Tensor direction = squares[i].defined() ? g[i] / sqrt(squares[i] + options_.eps) : g[i];
    if (left.roots[i].defined()) direction = matmul(left.roots[i], direction);
    if (right.roots[i].defined()) direction = matmul(direction, right.roots[i]);
    batch.x[i] =
        (1 - group.lr * group.weight_decay) * batch.x[i] - group.lr * reshape(direction, batch.x[i].shape());
  }
}

std::vector<Optimizer::StateSlot> Shampoo::slots(const Parameter& p) const {
  std::vector<StateSlot> slots;
  if (p.shape().rank() >= 2 && p.numel() > 0) {
    const int64_t rows = p.shape()[0], columns = p.numel() / rows;
    const auto add = [&](const char* name, int64_t n) {
      if (n > options_.largest) return;
      slots.push_back({.name = name, .shape = {n, n}});
      slots.push_back({.name = std::string(name) + "_root", .shape = {n, n}});
    };
    add("left", rows);
    add("right", columns);
  }
  if (slots.empty()) slots.push_back({.name = "squares", .shape = p.shape()});
  return slots;
}

}  // namespace vitrine::optim
