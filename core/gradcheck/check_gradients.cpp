#include "core/gradcheck/check_gradients.h"

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/gradcheck/parts.h"

namespace vitrine {
namespace gradients {

namespace {

constexpr int kDirections = 4;
constexpr double kStep = 1e-3;
constexpr double kLargestLimit = 1e-6;
#ifdef VITRINE_SANITIZED  // where an evaluation is slow, and each runs the same code
constexpr int64_t kEvaluations = 1000;
#else
constexpr int64_t kEvaluations = 10000;
#endif

bool same(const Tensor& x, const Tensor& y) {
  return x.shape() == y.shape() && distance(x.values(), y.values(), 1) == 0;
}

Probe choose(Probe probe, int64_t inputs, int64_t outputs) {
  if (probe != Probe::automatic) return probe;
  if (inputs * outputs <= kEvaluations && outputs <= 500) return Probe::jacobian;
  return 4 * inputs <= kEvaluations ? Probe::elements : Probe::directions;
}

/// The derivatives of all outputs along a direction of input k.
using Column = std::function<std::vector<double>(size_t k, const std::vector<double>& direction)>;

/// A quantity that is compared: the derivative of Σ weights·y along a direction.
struct Quantity {
  std::vector<double> direction, weights;
};

/// The compared values of one input. Quantity number n is built when it is needed.
struct Comparison {
  std::vector<double> analytic, reference;
  double floor;
};

Quantity quantity(const Problem& p, size_t k, size_t n) {
  const Tensor& x = p.inputs[k];
  const auto outputs = static_cast<size_t>(p.y.numel());
  if (p.probe == Probe::jacobian)
    return {unit(x.numel(), static_cast<int64_t>(n / outputs)),
            unit(p.y.numel(), static_cast<int64_t>(n % outputs))};
  if (p.probe == Probe::elements) return {unit(x.numel(), static_cast<int64_t>(n)), p.weights};
  return {random_direction(x, p.options.seed + 100 * k + n + 1), p.weights};
}

Comparison compare(const Problem& p, size_t k, const Column& column) {
  const int64_t elements = p.inputs[k].numel();
  const auto& g = p.gradients[k];
  Comparison c{{}, {}, p.options.floor};
  if (p.probe == Probe::directions) {
    c.floor = std::max(c.floor, std::sqrt(dot(g, g)));
    for (size_t n = 0; n < (elements == 0 ? 0 : kDirections); ++n) {
      const auto direction = quantity(p, k, n).direction;
      c.analytic.push_back(dot(direction, g));
      c.reference.push_back(dot(column(k, direction), p.weights));
    }
    return c;
  }
  c.analytic = p.probe == Probe::jacobian ? p.jacobians[k] : g;
  for (int64_t i = 0; i < elements; ++i) {
    const auto slopes = column(k, unit(elements, i));
    if (p.probe == Probe::jacobian)
      c.reference.insert(c.reference.end(), slopes.begin(), slopes.end());
    else
      c.reference.push_back(dot(slopes, p.weights));
  }
  return c;
}

size_t worst_of(const Comparison& c) {
  size_t worst = 0;
  double largest = 0;
  for (size_t i = 0; i < c.analytic.size(); ++i) {
    const double error =
        distance({c.analytic[i]}, {c.reference[i]}, 1) * std::max(1.0, std::abs(c.reference[i]));
    if (!(error > largest)) continue;
    largest = error;
    worst = i;
  }
  return worst;
}

/// Differences with one step size may be wrong. If they disagree, the worst quantity is computed
/// again with all step sizes, until one stays wrong or none is left. Returns how much that quantity
/// changed between step sizes. The limit grows with these changes, up to kLargestLimit.
double refine(const Problem& p, size_t k, Comparison& c, double& limit) {
  for (size_t tries = 0; tries <= c.reference.size(); ++tries) {
    if (distance(c.analytic, c.reference, c.floor) <= limit) return 0;
    const size_t worst = worst_of(c);
    const Quantity q = quantity(p, k, worst);
    double scale = 1;
    for (size_t i = 0; i < q.direction.size() && p.probe != Probe::directions; ++i)
      if (q.direction[i] != 0) scale = step_scale(p, k, static_cast<int64_t>(i));
    const auto settled = settled_difference(weighted(path_along(p, k, q.direction), q.weights), scale);
    c.reference[worst] = settled.slope[0];
    const double size = std::max(c.floor, std::abs(c.reference[worst]));
    limit = std::max(limit, std::min(10 * settled.uncertainty / size, kLargestLimit));
    if (!(std::abs(c.analytic[worst] - c.reference[worst]) <= limit * size)) return settled.uncertainty;
  }
  return 0;
}

/// Finds the element with the wrong gradient, given that the gradient along `direction` is wrong. A
/// binary search follows the half with the larger error.
int64_t find_element(const Problem& p, size_t k, const std::vector<double>& direction) {
  int64_t begin = 0, end = p.inputs[k].numel();
  const auto error = [&](int64_t from, int64_t to) {
    std::vector<double> part(direction.size(), 0);
    std::copy(direction.begin() + from, direction.begin() + to, part.begin() + from);
    const double slope = central_difference(weighted(path_along(p, k, part), p.weights), kStep)[0];
    return std::abs(slope - dot(part, p.gradients[k]));
  };
  while (end - begin > 1) {
    const int64_t middle = begin + (end - begin) / 2;
    (error(begin, middle) >= error(middle, end) ? end : begin) = middle;
  }
  return begin;
}

/// Notes the worst quantity of a comparison that failed. Returns the index of the input's element.
int64_t note_worst(const Problem& p, size_t k, const Comparison& c, double uncertainty,
                   GradientReport::Input& r) {
  const size_t worst = worst_of(c);
  const Tensor& x = p.inputs[k];
  const auto outputs = static_cast<size_t>(p.y.numel());
  auto element = static_cast<int64_t>(worst);
  r.analytic = c.analytic[worst];
  r.numeric = c.reference[worst];
  r.uncertainty = uncertainty;
  if (p.probe == Probe::jacobian) {
    element = static_cast<int64_t>(worst / outputs);
    r.output = place(p.y.shape(), static_cast<int64_t>(worst % outputs));
  } else if (p.probe == Probe::directions) {
    element = find_element(p, k, quantity(p, k, worst).direction);
    const auto settled = settled_difference(weighted(path_along(p, k, unit(x.numel(), element)), p.weights),
                                            step_scale(p, k, element));
    r.analytic = p.gradients[k][static_cast<size_t>(element)];
    r.numeric = settled.slope[0];
    r.uncertainty = settled.uncertainty;
  }
  r.element = place(x.shape(), element);
  return element;
}

void fail_report(GradientReport& report, Cause cause, std::string explanation) {
  report.passed = false;
  report.cause = cause;
  report.explanation = std::move(explanation);
}

/// Compares derivatives of `order` with the change along u of those one order below. As derivatives
/// are symmetric, this change is ∂⟨u, g⟩/∂x.
void check_order(const Problem& p, int order, GradientReport& report) {
  std::vector<std::vector<double>> directions;
  for (const Tensor& x : p.inputs) directions.push_back(random_direction(x, 11));
  const Path path = [&](double t) {
    std::vector<Tensor> moved;
    for (size_t k = 0; k < p.inputs.size(); ++k) moved.push_back(shifted(p.inputs[k], directions[k], t));
    return derivatives(p, moved, directions, order - 1);
  };
  std::vector<double> got;
  try {
    got = derivatives(p, copies(p.inputs), directions, order);
  } catch (const Error& e) {
    fail_report(report, Cause::failed, fmt::format("the derivative of order {}: {}", order, e.what()));
    return;
  }
  const auto want = central_difference(path, 2 * kStep);
  const double tolerance = std::max(p.options.tolerance, kLargestLimit) * std::pow(10, order - 2);
  size_t begin = 0;
  for (size_t k = 0; k < p.inputs.size(); ++k) {
    const size_t end = begin + static_cast<size_t>(p.inputs[k].numel());
    const auto part = [&](const std::vector<double>& all) {
      return std::vector<double>(all.begin() + static_cast<int64_t>(begin),
                                 all.begin() + static_cast<int64_t>(end));
    };
    Comparison c{part(got), part(want), p.options.floor};
    double uncertainty = 0;
    if (distance(c.analytic, c.reference, c.floor) > tolerance) {
      const auto settled = settled_difference(path);
      c.reference = part(settled.slope);
      uncertainty = settled.uncertainty;
    }
    GradientReport::Input& r = report.inputs[k];
    r.higher_errors.push_back(distance(c.analytic, c.reference, c.floor));
    if (r.higher_errors.back() > tolerance && report.passed) {
      const size_t worst = worst_of(c);
      r.passed = report.passed = false;
      r.element = place(p.inputs[k].shape(), static_cast<int64_t>(worst));
      r.analytic = c.analytic[worst];
      r.numeric = c.reference[worst];
      r.uncertainty = uncertainty;
      report.worst = k;
      const Diagnosis d = diagnose_ratios(c.analytic, c.reference, 1e-3);
      report.cause = d.cause;
      report.explanation =
          fmt::format("the first derivative is right, but that of order {} {}", order, d.explanation);
    }
    begin = end;
  }
}

}  // namespace

void check_first_order(const Problem& p, GradientReport& report) {
  const bool duals = p.options.duals != Duals::no;
  if (duals) report.dual_note = refuses_duals(p);
  std::vector<int64_t> elements(p.inputs.size(), 0);
  double largest = 0;
  for (size_t k = 0; k < p.inputs.size(); ++k) {
    GradientReport::Input& r = report.inputs[k];
    const auto settle = [&](const Comparison& c, double error, double tolerance, double uncertainty) {
      r.used = r.used || std::any_of(c.reference.begin(), c.reference.end(), [](double d) { return d != 0; });
      if (error <= tolerance || !r.passed) return;
      r.passed = report.passed = false;
      elements[k] = note_worst(p, k, c, uncertainty, r);
      if (error > largest) {
        largest = error;
        report.worst = k;
      }
    };
    r.used = p.inputs[k].numel() == 0;
    if (p.options.differences) {
      const auto with_step = [&](double h) {
        return compare(p, k, [&p, h](size_t input, const std::vector<double>& direction) {
          return central_difference(path_along(p, input, direction), h);
        });
      };
      Comparison c = with_step(kStep);
      r.limit = p.options.tolerance;
      if (distance(c.analytic, c.reference, c.floor) > r.limit) {
        const double change = distance(with_step(kStep / 2).reference, c.reference, c.floor);
        r.limit = std::max(r.limit, std::min(10 * change, kLargestLimit));
      }
      const double uncertainty = refine(p, k, c, r.limit);
      r.difference_error = distance(c.analytic, c.reference, c.floor);
      settle(c, r.difference_error, r.limit, uncertainty);
    }
    if (duals && report.dual_note.empty()) {
      const Comparison c = compare(p, k, [&](size_t input, const std::vector<double>& direction) {
        return tangents(p, input, direction);
      });
      r.dual_error = distance(c.analytic, c.reference, c.floor);
      settle(c, r.dual_error, p.options.dual_tolerance, 0);
    }
  }
  if (!report.passed) {
    const Diagnosis d = diagnose(p, report.worst, elements[report.worst]);
    report.cause = d.cause;
    report.explanation = d.explanation;
  }
}

std::string describe_probe(const Problem& p, int64_t elements) {
  switch (p.probe) {
    case Probe::jacobian: return fmt::format("every ∂y/∂x, {} × {}", p.y.numel(), elements);
    case Probe::elements: return fmt::format("each of {} elements of the gradient of Σ c·y", elements);
    default: return fmt::format("Σ c·y along {} random directions per input", kDirections);
  }
}

}  // namespace gradients

GradientReport check_gradients(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                               const std::vector<Tensor>& inputs, const GradientCheckOptions& options) {
  std::vector<Tensor> all = inputs;
  std::vector<std::string> names;
  for (size_t k = 0; k < inputs.size(); ++k) names.push_back(fmt::format("input {}", k));
  std::vector<Parameter> checked;
  for (const Parameter& p : options.parameters) {
    const bool again = std::any_of(checked.begin(), checked.end(),
                                   [&p](const Parameter& q) { return q.identity() == p.identity(); });
    if (!p.requires_grad() || again) continue;
    names.push_back(p.name().empty() ? fmt::format("parameter {}", checked.size()) : p.name());
    all.push_back(copy_as(p.value(), p.dtype()));
    checked.push_back(p);
  }
  check(!all.empty(), "check_gradients: there are no inputs, and no parameters that require a gradient");
  if (checked.empty()) return gradients::check_named(f, all, names, options);
  // Until the next call: a backward that runs the function again, as recompute() does, reads them.
  std::vector<Parameter::Substitute> substitutes;
  const auto of_all = [&](const std::vector<Tensor>& xs) {
    substitutes.clear();
    for (size_t i = 0; i < checked.size(); ++i) substitutes.emplace_back(checked[i], xs[inputs.size() + i]);
    return f({xs.begin(), xs.begin() + static_cast<int64_t>(inputs.size())});
  };
  return gradients::check_named(of_all, all, names, options);
}

namespace gradients {

GradientReport check_named(const Function& f, const std::vector<Tensor>& inputs,
                           const std::vector<std::string>& names, const GradientCheckOptions& options) {
  const Tape::Pause pause;
  GradientReport report;
  int64_t elements = 0;
  for (size_t k = 0; k < inputs.size(); ++k) {
    check(is_floating(inputs[k].dtype()) && inputs[k].dtype() != DType::dual64,
          "check_gradients: {} is {}, wanted float64", names[k], describe(inputs[k]));
    report.inputs.push_back(
        {.name = names[k], .what = fmt::format("{}{}", name(inputs[k].dtype()), inputs[k].shape())});
    elements += inputs[k].numel();
  }
  Problem p{f, inputs, names, options, Probe::automatic, f(inputs), {}, {}, {}, {}, {}, {}, {}};
  check(is_floating(p.y.dtype()), "check_gradients: y is {}, which has no gradient", describe(p.y));
  p.probe = choose(options.probe, elements, p.y.numel());
  p.weights = random_direction(p.y, options.seed);
  report.method = describe_probe(p, elements);
  if (!same(p.y, f(inputs))) {
    fail_report(
        report, Cause::random,
        "at the same point the function gave different values twice: seed its random numbers inside of it");
    return report;
  }
  differentiate(p);
  if (!p.failure.empty()) {
    const Diagnosis d = diagnose_failure(p.failure);
    fail_report(report, d.cause, d.explanation);
    return report;
  }
  check_first_order(p, report);
  if (options.duals == Duals::yes && !report.dual_note.empty() && report.passed)
    fail_report(report, Cause::failed, "on dual numbers: " + report.dual_note);
  if (options.taylor) report.taylor_slope = taylor_slope(p);
  if (report.passed && report.taylor_slope != 0 && !(report.taylor_slope > 1.8)) {
    const Diagnosis d = diagnose_remainder(p);
    fail_report(report, d.cause, d.explanation);
  }
  for (int order = 2; order <= options.order && report.passed; ++order) check_order(p, order, report);
  return report;
}

}  // namespace gradients
}  // namespace vitrine
