// Eigenvalues and roots of symmetric matrices, and Shampoo, which uses them.
#include "optim/matrix_root.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/parallel.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/view.h"
#include "optim/shampoo.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::optim;

namespace {

/// V diag(f(λ)) Vᵀ and VVᵀ of an eigendecomposition.
Tensor vectors_of(const Eigen& eigen, int64_t n) {
  return tensor(eigen.vectors, Shape{n, n}, DType::float64);
}
Tensor rebuilt(const Eigen& eigen, int64_t n) {
  const Tensor v = vectors_of(eigen, n), d = tensor(eigen.values, Shape{n, 1}, DType::float64);
  return matmul(transpose(v), d * v);
}

}  // namespace

TEST_CASE("eigenvalues and eigenvectors rebuild the matrix, and the vectors are orthonormal") {
  for (const int64_t n : {1, 2, 3, 8, 33, 120})
    for (const int kind : {0, 1, 2, 3}) {
      INFO("n = ", n, ", kind ", kind);
      Tensor x = test::normal({n, n}, static_cast<uint64_t>(n));
      x = kind == 0 ? x + transpose(x)                                     // of both signs
                    : matmul(slice(x, 1, 0, std::max<int64_t>(n / 3, 1)),  // of low rank
                             transpose(slice(x, 1, 0, std::max<int64_t>(n / 3, 1))));
      if (kind == 2) x = x * 1e200;
      if (kind == 3) x = eye(n, -1, DType::float64) * 3.0;  // one eigenvalue
      const Eigen eigen = symmetric_eigen(x.values(), n);
      CHECK(test::distance(rebuilt(eigen, n), x, 1e-300) <= 1e-13);
      const Tensor v = vectors_of(eigen, n);
      CHECK(test::distance(matmul(v, transpose(v)), eye(n, -1, DType::float64), 1e-300) <= 1e-13);
    }
}

TEST_CASE("known eigenvalues: a chain of springs, and a matrix with two of 1e-12 and 1e12") {
  const int64_t n = 20;
  const double pi = std::acos(-1.0);
  Tensor chain = eye(n, -1, DType::float64) * 2.0;
  std::vector<double> values = chain.values();
  for (int64_t i = 0; i + 1 < n; ++i) values[i * n + i + 1] = values[(i + 1) * n + i] = -1;
  std::vector<double> got = symmetric_eigen(values, n).values;
  std::sort(got.begin(), got.end());
  for (int64_t k = 0; k < n; ++k)
    CHECK(got[k] ==
          doctest::Approx(2 - 2 * std::cos(static_cast<double>(k + 1) * pi / (n + 1))).epsilon(1e-13));
  got = symmetric_eigen({1e12, 0, 0, 1e-12}, 2).values;
  CHECK(std::min(got[0], got[1]) == 1e-12);
  CHECK(symmetric_eigen({}, 0).values.empty());
  for (const double value : symmetric_eigen({1, NAN, NAN, 1}, 2).values) CHECK(std::isnan(value));
  CHECK_THROWS_WITH(symmetric_eigen({1, 2}, 2), doctest::Contains("2 elements, wanted 2·2"));
}

TEST_CASE("the p-th power of an inverse root is the inverse") {
  const Tensor half = test::normal({9, 9}, 1), x = matmul(half, transpose(half));
  for (const int64_t p : {1, 2, 4}) {
    const Tensor root = inverse_roots({x}, p, 0.5)[0];
    Tensor product = x + 0.5 * eye(9, -1, DType::float64);
    for (int64_t i = 0; i < p; ++i) product = matmul(root, product);
    CHECK(test::distance(product, eye(9, -1, DType::float64), 1e-300) <= 1e-11);
  }
  // Rounding makes eigenvalues of 0 negative: with eps they are finite, and the root is bounded.
  const Tensor column = test::normal({30, 1}, 2),
               low = copy_as(matmul(column, transpose(column)) * 1e10, DType::float32);
  for (const double value : inverse_roots({low}, 4, 1e-30)[0].values()) CHECK(std::abs(value) < 1);
  CHECK_THROWS_WITH(inverse_roots({ones({2, 3})}, 2, 1), doctest::Contains("wanted square matrices"));
}

TEST_CASE("roots have the same bits on 1, 2 and 3 threads") {
  const int before = threads();
  std::vector<Tensor> x;
  for (uint64_t i = 1; i <= 5; ++i) {
    const Tensor half = test::normal({static_cast<int64_t>(10 * i), 7}, i);
    x.push_back(matmul(half, transpose(half)));
  }
  std::vector<std::vector<double>> results;
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    results.emplace_back();
    for (const Tensor& root : inverse_roots(x, 4, 1e-3))
      for (const double value : root.values()) results.back().push_back(value);
  }
  set_threads(before);
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}

TEST_CASE("Shampoo's first step without eps makes the gradient orthogonal") {
  // L^(−1/4)·g·R^(−1/4) = U·S^(−1/2)·S·S^(−1/2)·Vᵀ = UVᵀ
  const Tensor g = test::normal({4, 4}, 3);
  const Parameter p(zeros({4, 4}, DType::float64));
  Shampoo shampoo({p}, {.lr = 1, .eps = 1e-14});
  p.master().set_grad(g);
  shampoo.step();
  const Tensor u = p.master();
  CHECK(test::distance(matmul(u, transpose(u)), eye(4, -1, DType::float64), 1e-300) <= 1e-9);
}

TEST_CASE("Shampoo: sides that are too long, other ranks, and roots that are kept for some steps") {
  const auto states = [](const Shape& shape, int64_t largest) {
    const Parameter p(zeros(shape));
    return Shampoo({p}, {.largest = largest}).state_names(p);
  };
  using Names = std::vector<std::string>;
  CHECK(states({3, 8}, 8) == Names{"left", "left_root", "right", "right_root"});
  CHECK(states({3, 8}, 7) == Names{"left", "left_root"});
  CHECK(states({8, 3}, 7) == Names{"right", "right_root"});
  CHECK(states({8, 9}, 7) == Names{"squares"});
  CHECK(states({5}, 7) == Names{"squares"});
  CHECK(states({2, 3, 2}, 6) == Names{"left", "left_root", "right", "right_root"});
  // One side alone has L^(−1/2): with one row it is the row divided by its length.
  const Parameter row(zeros({1, 3}, DType::float64));
  Shampoo one_side({row}, {.lr = 1, .eps = 1e-20, .largest = 2});
  row.master().set_grad(tensor({3, 0, 4}, {1, 3}, DType::float64));
  one_side.step();
  CHECK(test::distance(row.master(), tensor({-0.6, 0, -0.8}, {1, 3}, DType::float64), 1e-300) <= 1e-9);
  // Steps 1 and 4 compute the roots, steps 2 and 3 keep them.
  const Parameter p(zeros({3, 2}, DType::float64));
  Shampoo kept({p}, {.every = 3});
  std::vector<std::vector<double>> roots;
  for (uint64_t i = 1; i <= 4; ++i) {
    p.master().set_grad(test::normal({3, 2}, i));
    kept.step();
    roots.push_back(kept.state(p, "left_root").values());
  }
  CHECK(roots[0] == roots[2]);
  CHECK(roots[2] != roots[3]);
  CHECK_THROWS_WITH(Shampoo({p}, {.eps = 0}), doctest::Contains("Shampoo: eps is 0"));
  CHECK_THROWS_WITH(Shampoo({p}, {.every = 0}), doctest::Contains("Shampoo: every is 0"));
}
