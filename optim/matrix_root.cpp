#include "optim/matrix_root.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/creation.h"
#include "core/error.h"
#include "core/parallel.h"
#include "ops/view.h"

namespace vitrine::optim {
namespace {

/// A symmetric matrix on its way to a tridiagonal one, with Z·A·Zᵀ for the rows of Z.
struct Reduction {
  int64_t n;
  std::vector<double> a, z;           // [n, n]
  std::vector<double> diagonal, off;  // off[i] is between i and i + 1; off[n − 1] = 0
  double* row(std::vector<double>& x, int64_t i) const { return x.data() + i * n; }
};

/// Makes the elements of column k below k + 1 zero by A ← HAH with H = 1 − β·v·vᵀ, and Z ← HZ. v is
/// 0 up to k.
void reflect(Reduction& r, int64_t k, std::vector<double>& v, std::vector<double>& w) {
  const int64_t n = r.n;
  double squares = 0, largest = 0;
  for (int64_t i = k + 1; i < n; ++i) largest = std::max(largest, std::abs(r.row(r.a, i)[k]));
  if (largest == 0) return;  // the column is zero already
  for (int64_t i = k + 1; i < n; ++i) v[i] = r.row(r.a, i)[k] / largest, squares += v[i] * v[i];
  const double size = std::copysign(std::sqrt(squares), v[k + 1]);
  const double beta = 1 / (squares + size * v[k + 1]);
  v[k + 1] += size;
  double vw = 0;
  for (int64_t i = k + 1; i < n; ++i) {
    double product = 0;
    for (int64_t j = k + 1; j < n; ++j) product += r.row(r.a, i)[j] * v[j];
    w[i] = beta * product;
    vw += v[i] * w[i];
  }
  for (int64_t i = k + 1; i < n; ++i) w[i] -= beta / 2 * vw * v[i];
  for (int64_t i = k + 1; i < n; ++i)
    for (int64_t j = k + 1; j < n; ++j) r.row(r.a, i)[j] -= v[i] * w[j] + w[i] * v[j];
  r.row(r.a, k + 1)[k] = -size * largest;
  std::fill(w.begin(), w.end(), 0.0);
  for (int64_t i = k + 1; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) w[j] += v[i] * r.row(r.z, i)[j];
  for (int64_t i = k + 1; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) r.row(r.z, i)[j] -= beta * v[i] * w[j];
}

void to_tridiagonal(Reduction& r) {
  std::vector<double> v(static_cast<size_t>(r.n)), w(static_cast<size_t>(r.n));
  for (int64_t i = 0; i < r.n; ++i)
    for (int64_t j = i + 1; j < r.n; ++j) r.row(r.a, i)[j] = r.row(r.a, j)[i];
  for (int64_t k = 0; k + 2 < r.n; ++k) reflect(r, k, v, w);
  for (int64_t i = 0; i < r.n; ++i) {
    r.diagonal.push_back(r.row(r.a, i)[i]);
    r.off.push_back(i + 1 < r.n ? r.row(r.a, i + 1)[i] : 0);
  }
}

/// Rows i and i + 1 of Z turn by the angle with this cosine and sine.
void rotate_rows(Reduction& r, int64_t i, double c, double s) {
  double* const x = r.row(r.z, i);
  double* const y = r.row(r.z, i + 1);
  for (int64_t j = 0; j < r.n; ++j) {
    const double next = s * x[j] + c * y[j];
    x[j] = c * x[j] - s * y[j];
    y[j] = next;
  }
}

/// One QL step on the rows first … last, with Wilkinson's shift: it chases a bulge from the end to
/// the front.
void ql_step(Reduction& r, int64_t first, int64_t last) {
  auto& d = r.diagonal;
  auto& e = r.off;
  double g = (d[first + 1] - d[first]) / (2 * e[first]);
  double radius = std::hypot(g, 1.0);
  g = d[last] - d[first] + e[first] / (g + std::copysign(radius, g));
  double s = 1, c = 1, p = 0;
  for (int64_t i = last - 1; i >= first; --i) {
    const double f = s * e[i], b = c * e[i];
    radius = std::hypot(f, g);
    e[i + 1] = radius;
    if (radius == 0) {  // the matrix has split
      d[i + 1] -= p;
      e[last] = 0;
      return;
    }
    s = f / radius, c = g / radius;
    g = d[i + 1] - p;
    radius = (d[i] - g) * s + 2 * c * b;
    p = s * radius;
    d[i + 1] = g + p;
    g = c * radius - b;
    rotate_rows(r, i, c, s);
  }
  d[first] -= p;
  e[first] = g;
  e[last] = 0;
}

/// False if it does not converge, as with NaN. Elements below the rounding error of the largest one
/// are 0.
bool to_diagonal(Reduction& r) {
  constexpr int kMostSteps = 60;
  double largest = 0;
  for (int64_t i = 0; i < r.n; ++i) largest = std::max(largest, std::abs(r.diagonal[i]) + std::abs(r.off[i]));
  const double negligible = std::numeric_limits<double>::epsilon() * largest;
  for (int64_t first = 0; first < r.n; ++first)
    for (int step = 0;; ++step) {
      int64_t last = first;
      while (last + 1 < r.n && !(std::abs(r.off[last]) <= negligible)) ++last;
      if (last == first) break;
      if (step == kMostSteps) return false;
      ql_step(r, first, last);
    }
  return true;
}

/// Σ max(values[i] + eps, least)^(−1/p)·v_i·v_iᵀ, where negative values are rounding. NaN stays.
std::vector<double> root_of(const Eigen& eigen, int64_t n, int64_t p, double eps, double least) {
  std::vector<double> y(static_cast<size_t>(n * n));
  for (int64_t k = 0; k < n; ++k) {
    const double* const v = eigen.vectors.data() + k * n;
    const double value = (eigen.values[k] < 0 ? 0 : eigen.values[k]) + eps;
    const double power = std::pow(value < least ? least : value, -1.0 / static_cast<double>(p));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) y[i * n + j] += power * v[i] * v[j];
  }
  return y;
}

}  // namespace

