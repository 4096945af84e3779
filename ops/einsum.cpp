#include "ops/einsum.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine {
namespace {

/// Axes are named by numbers: a letter by its character code, the axes of an ellipsis by …, −2, −1
/// from left to right.
using Labels = std::vector<int>;

struct Operand {
  Tensor x;
  Labels labels;  ///< one per axis
};

bool has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

std::string show(int label) {
  return label < 0 ? "an axis of the ellipsis" : std::string(1, static_cast<char>(label));
}

/// The parsed subscripts: "ij,jk->ik" has the terms "ij" and "jk" and the output "ik".
struct Subscripts {
  std::string text;
  std::vector<std::string> terms;
  std::string output;
  bool has_output = false;
};

Subscripts split(std::string_view text) {
  Subscripts s;
  s.text = text;
  s.terms = {""};
  std::string* term = &s.terms.back();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text[i] == ',' && !s.has_output) {
      term = &s.terms.emplace_back();
    } else if (text.substr(i).starts_with("->") && !s.has_output) {
      s.has_output = true;
      term = &s.output;
      ++i;
    } else if (text.substr(i).starts_with("...") && term->find('.') == std::string::npos) {
      *term += '.';  // one character for the ellipsis
      i += 2;
    } else {
      const bool letter = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z');
      check(
          letter,
          "einsum: '{}' at character {}: wanted letters, at most one '...' per operand, ',' between operands "
          "and one '->', got {:?}",
          s.text, i, text.substr(i, 1));
      *term += text[i];
    }
  }
  return s;
}

/// The labels of a term in which the ellipsis stands for `ellipsis` axes.
Labels labels_of(const std::string& term, int ellipsis) {
  Labels labels;
  for (char c : term) {
    if (c != '.') labels.push_back(c);
    for (int k = ellipsis; c == '.' && k > 0; --k) labels.push_back(-k);
  }
  return labels;
}

std::vector<Operand> operands(const Subscripts& s, const std::vector<Tensor>& xs) {
  check(s.terms.size() == xs.size(), "einsum: '{}' names {} operands, {} were given", s.text, s.terms.size(),
        xs.size());
  DType dtype = xs[0].dtype();
  for (const Tensor& x : xs) dtype = promote(dtype, x.dtype());
  check(dtype != DType::boolean, "einsum: '{}' wants numbers, got bool", s.text);
  std::vector<Operand> result;
  for (size_t i = 0; i < xs.size(); ++i) {
    const std::string& term = s.terms[i];
    const bool ellipsis = term.find('.') != std::string::npos;
    const int letters = static_cast<int>(term.size()) - ellipsis, rank = xs[i].rank();
    check(ellipsis ? rank >= letters : rank == letters,
          "einsum: '{}' names {} axes{} of operand {}, which is {}", s.text, letters,
          ellipsis ? " beside the ellipsis" : "", i, xs[i].shape());
    result.push_back({cast(xs[i], dtype), labels_of(term, rank - letters)});
  }
  return result;
}

/// The size of each label; a size of 1 is replaced by any other size.
std::map<int, int64_t> sizes_of(const Subscripts& s, const std::vector<Operand>& xs) {
  std::map<int, int64_t> sizes;
  for (size_t i = 0; i < xs.size(); ++i)
    for (int axis = 0; axis < xs[i].x.rank(); ++axis) {
      const int label = xs[i].labels[static_cast<size_t>(axis)];
      const int64_t size = xs[i].x.shape()[axis];
      int64_t& known = sizes.try_emplace(label, size).first->second;
      check(size == known || size == 1 || known == 1,
            "einsum: '{}': {} has size {} in operand {}, which is {}, and {} before", s.text, show(label),
            size, i, xs[i].x.shape(), known);
      if (known == 1) known = size;
    }
  return sizes;
}

Labels output_labels(const Subscripts& s, const std::vector<Operand>& xs) {
  int ellipsis = 0;
  std::map<int, int> count;
  for (const Operand& x : xs)
    for (int label : x.labels) {
      ellipsis = std::max(ellipsis, -label);
      ++count[label];
    }
  Labels labels;
  if (!s.has_output) {
    for (const auto& [label, times] : count)  // in order: the ellipsis, then the letters
      if (label < 0 || times == 1) labels.push_back(label);
    return labels;
  }
  check(ellipsis == 0 || s.output.find('.') != std::string::npos,
        "einsum: '{}': the output wants an ellipsis, as {} axes of the operands are in theirs", s.text,
        ellipsis);
  for (int label : labels_of(s.output, ellipsis)) {
    check(count.count(label) > 0, "einsum: '{}': the output names {}, which no operand has", s.text,
          show(label));
    check(!has(labels, label), "einsum: '{}': the output names {} twice", s.text, show(label));
    labels.push_back(label);
  }
  return labels;
}

