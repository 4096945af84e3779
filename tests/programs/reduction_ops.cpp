// Rows of reductions.
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "tests/programs/ops.h"

namespace vitrine::programs {
namespace {

/// Whether reduced axes stay, and which they are.
std::optional<Fit> over_axes(Choice& choice, const Shape& x) {
  Params p{.ints = {choice.below(2)}};
  for (const int64_t axis : some_axes(choice, x)) p.ints.push_back(axis);
  return Fit{{x}, p};
}

using Reduction = std::function<Tensor(const Tensor&, const Axes&, KeepAxes)>;

/// `extra` are the arguments between the axes and `keep`, `first` those before the axes, as C++.
Op reduction(const std::string& name, const Reduction& f, Domain domain = {}, double least = 0,
             const std::string& first = "", const std::string& extra = "") {
  Op op{name,
        name + "($0, " + first + "{%1*}, " + extra + "KeepAxes(%0))",
        over_axes,
        [f](const Values& x, const Params& p) {
          return f(x[0], tail(p.ints, 1), p.ints[0] != 0 ? KeepAxes::yes : KeepAxes::no);
        },
        {std::move(domain)}};
  op.least = least;
  return op;
}

std::optional<Fit> running(Choice& choice, const Shape& x) {
  if (x.rank() == 0) return std::nullopt;
  return Fit{{x}, {.ints = {any_axis(choice, x), choice.below(2), choice.below(2)}}};
}

bool all_separated(const Values& x, const Params&) { return separated(x[0]); }

}  // namespace

std::vector<Op> reduction_ops() {
  std::vector<Op> ops = {
      reduction("sum", sum),
      reduction("mean", mean),
      reduction("prod", prod, {-2, 2}),
      reduction("max", max),
      reduction("min", min),
      reduction(
          "var", [](const Tensor& x, const Axes& axes, KeepAxes keep) { return var(x, axes, 0, keep); }, {},
          0, "", "0, "),
      reduction(
          "std", [](const Tensor& x, const Axes& axes, KeepAxes keep) { return std(x, axes, 0, keep); }, {},
          0.1, "", "0, "),
      reduction(
          "norm", [](const Tensor& x, const Axes& axes, KeepAxes keep) { return norm(x, 2, axes, keep); }, {},
          0.2, "2, "),
      reduction(
          "norm", [](const Tensor& x, const Axes& axes, KeepAxes keep) { return norm(x, 3, axes, keep); },
          {-10, 10, {0}}, 0.2, "3, "),
      reduction("log_sum_exp", log_sum_exp),
      {"cumsum", "cumsum($0, %0, %1 != 0, %2 != 0)", running,
       [](const Values& x, const Params& p) {
         return cumsum(x[0], p.ints[0], p.ints[1] != 0, p.ints[2] != 0);
       }},
  };
  for (Op& op : ops)
    if (op.name == "max" || op.name == "min") op.holds = all_separated;
  return ops;
}

}  // namespace vitrine::programs