Eigen symmetric_eigen(std::vector<double> a, int64_t n) {
  check(n >= 0 && static_cast<int64_t>(a.size()) == n * n, "symmetric_eigen: {} elements, wanted {}·{}",
        a.size(), n, n);
  Reduction r{.n = n,
              .a = std::move(a),
              .z = std::vector<double>(static_cast<size_t>(n * n)),
              .diagonal = {},
              .off = {}};
  for (int64_t i = 0; i < n; ++i) r.row(r.z, i)[i] = 1;
  to_tridiagonal(r);
  if (!to_diagonal(r)) std::fill(r.diagonal.begin(), r.diagonal.end(), std::nan(""));
  return {r.diagonal, r.z};
}

std::vector<Tensor> inverse_roots(const std::vector<Tensor>& x, int64_t p, double eps) {
  check(p >= 1, "inverse_roots: p is {}, wanted at least 1", p);
  std::vector<std::vector<double>> matrices;
  for (const Tensor& matrix : x) {
    check(matrix.rank() == 2 && matrix.size(0) == matrix.size(1) &&
              (matrix.dtype() == DType::float32 || matrix.dtype() == DType::float64),
          "inverse_roots: wanted square matrices in float32 or float64, got {}", describe(matrix));
    matrices.push_back(matrix.values());
  }
  parallel_for(0, static_cast<int64_t>(x.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = x[i].size(0);
      const Eigen eigen = symmetric_eigen(std::move(matrices[i]), n);
      const double epsilon = x[i].dtype() == DType::float32 ? std::numeric_limits<float>::epsilon()
                                                            : std::numeric_limits<double>::epsilon();
      double largest = 0;
      for (double value : eigen.values) largest = std::max(largest, value);
      matrices[i] = root_of(eigen, n, p, eps, static_cast<double>(n) * epsilon * largest);
    }
  });
  std::vector<Tensor> roots;
  for (size_t i = 0; i < x.size(); ++i)
    roots.push_back(copy_to(tensor(matrices[i], x[i].shape(), x[i].dtype()), x[i].device()));
  return roots;
}

}  // namespace vitrine::optim
