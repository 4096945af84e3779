#include "tests/spec/ctc_rows.h"

#include "core/creation.h"
#include "ops/ctc.h"

namespace vitrine::spec {

/// Rows of all lengths, a repeated label, a row without labels, and one without a path, whose loss
/// is 0; and more states than a warp has threads.
std::vector<Spec> ctc_rows() {
  using Xs = const std::vector<Tensor>&;
  const auto integers = [](const std::vector<int64_t>& values, const Shape& shape, Device device) {
    return index_tensor(values, shape, device);
  };
  std::vector<Spec> rows;
  for (const Reduction reduction : {Reduction::none, Reduction::mean})
    rows.push_back({"ctc_loss",
                    [=](Xs x) {
                      const Device device = x[0].device();
                      CtcOptions o;
                      o.reduction = reduction, o.zero_infinity = true;
                      o.input_lengths = integers({6, 5, 4, 2, 0}, {5}, device);
                      o.target_lengths = integers({3, 2, 0, 2, 0}, {5}, device);
                      return ctc_loss(
                          x[0], integers({1, 2, 1, 3, 3, -1, -1, -1, -1, 2, 2, 1, 0, 0, 0}, {5, 3}, device),
                          o);
                    },
                    {{{{5, 6, 4}}}}});
  rows.push_back({"ctc_loss",
                  [=](Xs x) {
                    const int64_t labels = x[0].size(1) / 2, classes = x[0].size(2);
                    std::vector<int64_t> targets;
                    for (int64_t i = 0; i < labels; ++i) targets.push_back((3 * i + i / 4) % (classes - 1));
                    CtcOptions o;
                    o.blank = classes - 1, o.reduction = Reduction::sum;
                    return ctc_loss(x[0], integers(targets, {1, labels}, x[0].device()), o);
                  },
                  {{{{1, 45, 5}}}, {{{1, 1, 2}}}}});
  return rows;
}

}  // namespace vitrine::spec
