#include "tests/programs/ops.h"

#include <algorithm>

#include "ops/reduce.h"
#include "ops/sort.h"

namespace vitrine::programs {

size_t Choice::recent(size_t n) {
  const double u = generator_.next_uniform();
  return n - 1 - std::min(n - 1, static_cast<size_t>(u * u * static_cast<double>(n)));
}

const std::vector<Op>& table() {
  static const std::vector<Op> all = [] {
    std::vector<Op> ops;
    for (const auto family :
         {elementwise_ops, shape_ops, reduction_ops, kernel_ops, convolution_ops, tape_ops})
      for (Op& op : family()) ops.push_back(std::move(op));
    return ops;
  }();
  return all;
}

const Op& op(const std::string& name) {
  for (const Op& row : table())
    if (row.name == name) return row;
  fail("there is no op {} in the table of programs", name);
}

std::optional<Fit> same(Choice&, const Shape& x) { return Fit{{x}}; }

std::optional<Fit> two_alike(Choice&, const Shape& x) { return Fit{{x, x}}; }

std::optional<Fit> broadcasting(Choice& choice, const Shape& x) {
  Shape y = x;
  const int64_t kind = choice.below(4);
  if (kind == 1)
    for (int64_t& size : y)
      if (choice.chance(0.5)) size = 1;
  if (kind == 2)
    while (!y.empty() && choice.chance(0.5)) y.erase(0);
  if (kind == 3) y = {};
  if (choice.chance(0.5)) return Fit{{y, x}};
  return Fit{{x, y}};
}

int64_t any_axis(Choice& choice, const Shape& x) { return choice.between(-x.rank(), x.rank() - 1); }

std::optional<Fit> one_axis(Choice& choice, const Shape& x) {
  if (x.rank() == 0) return std::nullopt;
  return Fit{{x}, {.ints = {any_axis(choice, x)}}};
}

std::vector<int64_t> some_axes(Choice& choice, const Shape& x) {
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i)
    if (choice.chance(0.5)) axes.push_back(i);
  return axes;
}

std::vector<int64_t> tail(const std::vector<int64_t>& values, size_t from) {
  return {values.begin() + static_cast<std::ptrdiff_t>(from), values.end()};
}

bool separated(const Tensor& x) { return separated(reshape(x, {x.numel()}), 0); }

bool separated(const Tensor& x, int64_t axis) {
  const Tensor sorted = sort(x, axis).values;
  const auto above = slice(sorted, axis, 1).values(), below = slice(sorted, axis, 0, -1).values();
  for (size_t i = 0; i < above.size(); ++i)
    if (above[i] - below[i] < kMargin) return false;
  return true;
}

}  // namespace vitrine::programs
