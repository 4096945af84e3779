#include "core/print.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "core/creation.h"
#include "core/gpu/capture.h"
#include "core/tensor_kernels.h"

namespace vitrine {
namespace {

constexpr int64_t kSummarizeAbove = 1000;
constexpr int64_t kEdge = 3;

/// Copies the shown elements of x to y: whole axes of equal size, and both ends of longer axes.
void copy_shown(Tensor y, const Tensor& x, int axis) {
  if (axis == x.rank()) {
    VITRINE_RUN(copy, y, x);
  } else if (x.shape()[axis] == y.shape()[axis]) {
    copy_shown(y, x, axis + 1);
  } else {
    const auto end = [axis](const Tensor& t, int64_t from) {
      Shape shape = t.shape();
      shape[axis] = kEdge;
      return t.alias(shape, t.strides(), from * t.strides()[axis]);
    };
    // Both ends have kEdge elements, so that the halves have equal sizes and the recursion goes on
    // to the next axes.
    copy_shown(end(y, 0), end(x, 0), axis + 1);
    copy_shown(end(y, kEdge), end(x, x.shape()[axis] - kEdge), axis + 1);
  }
}

/// The elements of x that are printed, in the CPU's memory.
Tensor shown(const Tensor& x) {
  if (x.numel() <= kSummarizeAbove) return copy_to(x, Device::cpu);
  Shape shape = x.shape();
  for (int64_t& size : shape) size = std::min(size, 2 * kEdge);
  const Tensor y = empty(shape, x.dtype(), x.device());
  copy_shown(y, x, 0);
  return copy_to(y, Device::cpu);
}

/// The format of a tensor's numbers, with the same digits for all.
struct Format {
  bool scientific;
  int digits;

  std::string number(double v) const {
    return scientific ? fmt::format("{:#.{}e}", v, digits) : fmt::format("{:#.{}f}", v, digits);
  }
  std::string text(double v) const {
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
    std::string s = number(v);
    // Decimal points are aligned, and zeros after the last digit become blanks.
    for (auto c = s.rbegin(); !scientific && *c == '0'; ++c) *c = ' ';
    return s;
  }
};

/// Fixed notation if it keeps the digits of all numbers. The number of digits is the largest that
/// any number needs.
Format format_of(const std::vector<double>& values, int precision) {
  double largest = 0, smallest = INFINITY;
  bool whole = true;
  for (double v : values) {
    if (!std::isfinite(v) || v == 0) continue;
    largest = std::max(largest, std::abs(v));
    smallest = std::min(smallest, std::abs(v));
    whole &= v == std::floor(v);
  }
  const bool scientific = largest >= 1e8 || (!whole && (smallest < 1e-4 || largest / smallest > 1e3));
  const Format all{scientific, precision};
  Format needed{scientific, 0};
  for (double v : values) {
    if (!std::isfinite(v)) continue;
    const std::string s = all.number(v);
    const size_t point = s.find('.'), last = s.find_last_not_of('0', s.find('e') - 1);
    needed.digits = std::max(needed.digits, static_cast<int>(last - point));
  }
  return needed;
}

std::vector<std::string> texts_of(const Tensor& x, int precision) {
  std::vector<std::string> texts;
  if (x.dtype() == DType::int64) {  // not through double, which cannot represent all int64
    const int64_t* const data = x.data<int64_t>();
    for (int64_t i = 0; i < x.numel(); ++i) texts.push_back(fmt::to_string(data[i]));
    return texts;
  }
  const auto values = x.values();
  const Format format = format_of(values, precision);
  for (double v : values)
    texts.push_back(x.dtype() == DType::boolean ? (v != 0 ? "true" : "false")
                    : is_floating(x.dtype())    ? format.text(v)
                                                : fmt::to_string(static_cast<int64_t>(v)));
  return texts;
}

/// Nested brackets, with "..." if an axis of `whole` is longer than its shown part.
struct Brackets {
  const Shape& whole;
  const Shape& shape;
  std::vector<std::string> texts;  ///< all of the same width

  std::string text(int axis, int64_t base) const {
    if (axis == shape.rank()) return texts[static_cast<size_t>(base)];
    const auto below = static_cast<size_t>(shape.rank() - axis - 1), indent = static_cast<size_t>(axis + 1);
    const std::string separator =
        below == 0 ? ", " : "," + std::string(below, '\n') + std::string(indent, ' ');
    std::string result = "[";
    for (int64_t i = 0; i < shape[axis]; ++i) {
      if (i > 0) result += separator;
      if (i == kEdge && shape[axis] != whole[axis]) result += "..." + separator;
      result += text(axis + 1, base * shape[axis] + i);
    }
    return result + "]";
  }
};

}  // namespace

std::string to_string(const Tensor& x, int precision) {
  if (!x.defined()) return "an undefined tensor";
  if (x.numel() == 0) return "[] " + describe(x).text();
  if (!x.device().is_cpu()) detail::refuse_in_capture("print");
  const Tensor y = shown(x);
  Brackets brackets{x.shape(), y.shape(), texts_of(y, precision)};
  size_t width = 0;
  for (const std::string& s : brackets.texts) width = std::max(width, s.size());
  for (std::string& s : brackets.texts) s.insert(0, width - s.size(), ' ');
  return brackets.text(0, 0) + " " + describe(x).text();
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << to_string(x); }

}  // namespace vitrine
