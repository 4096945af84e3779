#include "core/print.h"

#include <algorithm>
#include <cmath>
#include <ostream>

namespace vitrine {
namespace {

constexpr int64_t kSummarizeAbove = 1000;
constexpr int64_t kEdge = 3;

struct Printer {
  const Shape& shape;
  const std::vector<double>& values;
  bool summarize;
  int precision;
  DType dtype;
  bool scientific = false;
  bool whole = true;
  size_t width = 0;

  std::string element(double v) const {
    if (dtype == DType::boolean) return v != 0 ? "true" : "false";
    if (!is_floating(dtype)) return fmt::format("{}", static_cast<int64_t>(v));
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
    if (scientific) return fmt::format("{:.{}e}", v, precision);
    if (whole) return fmt::format("{:.0f}.", v);
    return fmt::format("{:.{}f}", v, precision);
  }

  bool shown(int64_t i, int64_t size) const {
    return !summarize || i < kEdge || i >= size - kEdge || size <= 2 * kEdge;
  }

  /// Calls f(index) for the elements that will be printed.
  template <class F>
  void visit(int axis, int64_t base, const F& f) const {
    if (axis == shape.rank()) return f(base);
    for (int64_t i = 0; i < shape[axis]; ++i)
      if (shown(i, shape[axis])) visit(axis + 1, base * shape[axis] + i, f);
  }

  std::string text(int axis, int64_t base, size_t indent) const {
    if (axis == shape.rank()) {
      std::string s = element(values[static_cast<size_t>(base)]);
      return std::string(width - std::min(width, s.size()), ' ') + s;
    }
    const bool last = axis + 1 == shape.rank();
    const std::string separator = last ? ", "
                                       : "," +
                                             std::string(static_cast<size_t>(shape.rank() - axis - 1), '\n') +
                                             std::string(indent + 1, ' ');
    std::string result = "[";
    bool gap = false, first = true;
    for (int64_t i = 0; i < shape[axis]; ++i) {
      if (!shown(i, shape[axis])) {
        gap = true;
        continue;
      }
      if (!first) result += separator;
      if (std::exchange(gap, false)) result += "..." + separator;
      result += text(axis + 1, base * shape[axis] + i, indent + 1);
      first = false;
    }
    return result + "]";
  }
};

}  // namespace

std::string to_string(const Tensor& x, int precision) {
  if (!x.defined()) return "an undefined tensor";
  const std::vector<double> values = x.values();
  Printer printer{x.shape(), values, x.numel() > kSummarizeAbove, precision, x.dtype()};
  double largest = 0, smallest = INFINITY;
  printer.visit(0, 0, [&](int64_t i) {
    const double v = std::abs(values[static_cast<size_t>(i)]);
    if (!std::isfinite(v) || v == 0) return;
    largest = std::max(largest, v);
    smallest = std::min(smallest, v);
    printer.whole &= v == std::floor(v);
  });
  printer.scientific = is_floating(x.dtype()) && largest > 0 &&
                       (largest >= 1e8 || (!printer.whole && (smallest < 1e-4 || largest / smallest > 1e3)));
  if (x.numel() > 0)
    printer.visit(0, 0, [&](int64_t i) {
      printer.width = std::max(printer.width, printer.element(values[static_cast<size_t>(i)]).size());
    });
  return printer.text(0, 0, 0) + " " + describe(x).text();
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << to_string(x); }

}  // namespace vitrine
