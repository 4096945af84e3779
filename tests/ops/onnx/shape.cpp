// Operators that change shapes, join, cut and repeat.
#include <numeric>

#include "core/creation.h"
#include "ops/join.h"
#include "ops/view.h"
#include "tests/ops/onnx/adapters.h"

namespace vitrine::test {

std::vector<int64_t> integers(const Tensor& x) {
  if (!x.defined()) return {};
  const Tensor whole = copy_as(x, DType::int64);
  return {whole.data<int64_t>(), whole.data<int64_t>() + whole.numel()};
}

std::vector<int64_t> integers(Case c, size_t slot, const char* attribute) {
  return c.has(slot) ? integers(c.in(slot)) : c.attribute(attribute, std::vector<int64_t>());
}

namespace {

/// A size of 0 means the size of x at the same position.
Outputs reshape_case(Case c) {
  std::vector<int64_t> shape = integers(c.in(1));
  const bool allow_zero = c.attribute("allowzero", 0) != 0;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == 0 && !allow_zero) shape[i] = c.in(0).size(static_cast<int64_t>(i));
  return {reshape(c.in(0), shape)};
}

/// Two axes: those before `axis`, and the others.
Outputs flatten_case(Case c) {
  const Tensor x = c.in(0);
  const int64_t given = c.attribute("axis", int64_t{1}), axis = given < 0 ? given + x.rank() : given;
  const int64_t rows =
      std::accumulate(x.shape().begin(), x.shape().begin() + axis, int64_t{1}, std::multiplies());
  return {reshape(x, {rows, rows == 0 ? 0 : x.numel() / rows})};
}

Outputs transpose_case(Case c) {
  Axes order(static_cast<size_t>(c.in(0).rank()));
  std::iota(order.rbegin(), order.rend(), 0);
  return {permute(c.in(0), c.attribute("perm", order))};
}

Outputs unsqueeze_case(Case c) {
  const Axes axes = integers(c, 1, "axes");
  const auto rank = c.in(0).rank() + static_cast<int64_t>(axes.size());
  Axes sorted;
  for (int64_t axis : axes) sorted.push_back(axis < 0 ? axis + rank : axis);
  std::sort(sorted.begin(), sorted.end());
  Tensor y = c.in(0);
  for (int64_t axis : sorted) y = unsqueeze(y, axis);
  return {y};
}

Outputs slice_case(Case c) {
  const std::vector<int64_t> starts = integers(c.in(1)), stops = integers(c.in(2)), steps = integers(c.in(4));
  Axes axes = integers(c.in(3));
  if (axes.empty()) axes.resize(starts.size()), std::iota(axes.begin(), axes.end(), 0);
  Tensor y = c.in(0);
  for (size_t i = 0; i < starts.size(); ++i)
    y = slice(y, axes[i], starts[i], stops[i], steps.empty() ? 1 : steps[i]);
  return {y};
}

/// Without sizes: as many equal parts as there are outputs; the last one may be smaller.
Outputs split_case(Case c) {
  const int64_t axis = c.attribute("axis", int64_t{0});
  const std::vector<int64_t> sizes = integers(c, 1, "split");
  if (!sizes.empty()) return split(c.in(0), sizes, axis);
  const auto outputs = static_cast<int64_t>(c.outputs.size());
  const int64_t n = c.in(0).size(axis), parts = c.attribute("num_outputs", outputs);
  return split(c.in(0), (n + parts - 1) / parts, axis);
}

/// `pads` lists all starts and then all ends, for all axes or for the given axes. Negative values
/// crop.
Outputs pad_case(Case c) {
  const std::map<std::string, PadMode> modes = {{"constant", PadMode::constant},
                                                {"reflect", PadMode::reflect},
                                                {"edge", PadMode::edge},
                                                {"wrap", PadMode::wrap}};
  const std::vector<int64_t> pads = integers(c.in(1));
  Tensor x = c.in(0);
  const auto rank = static_cast<size_t>(x.rank());
  Axes axes = integers(c.in(3));
  if (axes.empty()) axes.resize(rank), std::iota(axes.begin(), axes.end(), 0);
  std::vector<int64_t> before(rank, 0), after(rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(check_axis("pad", x.shape(), axes[i]));
    const int64_t start = pads[i], stop = pads[i + axes.size()], size = x.size(static_cast<int64_t>(axis));
    x = slice(x, static_cast<int64_t>(axis), std::max<int64_t>(0, -start),
              size - std::max<int64_t>(0, -stop));
    before[axis] = std::max<int64_t>(0, start), after[axis] = std::max<int64_t>(0, stop);
  }
  const double value = c.has(2) ? c.in(2).item() : 0;
  return {pad(x, before, after, modes.at(c.attribute<std::string>("mode", "constant")), value)};
}

}  // namespace

const OnnxAdapters kShapeAdapters = {
    {"Concat", [](Case c) -> Outputs { return {concat(c.all_inputs(), c.attribute("axis", int64_t{0}))}; }},
    {"Expand",
     [](Case c) -> Outputs {
       return {expand(c.in(0), broadcast("expand", c.in(0).shape(), integers(c.in(1))))};
     }},
    {"Flatten", flatten_case},
    {"Pad", pad_case},
    {"Reshape", reshape_case},
    {"Slice", slice_case},
    {"Split", split_case},
    {"Squeeze", [](Case c) -> Outputs { return {squeeze(c.in(0), integers(c, 1, "axes"))}; }},
    {"Tile", [](Case c) -> Outputs { return {tile(c.in(0), integers(c.in(1)))}; }},
    {"Transpose", transpose_case},
    {"Unsqueeze", unsqueeze_case},
};

}  // namespace vitrine::test
