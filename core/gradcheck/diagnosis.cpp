// Finds the likely cause of a wrong gradient.
#include <algorithm>
#include <cmath>

#include "core/gradcheck/parts.h"

namespace vitrine::gradients {
namespace {

/// Some elements of the input with the wrong gradient, and the derivative of every output along
/// each.
struct Samples {
  std::vector<int64_t> elements;
  std::vector<std::vector<double>> columns;
  std::vector<double> analytic, numeric;  ///< of Σ c·y
  double h;                               ///< a suitable step size
};

Samples take_samples(const Problem& p, size_t k, int64_t worst) {
  constexpr int64_t kMost = 16;
  Samples s;
  s.elements.push_back(worst);
  const int64_t count = p.inputs[k].numel(), stride = std::max<int64_t>(1, count / kMost);
  for (int64_t i = 0; i < count; i += stride)
    if (i != worst) s.elements.push_back(i);
  const auto settled =
      settled_difference(weighted(path_along(p, k, unit(count, worst)), p.weights), step_scale(p, k, worst));
  s.h = settled.h;
  for (int64_t i : s.elements) {
    s.columns.push_back(central_difference(path_along(p, k, unit(count, i)), settled.h));
    s.analytic.push_back(p.gradients[k][static_cast<size_t>(i)]);
    s.numeric.push_back(dot(s.columns.back(), p.weights));
  }
  return s;
}

bool finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

double largest(const std::vector<double>& values) {
  double result = 0;
  for (double v : values) result = std::max(result, std::abs(v));
  return result;
}

/// "2/3" if the number is a ratio of small integers, else "".
std::string fraction(double value) {
  for (int denominator = 1; denominator <= 16; ++denominator) {
    const double numerator = std::round(value * denominator);
    if (numerator != 0 && std::abs(numerator) <= 16 &&
        std::abs(value - numerator / denominator) < 1e-5 * std::abs(value))
      return denominator == 1 ? fmt::format("{}", numerator) : fmt::format("{}/{}", numerator, denominator);
  }
  return "";
}

/// A likely origin of a factor: a mean instead of a sum, or a sum instead of a mean.
std::string meaning(const Problem& p, double factor) {
  const auto near = [&](double wanted) { return std::abs(factor - wanted) < 1e-4 * wanted; };
  const auto sized = [&](int64_t n, const std::string& what) {
    if (n <= 1 || !(near(1.0 / static_cast<double>(n)) || near(static_cast<double>(n)))) return std::string();
    return fmt::format("; {} is {}: {}?", n, what,
                       factor < 1 ? "a mean in place of a sum" : "a sum in place of a mean");
  };
  for (int axis = 0; axis < p.y.rank(); ++axis) {
    const auto hint = sized(p.y.shape()[axis], fmt::format("the size of axis {} of y", axis));
    if (!hint.empty()) return hint;
  }
  return sized(p.y.numel(), "the number of elements of y");
}

/// Describes a kink or a jump at the point: one-sided slopes differ for every step size.
std::string kink_at(const Problem& p, size_t k, int64_t element, double h) {
  const Path f = weighted(path_along(p, k, unit(p.inputs[k].numel(), element)), p.weights);
  const double middle = f(0)[0];
  struct Sides {
    double left, right, gap;
  };
  const auto sides = [&](double step) {
    const double before = f(-step)[0], after = f(step)[0];
    return Sides{(middle - before) / step, (after - middle) / step, after - before};
  };
  const Sides wide = sides(10 * h), narrow = sides(h);
  const std::string where = fmt::format("at {} of {}", place(p.inputs[k].shape(), element), p.names[k]);
  if (std::abs(narrow.gap) > 0.5 * std::abs(wide.gap) &&
      std::abs(narrow.gap) > 1e-6 * std::max(1.0, std::abs(middle)))
    return fmt::format("{} the function jumps by {:.4g}", where, narrow.gap);
  const double bend = narrow.right - narrow.left;
  const double size = std::max({p.options.floor, std::abs(narrow.left), std::abs(narrow.right)});
  const bool lasts = std::abs(bend - (wide.right - wide.left)) < 0.2 * std::abs(bend);
  if (!(std::abs(bend) > 1e-3 * size && lasts)) return "";
  return fmt::format(
      "{} the slope of Σ c·y is {:.6g} on the left and {:.6g} on the right: it has no derivative there",
      where, narrow.left, narrow.right);
}

/// If the gradient counts only one slice of y along an axis, that slice: "slice 0 along axis 1 of
/// y".
std::string counted_slice(const Problem& p, const Samples& s) {
  if (p.y.numel() == 0) return "";
  int64_t inner = p.y.numel();
  for (int axis = 0; axis < p.y.rank(); ++axis) {
    const int64_t size = p.y.shape()[axis];
    inner /= size;
    for (int64_t slice = 0; slice < size && size > 1; ++slice) {
      double error = 0;
      for (size_t n = 0; n < s.elements.size(); ++n) {
        double sum = 0;
        for (size_t j = 0; j < p.weights.size(); ++j)
          if (static_cast<int64_t>(j) / inner % size == slice) sum += p.weights[j] * s.columns[n][j];
        error = std::max(error, std::abs(sum - s.analytic[n]));
      }
      if (error < 1e-4 * largest(s.analytic)) return fmt::format("slice {} along axis {} of y", slice, axis);
    }
  }
  return "";
}

/// Whether the gradient has the right numbers, but with the last two axes swapped.
bool transposed(const Problem& p, size_t k, const Samples& s) {
  const Shape& shape = p.inputs[k].shape();
  const int rank = shape.rank();
  if (rank < 2 || largest(s.numeric) == 0) return false;
  const int64_t rows = shape[rank - 2], columns = shape[rank - 1];
  std::vector<double> moved;
  for (const int64_t element : s.elements) {
    const int64_t matrix = element / (rows * columns), row = element / columns % rows,
                  column = element % columns;
    moved.push_back(p.gradients[k][static_cast<size_t>((matrix * columns + column) * rows + row)]);
  }
  return distance(moved, s.numeric, largest(s.numeric)) < 1e-4;
}

std::string join(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, ", ")); }

}  // namespace

