// The ways to compute a derivative: the tape, paths for differences, dual numbers, and the Taylor
// remainder.
#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/gradcheck/parts.h"
#include "core/random.h"

namespace vitrine::gradients {

double dot(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (y[i] != 0) sum += x[i] * y[i];  // an infinity without weight counts 0
  return sum;
}

std::vector<double> unit(int64_t size, int64_t element) {
  std::vector<double> direction(static_cast<size_t>(size), 0);
  direction[static_cast<size_t>(element)] = 1;
  return direction;
}

std::string place(const Shape& shape, int64_t element) {
  Shape at = shape;
  for (int axis = shape.rank() - 1; axis >= 0; element /= shape[axis--]) at[axis] = element % shape[axis];
  return to_string(at);
}

Path path_along(const Problem& p, size_t k, std::vector<double> direction) {
  return [&p, k, direction = std::move(direction)](double t) {
    auto moved = p.inputs;
    moved[k] = shifted(p.inputs[k], direction, t);
    return p.f(moved).values();
  };
}

Path weighted(Path f, std::vector<double> weights) {
  return [f = std::move(f), weights = std::move(weights)](double t) {
    return std::vector<double>{dot(f(t), weights)};
  };
}

double step_scale(const Problem& p, size_t k, int64_t element) {
  return std::max(1.0, std::abs(p.inputs[k].values()[static_cast<size_t>(element)]));
}

std::vector<double> random_direction(const Tensor& x, uint64_t seed) {
  Generator generator(seed);
  return randn(x.shape(), DType::float64, Device::cpu, 0, 1, generator).values();
}

std::vector<Tensor> copies(const std::vector<Tensor>& xs) {
  std::vector<Tensor> result;
  for (const Tensor& x : xs) result.push_back(copy_as(x, x.dtype()));
  return result;
}

namespace {

/// Finds the ops on the tape that cut gradients or compute in less than float64.
void inspect(Problem& p, const Tape& tape, const std::vector<Tensor>& xs, const Tensor& y) {
  for (size_t k = 0; k < xs.size(); ++k) {
    if (xs[k].dtype() != DType::float64)
      p.low_precision = fmt::format("{} is {}", p.names[k], name(xs[k].dtype()));
    std::string reason = tape.explain(xs[k], y);
    if (reason.find("has a gradient") != std::string::npos) reason = "";
    for (const auto& [from, to] : {std::pair{describe(xs[k]).text(), "it"}, {"the loss", "y"}})
      for (size_t at; (at = reason.find(from)) != std::string::npos;) reason.replace(at, from.size(), to);
    if (!reason.empty() && p.inputs[k].requires_grad())
      reason += "; for a parameter that the function captures use GradientCheckOptions::parameters";
    p.disconnected.push_back(reason);
  }
  for (size_t i = 0; i < tape.size(); ++i) {
    const auto node = tape.info(i);
    if (node.output_slots.empty())
      p.cuts.push_back(fmt::format("{} (op {})", node.op, i));
    else if (p.low_precision.empty() && size_of(node.dtype) < size_of(DType::float64))
      p.low_precision = fmt::format("{} (op {}) gives {}", node.op, i, name(node.dtype));
  }
}

}  // namespace

/// The values as a tensor with y's shape and dtype.
Tensor seed(const std::vector<double>& values, const Tensor& y) {
  return copy_to(tensor(values, y.shape(), y.dtype()), y.device());
}

void differentiate(Problem& p) {
  const auto xs = copies(p.inputs);
  Tape tape;
  for (const Tensor& x : xs) tape.watch(x);
  const Tensor y = p.f(xs);
  inspect(p, tape, xs, y);
  if (p.options.prepare) p.options.prepare(tape);
  const auto pull = [&](const std::vector<double>& cotangent) {
    return tape.gradient(std::vector<Tensor>{y}, xs, {seed(cotangent, y)}, Keep::yes);
  };
  try {
    for (const Tensor& g : pull(p.weights)) p.gradients.push_back(g.values());
    if (p.probe != Probe::jacobian) return;
    const auto outputs = static_cast<size_t>(y.numel());
    for (const Tensor& x : xs) p.jacobians.emplace_back(static_cast<size_t>(x.numel()) * outputs);
    for (size_t j = 0; j < outputs; ++j) {
      const auto rows = pull(unit(y.numel(), static_cast<int64_t>(j)));
      for (size_t k = 0; k < xs.size(); ++k) {
        const auto row = rows[k].values();
        for (size_t i = 0; i < row.size(); ++i) p.jacobians[k][i * outputs + j] = row[i];
      }
    }
  } catch (const Error& e) {
    p.failure = e.what();
  }
}

std::vector<double> tangents(const Problem& p, size_t k, const std::vector<double>& direction) {
  std::vector<Tensor> xs;
  for (const Tensor& x : p.inputs) xs.push_back(copy_as(x, DType::dual64));
  for (size_t i = 0; i < direction.size(); ++i) xs[k].data<Dual>()[i].tangent = direction[i];
  const Tensor y = copy_as(p.f(xs), DType::dual64);
  std::vector<double> result(static_cast<size_t>(y.numel()));
  for (size_t i = 0; i < result.size(); ++i) result[i] = y.data<Dual>()[i].tangent;
  return result;
}

std::string refuses_duals(const Problem& p) {
  if (p.options.duals == Duals::where_possible && !p.low_precision.empty()) return p.low_precision;
  for (size_t k = 0; k < p.inputs.size(); ++k)
    if (!p.inputs[k].device().is_cpu())
      return fmt::format("{} is on {}, and only the CPU's kernels know dual numbers", p.names[k],
                         to_string(p.inputs[k].device()));
  try {
    tangents(p, 0, std::vector<double>(static_cast<size_t>(p.inputs[0].numel()), 0));
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

double taylor_slope(const Problem& p) {
  std::vector<std::vector<double>> directions;
  double slope = 0;
  for (size_t k = 0; k < p.inputs.size(); ++k) {
    directions.push_back(random_direction(p.inputs[k], p.options.seed + 10 * k + 3));
    slope += dot(directions[k], p.gradients[k]);
  }
  const auto value = [&](double t) {
    std::vector<Tensor> moved;
    for (size_t k = 0; k < p.inputs.size(); ++k) moved.push_back(shifted(p.inputs[k], directions[k], t));
    return dot(p.f(moved).values(), p.weights);
  };
  const double start = value(0);
  double rounding = epsilon(DType::float64) * std::abs(start);
  for (double t : {1e-7, 2e-7, 3e-7, 5e-7})
    rounding = std::max(rounding, std::abs(value(t) - 2 * start + value(-t)));
  // Compares the remainder at the smallest step where it is far above rounding with the remainder
  // at twice that step.
  double h = 0x1p-20, before = 0;
  for (; h <= 0.25; before = std::abs(value(h) - start - h * slope), h *= 2) {
    const double remainder = std::abs(value(h) - start - h * slope);
    if (remainder < 1000 * rounding || !(remainder > 0)) continue;
    // A sudden remainder means that the function is straight here and bends (or breaks) only
    // further away.
    if (h > 0x1p-20 && before < remainder / 20) return 0;
    return std::log2(std::abs(value(2 * h) - start - 2 * h * slope) / remainder);
  }
  return 0;
}

std::vector<double> derivatives(const Problem& p, const std::vector<Tensor>& at,
                                const std::vector<std::vector<double>>& directions, int order) {
  Tape tape({.order = order});
  for (const Tensor& x : at) tape.watch(x);
  std::vector<Tensor> g = {p.f(at)}, seeds = {seed(p.weights, g[0])};
  for (int n = 1; n <= order; ++n) {
    g = tape.gradient(g, at, seeds);
    seeds.clear();
    for (size_t k = 0; k < at.size(); ++k) seeds.push_back(seed(directions[k], g[k]));
  }
  std::vector<double> result;
  for (const Tensor& x : g) {
    const auto values = x.values();
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

}  // namespace vitrine::gradients
