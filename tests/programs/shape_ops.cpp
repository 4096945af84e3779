// Rows of views, and of ops that put tensors together or read them by index.
#include <numeric>

#include "ops/index.h"
#include "ops/join.h"
#include "ops/sort.h"
#include "ops/toeplitz.h"
#include "ops/view.h"
#include "tests/programs/ops.h"

namespace vitrine::programs {
namespace {

using MaybeFit = std::optional<Fit>;

Shape shape_of(const std::vector<int64_t>& sizes) { return Shape(sizes); }

std::vector<int64_t> list(const Shape& shape) { return {shape.begin(), shape.end()}; }

MaybeFit new_shape(Choice& choice, const Shape& x) {
  int64_t rest = numel(x);
  Params p;
  while (rest > 1 && p.ints.size() < 3) {
    int64_t size = choice.between(1, rest);
    while (rest % size != 0) --size;
    p.ints.push_back(size);
    rest /= size;
  }
  p.ints.push_back(rest);
  return Fit{{x}, p};
}

MaybeFit permutation(Choice& choice, const Shape& x) {
  std::vector<int64_t> axes(static_cast<size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  for (size_t i = axes.size(); i > 1; --i)
    std::swap(axes[i - 1], axes[static_cast<size_t>(choice.below(static_cast<int64_t>(i)))]);
  return Fit{{x}, {.ints = axes}};
}

MaybeFit larger_shape(Choice& choice, const Shape& x) {
  Shape from = x, to = x;
  for (int i = 0; i < x.rank(); ++i)
    if (choice.chance(0.4) || x[i] == 1) from[i] = 1, to[i] = choice.between(1, 4);
  if (to.rank() < 4 && choice.chance(0.4)) to.insert(0, choice.between(2, 3));
  return Fit{{from}, {.ints = list(to)}};
}

MaybeFit two_axes(Choice& choice, const Shape& x) {
  if (x.rank() < 2) return std::nullopt;
  return Fit{{x}, {.ints = {any_axis(choice, x), any_axis(choice, x)}}};
}

MaybeFit neighbouring_axes(Choice& choice, const Shape& x) {
  if (x.rank() < 2) return std::nullopt;
  const int64_t first = choice.below(x.rank() - 1);
  return Fit{{x}, {.ints = {first, choice.between(first, x.rank() - 1)}}};
}

MaybeFit with_axis_of_one(Choice& choice, const Shape& x) {
  if (x.rank() == 4) return std::nullopt;
  Shape from = x;
  from.insert(static_cast<int>(choice.between(0, x.rank())), 1);
  return Fit{{from}};
}

MaybeFit axis_of_the_result(Choice& choice, const Shape& x) {
  if (x.rank() == 4) return std::nullopt;
  return Fit{{x}, {.ints = {choice.between(0, x.rank())}}};
}

MaybeFit range(Choice& choice, const Shape& x) {
  if (x.rank() == 0) return std::nullopt;
  const int64_t axis = any_axis(choice, x), n = x[check_axis("slice", x, axis)], step = choice.between(1, 2);
  const int64_t start = choice.below(n);
  if (choice.chance(0.4)) return Fit{{x}, {.ints = {axis, n - 1 - start, -n - 1, -step}}};
  return Fit{{x}, {.ints = {axis, start, choice.between(start + 1, n), step}}};
}

MaybeFit place(Choice& choice, const Shape& x) {
  auto fit = one_axis(choice, x);
  if (!fit) return fit;
  const int64_t n = x[check_axis("select", x, fit->params.ints[0])];
  fit->params.ints.push_back(choice.between(-n, n - 1));
  return fit;
}

MaybeFit two_parts(Choice& choice, const Shape& x) {
  auto fit = one_axis(choice, x);
  if (!fit) return fit;
  const int64_t n = x[check_axis("split", x, fit->params.ints[0])], first = choice.between(0, n);
  fit->params.ints.insert(fit->params.ints.end(), {first, n - first});
  return fit;
}

MaybeFit joined(Choice& choice, const Shape& x) {
  auto fit = one_axis(choice, x);
  if (!fit) return fit;
  Shape other = x;
  if (choice.chance(0.5)) other[check_axis("concat", x, fit->params.ints[0])] = choice.between(1, 3);
  fit->operands.push_back(other);
  if (choice.chance(0.3)) fit->operands.push_back(x);
  return fit;
}

MaybeFit stacked(Choice& choice, const Shape& x) {
  auto fit = axis_of_the_result(choice, x);
  if (fit) fit->operands.push_back(x);
  return fit;
}

/// At most `most` elements before and after each axis, and fewer than its size where they mirror
/// it.
MaybeFit margins(Choice& choice, const Shape& x, bool mirrored) {
  Params p;
  for (int side = 0; side < 2; ++side)
    for (int i = 0; i < x.rank(); ++i)
      p.ints.push_back(choice.below(mirrored ? std::min<int64_t>(x[i], 3) : 3));
  return Fit{{x}, p};
}

MaybeFit some_times(Choice& choice, const Shape& x) {
  Params p;
  for (int i = 0; i < x.rank(); ++i) p.ints.push_back(choice.between(1, 2));
  return Fit{{x}, p};
}

MaybeFit times_along_axis(Choice& choice, const Shape& x) {
  auto fit = one_axis(choice, x);
  if (fit) fit->params.ints.insert(fit->params.ints.begin(), choice.between(1, 3));
  return fit;
}

MaybeFit diagonal_number(Choice& choice, const Shape& x) {
  if (x.rank() < 2) return std::nullopt;
  return Fit{{x}, {.ints = {choice.between(-1, 1)}}};
}

/// The rows of a Toeplitz matrix.
MaybeFit toeplitz_rows(Choice& choice, const Shape& x) {
  if (x.rank() < 1 || x.back() == 0) return std::nullopt;
  return Fit{{x}, {.ints = {choice.between(1, x.back())}}};
}

MaybeFit matrices(Choice&, const Shape& x) {
  if (x.rank() < 2 || x.back() == 0 || x[x.rank() - 2] == 0) return std::nullopt;
  return Fit{{x}};
}

/// An axis, and indices into it in the shape of `index`.
Fit indices(Choice& choice, const Shape& x, int64_t axis, const Shape& index, bool negative = true) {
  Params p{.ints = {axis, index.rank()}};
  for (const int64_t size : index) p.ints.push_back(size);
  const int64_t n = x[check_axis("index", x, axis)];
  for (int64_t i = 0; i < numel(index); ++i) p.ints.push_back(choice.between(negative ? -n : 0, n - 1));
  return {{x}, p};
}

MaybeFit gathered(Choice& choice, const Shape& x) {
  if (x.rank() == 0) return std::nullopt;
  const int64_t axis = any_axis(choice, x);
  Shape index = x;
  for (int i = 0; i < x.rank(); ++i) index[i] = choice.between(1, x[i]);
  index[check_axis("gather", x, axis)] = choice.between(1, 4);
  return indices(choice, x, axis, index);
}

MaybeFit scattered(Choice& choice, const Shape& x) {
  auto fit = gathered(choice, x);
  if (!fit) return fit;
  const auto sizes = tail(fit->params.ints, 2);
  fit->operands.push_back(shape_of({sizes.begin(), sizes.begin() + x.rank()}));
  return fit;
}

MaybeFit whole_slices(Choice& choice, const Shape& x) {
  if (x.rank() == 0) return std::nullopt;
  const Shape index = choice.chance(0.5) || x.rank() > 3 ? Shape{choice.between(1, 4)} : Shape{2, 2};
  return indices(choice, x, any_axis(choice, x), index);
}

MaybeFit rows_of_a_table(Choice& choice, const Shape&) {
  const Shape ids = choice.chance(0.5) ? Shape{choice.between(1, 4)} : Shape{2, choice.between(1, 3)};
  return indices(choice, {choice.between(2, 5), choice.between(1, 4)}, 0, ids, false);
}

/// The indices of the rules above.
Tensor index_of(const Params& p) {
  const auto rest = tail(p.ints, 2);
  const auto rank = static_cast<std::ptrdiff_t>(p.ints[1]);
  const std::vector<int64_t> values(rest.begin() + rank, rest.end());
  return index_tensor(values, shape_of({rest.begin(), rest.begin() + rank}));
}

MaybeFit order_along(Choice& choice, const Shape& x) {
  auto fit = one_axis(choice, x);
  if (fit) fit->params.ints.push_back(choice.below(2));
  return fit;
}

MaybeFit most_along(Choice& choice, const Shape& x) {
  auto fit = order_along(choice, x);
  if (fit) fit->params.ints.push_back(choice.between(1, x[check_axis("topk", x, fit->params.ints[0])]));
  return fit;
}

bool separated_along(const Values& x, const Params& p) { return separated(x[0], p.ints[0]); }

Op padding(const std::string& name, const std::string& mode, PadMode kind, bool mirrored) {
  return {name, "pad($0, {%0*} before and after, PadMode::" + mode + ", 0.5)",
          [mirrored](Choice& choice, const Shape& x) { return margins(choice, x, mirrored); },
          [kind](const Values& x, const Params& p) {
            const auto n = static_cast<size_t>(x[0].rank());
            return pad(x[0], {p.ints.begin(), p.ints.begin() + x[0].rank()}, tail(p.ints, n), kind, 0.5);
          }};
}

}  // namespace

std::vector<Op> shape_ops() {
  return {
      {"reshape", "reshape($0, {%0*})", new_shape,
       [](const Values& x, const Params& p) { return reshape(x[0], p.ints); }},
      {"permute", "permute($0, {%0*})", permutation,
       [](const Values& x, const Params& p) { return permute(x[0], p.ints); }},
      {"transpose", "transpose($0, %0, %1)", two_axes,
       [](const Values& x, const Params& p) { return transpose(x[0], p.ints[0], p.ints[1]); }},
      {"expand", "expand($0, {%0*})", larger_shape,
       [](const Values& x, const Params& p) { return expand(x[0], p.ints); }},
      {"squeeze", "squeeze($0)", with_axis_of_one,
       [](const Values& x, const Params&) { return squeeze(x[0]); }},
      {"unsqueeze", "unsqueeze($0, %0)", axis_of_the_result,
       [](const Values& x, const Params& p) { return unsqueeze(x[0], p.ints[0]); }},
      {"flatten", "flatten($0, %0, %1)", neighbouring_axes,
       [](const Values& x, const Params& p) { return flatten(x[0], p.ints[0], p.ints[1]); }},
      {"slice", "slice($0, %0, %1, %2, %3)", range,
       [](const Values& x, const Params& p) {
         return slice(x[0], p.ints[0], p.ints[1], p.ints[2], p.ints[3]);
       }},
      {"slice", "flip($0, {%0})", one_axis,
       [](const Values& x, const Params& p) { return flip(x[0], {p.ints[0]}); }},
      {"select", "select($0, %0, %1)", place,
       [](const Values& x, const Params& p) { return select(x[0], p.ints[0], p.ints[1]); }},
      {"split", "concat(reversed(split($0, {%1, %2}, %0)), %0)", two_parts,
       [](const Values& x, const Params& p) {
         const auto parts = split(x[0], std::vector<int64_t>{p.ints[1], p.ints[2]}, p.ints[0]);
         return concat({parts[1], parts[0]}, p.ints[0]);
       }},
      {"diagonal", "diagonal($0, %0)", diagonal_number,
       [](const Values& x, const Params& p) { return diagonal(x[0], p.ints[0]); }},
      {"toeplitz", "toeplitz($0, %0)", toeplitz_rows,
       [](const Values& x, const Params& p) { return toeplitz(x[0], p.ints[0]); }},
      {"sum_diagonals", "sum_diagonals($0)", matrices,
       [](const Values& x, const Params&) { return sum_diagonals(x[0]); }},
      {"clone", "clone($0)", same, [](const Values& x, const Params&) { return clone(x[0]); }},
      {"concat", "concat({$0*}, %0)", joined,
       [](const Values& x, const Params& p) { return concat(x, p.ints[0]); }},
      {"stack", "stack({$0*}, %0)", stacked,
       [](const Values& x, const Params& p) { return stack(x, p.ints[0]); }},
      padding("pad", "constant", PadMode::constant, false),
      padding("pad_reflect", "reflect", PadMode::reflect, true),
      padding("pad_edge", "edge", PadMode::edge, false),
      padding("pad_wrap", "wrap", PadMode::wrap, true),
      {"tile", "tile($0, {%0*})", some_times,
       [](const Values& x, const Params& p) { return tile(x[0], p.ints); }},
      {"repeat", "repeat($0, %0, %1)", times_along_axis,
       [](const Values& x, const Params& p) { return repeat(x[0], p.ints[0], p.ints[1]); }},
      {"tril", "tril($0, %0)", diagonal_number,
       [](const Values& x, const Params& p) { return tril(x[0], p.ints[0]); }},
      {"triu", "triu($0, %0)", diagonal_number,
       [](const Values& x, const Params& p) { return triu(x[0], p.ints[0]); }},
      {"gather", "gather($0, axis, index) of axis, rank, shape and indices {%0*}", gathered,
       [](const Values& x, const Params& p) { return gather(x[0], p.ints[0], index_of(p)); }},
      {"scatter_add", "scatter_add($0, axis, index, $1) of axis, rank, shape and indices {%0*}", scattered,
       [](const Values& x, const Params& p) { return scatter_add(x[0], p.ints[0], index_of(p), x[1]); }},
      {"index_select", "index_select($0, axis, index) of axis, rank, shape and indices {%0*}", whole_slices,
       [](const Values& x, const Params& p) { return index_select(x[0], p.ints[0], index_of(p)); }},
      {"embedding", "embedding($0, ids) of axis 0, rank, shape and ids {%0*}", rows_of_a_table,
       [](const Values& x, const Params& p) { return embedding(x[0], index_of(p)); }},
      {"sort",
       "sort($0, %0, %1 != 0).values",
       order_along,
       [](const Values& x, const Params& p) { return sort(x[0], p.ints[0], p.ints[1] != 0).values; },
       {{}},
       separated_along},
      {"topk",
       "topk($0, %2, %0, %1 != 0).values",
       most_along,
       [](const Values& x, const Params& p) {
         return topk(x[0], p.ints[2], p.ints[0], p.ints[1] != 0).values;
       },
       {{}},
       separated_along},
  };
}

}  // namespace vitrine::programs