Diagnosis diagnose_ratios(const std::vector<double>& analytic, const std::vector<double>& numeric,
                          double tolerance) {
  if (!finite(analytic) || !finite(numeric))
    return {Cause::not_finite,
            fmt::format("{} a NaN or an infinity",
                        finite(analytic) ? "cannot be checked: the differences have" : "has")};
  if (largest(analytic) == 0) return {Cause::zero, "is 0 everywhere"};
  const double ratio = dot(analytic, numeric) / dot(numeric, numeric);
  double rest = 0;
  for (size_t i = 0; i < analytic.size(); ++i)
    rest = std::max(rest, std::abs(analytic[i] - ratio * numeric[i]));
  if (rest <= tolerance * std::abs(ratio - 1) * largest(analytic)) {
    if (std::abs(ratio + 1) < 0.01) return {Cause::sign, "is the negative of what it should be"};
    const std::string exact = fraction(ratio);
    if (analytic.size() > 1 || !exact.empty())
      return {Cause::factor, fmt::format("is {} times what it should be",
                                         exact.empty() ? fmt::format("{:.6g}", ratio) : exact)};
  }
  size_t zeros = 0, wrong = 0;
  for (size_t i = 0; i < analytic.size(); ++i) {
    if (std::abs(analytic[i] - numeric[i]) <= 1e-4 * largest(numeric)) continue;
    ++wrong;
    zeros += analytic[i] == 0;
  }
  if (wrong > 0 && zeros == wrong)
    return {Cause::zero, fmt::format("is 0 at {} of {} elements looked at, where it should not be", zeros,
                                     analytic.size())};
  return {Cause::unknown,
          "is wrong, but not by a sign, a constant factor or a missing sum: a term of the formula?"};
}

Diagnosis diagnose(const Problem& p, size_t k, int64_t worst) {
  const Samples s = take_samples(p, k, worst);
  const std::string of = fmt::format("the gradient of {} ", p.names[k]);
  Diagnosis d = diagnose_ratios(s.analytic, s.numeric, p.low_precision.empty() ? 1e-4 : 0.02);
  if (d.cause == Cause::not_finite) return {d.cause, of + d.explanation};
  const std::string kink = kink_at(p, k, worst, s.h);
  if (!kink.empty()) return {Cause::kink, kink + "; check at another point"};
  const std::string cuts = p.cuts.empty() ? "" : "; the tape is cut by " + join(p.cuts);
  if (largest(p.gradients[k]) == 0 && !p.disconnected[k].empty())
    return {Cause::cut, of + "is 0: " + p.disconnected[k] + cuts};
  const std::string too_coarse =
      p.low_precision +
      ", too coarse for differences; check in float64: copy_as(x, DType::float64) for inputs, "
      "module.to(DType::float64) for parameters";
  // Differences in float32 have 2 or 3 correct digits, so a larger error is a wrong gradient.
  if (!p.low_precision.empty() && distance(s.analytic, s.numeric, p.options.floor) < 1e-2)
    return {Cause::low_precision, too_coarse};
  if (d.cause == Cause::sign) return {d.cause, of + d.explanation};
  if (transposed(p, k, s)) return {Cause::transposed, of + "has its last two axes exchanged"};
  const std::string slice = counted_slice(p, s);
  if (!slice.empty())
    return {Cause::missing_sum,
            of + "counts " + slice + " alone; where an input is broadcast, its gradient is the sum"};
  if (d.cause == Cause::factor) {
    const double ratio = dot(s.analytic, s.numeric) / dot(s.numeric, s.numeric);
    return {d.cause, of + d.explanation + meaning(p, ratio) + cuts};
  }
  if (d.cause == Cause::zero) return {d.cause, of + d.explanation + cuts};
  if (!p.cuts.empty()) return {Cause::cut, of + "lacks a part" + cuts};
  if (!p.low_precision.empty()) return {Cause::low_precision, too_coarse};
  return {d.cause, of + d.explanation};
}

Diagnosis diagnose_failure(const std::string& error) {
  if (error.find("returned a gradient of shape") == std::string::npos) return {Cause::failed, error};
  return {Cause::missing_sum, error + ": sum it over the axes along which the input was broadcast"};
}

Diagnosis diagnose_remainder(const Problem& p) {
  constexpr int64_t kMost = 1000;  // elements that are examined
  for (size_t k = 0; k < p.inputs.size(); ++k)
    for (int64_t i = 0; i < std::min(kMost, p.inputs[k].numel()); ++i) {
      const std::string kink = kink_at(p, k, i, 1e-4 * step_scale(p, k, i));
      if (!kink.empty()) return {Cause::kink, kink + "; check at another point"};
    }
  return {Cause::unknown, "the remainder of the Taylor polynomial does not fall as h²"};
}

}  // namespace vitrine::gradients
