// Reductions over any axes, and the softmax family.
#include <cmath>

#include "core/creation.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/onnx/adapters.h"

namespace vitrine::test {
namespace {

using Reduction = Tensor (*)(const Tensor&, const Axes&, KeepAxes);

/// An operator that reduces g(x). Without axes it reduces over all axes or, if the case requests
/// it, over none.
OnnxAdapter over_axes(Reduction f, Tensor (*g)(const Tensor&) = nullptr) {
  return [f, g](Case c) -> Outputs {
    const Tensor x = g == nullptr ? c.in(0) : g(c.in(0));
    const Axes axes = integers(c, 1, "axes");
    const KeepAxes keep = c.attribute("keepdims", 1) != 0 ? KeepAxes::yes : KeepAxes::no;
    const bool over_none = axes.empty() && c.attribute("noop_with_empty_axes", 0) != 0;
    return {over_none ? x : f(x, axes, keep)};
  };
}

/// In ONNX a reduction of no elements is `end` (for bool, false or true). In Vitrine, as in NumPy,
/// that is an error, so the element has to be supplied.
Tensor with_end(const Tensor& x, const Axes& axes, double end) {
  if (x.numel() > 0) return x;
  std::vector<int64_t> none(static_cast<size_t>(x.rank()), 0), one = none;
  for (int axis : check_axes("extreme", x.shape(), axes))
    if (x.size(axis) == 0) one[static_cast<size_t>(axis)] = 1;
  return pad(x, none, one, PadMode::constant, x.dtype() == DType::boolean && end < 0 ? 0 : end);
}

/// The operator's result has the dtype of x; our sums of integers are int64.
OnnxAdapter in_own_dtype(const OnnxAdapter& adapter) {
  return [adapter](Case c) -> Outputs { return {cast(adapter(c).at(0), c.in(0).dtype())}; };
}

/// Before opset 13 the axes from `axis` (1) on are merged into one. Since then it is a single axis,
/// by default the last.
OnnxAdapter along_axis(Tensor (*f)(const Tensor&, int64_t)) {
  return [f](Case c) -> Outputs {
    const Tensor x = c.in(0);
    if (c.opset >= 13) return {f(x, c.attribute("axis", int64_t{-1}))};
    const int axis = check_axis("softmax", x.shape(), c.attribute("axis", int64_t{1}));
    return {reshape(f(flatten(x, axis), axis), x.shape())};
  };
}

Tensor norm2(const Tensor& x, const Axes& axes, KeepAxes keep) { return norm(x, 2, axes, keep); }
Tensor log_sum(const Tensor& x, const Axes& axes, KeepAxes keep) { return log(sum(x, axes, keep)); }
Tensor log_sum_exp_or_end(const Tensor& x, const Axes& axes, KeepAxes keep) {
  return log_sum_exp(with_end(x, axes, -INFINITY), axes, keep);
}
Tensor largest(const Tensor& x, const Axes& axes, KeepAxes keep) {
  return max(with_end(x, axes, -INFINITY), axes, keep);
}
Tensor smallest(const Tensor& x, const Axes& axes, KeepAxes keep) {
  return min(with_end(x, axes, INFINITY), axes, keep);
}

}  // namespace

const OnnxAdapters kReductionAdapters = {
    {"ReduceL2", over_axes(norm2)},
    {"ReduceLogSum", over_axes(log_sum)},
    {"ReduceLogSumExp", over_axes(log_sum_exp_or_end)},
    {"ReduceMax", over_axes(largest)},
    {"ReduceMean", over_axes(mean)},
    {"ReduceMin", over_axes(smallest)},
    {"ReduceProd", in_own_dtype(over_axes(prod))},
    {"ReduceSum", in_own_dtype(over_axes(sum))},
    {"ReduceSumSquare", in_own_dtype(over_axes(sum, square))},

    {"GlobalAveragePool",
     [](Case c) -> Outputs {
       Axes axes;
       for (int axis = 2; axis < c.in(0).rank(); ++axis) axes.push_back(axis);
       return {mean(c.in(0), axes, KeepAxes::yes)};
     }},

    {"LogSoftmax", along_axis(log_softmax)},
    {"Softmax", along_axis(softmax)},
};

}  // namespace vitrine::test
