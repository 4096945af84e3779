#include "nn/metrics/embeddings.h"

#include <cmath>

#include "core/error.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// The cosines of all rows of a with all rows of b, in float64: the sum of uniformity is that of
/// terms of very different sizes.
Tensor cosines(const char* op, const Tensor& a, const Tensor& b) {
  check(a.rank() == 2 && a.shape() == b.shape() && a.size(0) > 0,
        "{}: the vectors are {} and {}, wanted the same [N, C]", op, a.shape(), b.shape());
  const auto unit = [](const Tensor& x) { return l2_normalize(cast(x, DType::float64)); };
  return matmul(unit(a), transpose(unit(b)));
}

}  // namespace

WeightedSum retrieval_accuracy(const Tensor& a, const Tensor& b) {
  const auto nearest = argmax(cosines("retrieval_accuracy", a, b), -1).values();
  WeightedSum result{0, static_cast<double>(nearest.size())};
  for (size_t i = 0; i < nearest.size(); ++i) result.sum += nearest[i] == static_cast<double>(i) ? 1 : 0;
  return result;
}

double alignment(const Tensor& a, const Tensor& b) {
  return 2 - 2 * mean(diagonal(cosines("alignment", a, b))).item();
}

double uniformity(const Tensor& x) {
  check(x.rank() == 2 && x.size(0) >= 2, "uniformity: x is {}, wanted [N, C] with at least two rows",
        x.shape());
  const auto rows = static_cast<double>(x.size(0));
  // |x_i − x_j|² = 2 − 2cos; the N pairs i = j have the term 1
  const double all = sum(exp(4 * (cosines("uniformity", x, x) - 1))).item();
  return std::log((all - rows) / (rows * (rows - 1)));
}

}  // namespace vitrine::nn