/// x with each label once: repeated labels take the diagonal, and axes of size 1 that broadcast are
/// dropped.
Operand simplified(const Subscripts& s, Operand o, const std::map<int, int64_t>& sizes) {
  for (size_t i = 0; i < o.labels.size();) {
    const int label = o.labels[i];
    const auto again = std::find(o.labels.begin() + static_cast<int64_t>(i) + 1, o.labels.end(), label);
    if (again != o.labels.end()) {
      const int64_t first = static_cast<int64_t>(i), second = again - o.labels.begin();
      check(o.x.size(first) == o.x.size(second),
            "einsum: '{}': {} names axes of sizes {} and {} of one operand", s.text, show(label),
            o.x.size(first), o.x.size(second));
      Axes axes;
      for (int64_t axis = 0; axis < o.x.rank(); ++axis)
        if (axis != first && axis != second) axes.push_back(axis);
      axes.insert(axes.end(), {first, second});
      o.x = diagonal(permute(o.x, axes));
      o.labels.erase(again);
      o.labels.erase(o.labels.begin() + first);
      o.labels.push_back(label);
    } else if (o.x.shape()[static_cast<int>(i)] != sizes.at(label)) {
      o.x = select(o.x, static_cast<int64_t>(i), 0);
      o.labels.erase(o.labels.begin() + static_cast<int64_t>(i));
    } else {
      ++i;
    }
  }
  return o;
}

/// Sums over the labels that are not kept.
Operand sum_others(const Operand& o, const Labels& kept) {
  Axes axes;
  Labels labels;
  for (size_t i = 0; i < o.labels.size(); ++i) {
    if (has(kept, o.labels[i]))
      labels.push_back(o.labels[i]);
    else
      axes.push_back(static_cast<int64_t>(i));
  }
  return axes.empty() ? o : Operand{sum(o.x, axes), labels};
}

/// x with its axes in the order of `labels`.
Tensor ordered(const Operand& o, const Labels& labels) {
  Axes axes;
  for (int label : labels)
    axes.push_back(std::find(o.labels.begin(), o.labels.end(), label) - o.labels.begin());
  return permute(o.x, axes);
}

/// x with its axes in the order of the three groups, each group merged into one axis.
Tensor merged(const Operand& o, const std::array<Labels, 3>& groups) {
  Labels labels;
  for (const Labels& group : groups) labels.insert(labels.end(), group.begin(), group.end());
  const Tensor x = ordered(o, labels);
  Shape shape{1, 1, 1};
  int axis = 0;
  for (int g = 0; g < 3; ++g)
    for (size_t i = 0; i < groups[static_cast<size_t>(g)].size(); ++i) shape[g] *= x.shape()[axis++];
  return reshape(x, shape);
}

/// The product of two operands, summed over the shared labels that are not kept.
Operand contract(const Subscripts& s, const Operand& x, const Operand& y, const Labels& kept,
                 const std::map<int, int64_t>& sizes) {
  Labels batch, rows, columns, inner;
  for (int label : x.labels)
    (!has(y.labels, label) ? rows : has(kept, label) ? batch : inner).push_back(label);
  for (int label : y.labels)
    if (!has(x.labels, label)) columns.push_back(label);
  const Tensor a = merged(x, {batch, rows, inner}), b = merged(y, {batch, inner, columns});
  Operand z{inner.empty() ? a * b : matmul(a, b), batch};
  z.labels.insert(z.labels.end(), rows.begin(), rows.end());
  z.labels.insert(z.labels.end(), columns.begin(), columns.end());
  check(z.labels.size() <= Dims::kMax,
        "einsum: '{}': a product of two operands has {} axes, at most {} are possible", s.text,
        z.labels.size(), Dims::kMax);
  Shape shape;
  for (int label : z.labels) shape.push_back(sizes.at(label));
  z.x = reshape(z.x, shape);
  return z;
}

/// The labels of operands x and y that the output or other operands also need.
Labels needed_beside(const std::vector<Operand>& operands, size_t x, size_t y, const Labels& output) {
  Labels needed = output;
  for (size_t i = 0; i < operands.size(); ++i)
    if (i != x && i != y) needed.insert(needed.end(), operands[i].labels.begin(), operands[i].labels.end());
  return needed;
}

/// The pair whose product needs the fewest multiplications.
std::pair<size_t, size_t> cheapest_pair(const std::vector<Operand>& operands,
                                        const std::map<int, int64_t>& sizes) {
  std::pair<size_t, size_t> best{0, 1};
  double fewest = INFINITY;
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t j = i + 1; j < operands.size(); ++j) {
      double count = 1;
      for (const auto& [label, size] : sizes)
        if (has(operands[i].labels, label) || has(operands[j].labels, label))
          count *= static_cast<double>(size);
      if (count < fewest) {
        fewest = count;
        best = {i, j};
      }
    }
  return best;
}

}  // namespace

Tensor einsum(std::string_view subscripts, const std::vector<Tensor>& xs) {
  const Subscripts s = split(subscripts);
  std::vector<Operand> left = operands(s, xs);
  const DType dtype = left[0].x.dtype();
  const auto sizes = sizes_of(s, left);
  const Labels output = output_labels(s, left);
  for (Operand& o : left) o = simplified(s, std::move(o), sizes);
  for (size_t i = 0; i < left.size(); ++i) left[i] = sum_others(left[i], needed_beside(left, i, i, output));
  while (left.size() > 1) {
    const auto [i, j] = cheapest_pair(left, sizes);
    left[i] = contract(s, left[i], left[j], needed_beside(left, i, j, output), sizes);
    left.erase(left.begin() + static_cast<int64_t>(j));
  }
  return cast(ordered(left[0], output), dtype);  // sums of int32 are int64
}

}  // namespace vitrine
