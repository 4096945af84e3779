#include "optim/muon.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "optim/adam.h"
#include "tests/ops/reference.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::optim;

namespace {

/// Row by row.
using Matrix = std::vector<std::vector<double>>;

Matrix matrix(size_t rows, size_t columns) { return Matrix(rows, std::vector<double>(columns)); }

Matrix transposed(const Matrix& x) {
  Matrix y = matrix(x[0].size(), x.size());
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = 0; j < x[0].size(); ++j) y[j][i] = x[i][j];
  return y;
}

Matrix product(const Matrix& x, const Matrix& y) {
  Matrix z = matrix(x.size(), y[0].size());
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t k = 0; k < y.size(); ++k)
      for (size_t j = 0; j < y[0].size(); ++j) z[i][j] += x[i][k] * y[k][j];
  return z;
}

double length(const Matrix& x) {
  double squares = 0;
  for (const auto& row : x)
    for (const double e : row) squares += e * e;
  return std::sqrt(squares);
}

Matrix plain_newton_schulz(Matrix x) {
  const bool tall = x.size() > x[0].size();
  if (tall) x = transposed(x);
  const double size = length(x) + 1e-7;
  for (auto& row : x)
    for (double& e : row) e /= size;
  for (int n = 0; n < 5; ++n) {
    const Matrix gram = product(x, transposed(x)), square = product(gram, gram), once = product(gram, x),
                 twice = product(square, x);
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t j = 0; j < x[0].size(); ++j)
        x[i][j] = 3.4445 * x[i][j] - 4.7750 * once[i][j] + 2.0315 * twice[i][j];
  }
  return tall ? transposed(x) : x;
}

Matrix matrix_of(const Tensor& x) {
  const std::vector<double> values = x.values();
  Matrix y = matrix(static_cast<size_t>(x.size(0)), static_cast<size_t>(x.size(1)));
  for (size_t i = 0, k = 0; i < y.size(); ++i)
    for (double& e : y[i]) e = values[k++];
  return y;
}

std::vector<double> values_of(const Matrix& x) {
  std::vector<double> values;
  for (const auto& row : x) values.insert(values.end(), row.begin(), row.end());
  return values;
}

/// One step of x, given the mean m of gradients.
void plain_step(Matrix& x, Matrix& m, const Matrix& g, const MuonOptions& o) {
  Matrix u = g;
  const double rows = static_cast<double>(x.size()), columns = static_cast<double>(x[0].size());
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = 0; j < x[0].size(); ++j) {
      m[i][j] = o.momentum * m[i][j] + (1 - o.momentum) * g[i][j];
      u[i][j] = o.nesterov ? o.momentum * m[i][j] + (1 - o.momentum) * g[i][j] : m[i][j];
    }
  const Matrix direction = plain_newton_schulz(u);
  const double scale = o.scale == MuonScale::aspect ? std::sqrt(std::max(1.0, rows / columns))
                                                    : 0.2 * std::sqrt(std::max(rows, columns));
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = 0; j < x[0].size(); ++j)
      x[i][j] = (1 - o.lr * o.weight_decay) * x[i][j] - o.lr * scale * direction[i][j];
}

/// An orthogonal matrix: 1 − 2vvᵀ/(vᵀv).
Matrix reflection(size_t n, uint64_t seed) {
  const std::vector<double> v = test::normal({static_cast<int64_t>(n)}, seed).values();
  double squares = 0;
  for (const double e : v) squares += e * e;
  Matrix q = matrix(n, n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) q[i][j] = (i == j) - 2 * v[i] * v[j] / squares;
  return q;
}

}  // namespace

TEST_CASE("Newton-Schulz keeps singular vectors and brings singular values near 1") {
  for (const auto& shape : {std::pair<size_t, size_t>{12, 12}, {30, 12}, {12, 30}, {1, 9}, {9, 1}}) {
    INFO(shape.first, " rows, ", shape.second, " columns");
    const Matrix left = reflection(shape.first, 1), right = reflection(shape.second, 2);
    Matrix values = matrix(shape.first, shape.second);
    const size_t rank = std::min(shape.first, shape.second);
    for (size_t i = 0; i < rank; ++i) values[i][i] = 1.0 / static_cast<double>(1 + 3 * i);
    const Matrix x = product(product(left, values), right);
    const Tensor y = newton_schulz(
        tensor(values_of(x), Shape{static_cast<int64_t>(x.size()), static_cast<int64_t>(x[0].size())},
               DType::float64));
    // Reflections are their own inverses.
    const Matrix found = product(product(left, matrix_of(y)), right);
    const double size = length(values) + 1e-7;
    for (size_t i = 0; i < found.size(); ++i)
      for (size_t j = 0; j < found[0].size(); ++j) {
        double s = i == j ? values[i][j] / size : 0;
        for (int n = 0; n < 5; ++n) s = 3.4445 * s - 4.7750 * s * s * s + 2.0315 * s * s * s * s * s;
        CHECK(found[i][j] == doctest::Approx(s).epsilon(1e-10));
        if (i == j) CHECK(found[i][j] > 0.67);
        if (i == j) CHECK(found[i][j] < 1.21);
      }
  }
  CHECK_THROWS_WITH(newton_schulz(zeros({3})), doctest::Contains("newton_schulz: wanted a matrix"));
}

TEST_CASE("Muon follows a plain loop, and rows without gradients only decay") {
  const MuonOptions settings[] = {
      {},
      {.nesterov = false},
      {.lr = 0.1, .momentum = 0.8, .weight_decay = 0.3},
      {.lr = 0.1, .weight_decay = 0.1, .scale = MuonScale::adamw_rms},
  };
  for (const MuonOptions& options : settings)
    for (const Shape& shape : {Shape{7, 20}, Shape{20, 7}, Shape{1, 5}, Shape{6, 6}}) {
      INFO("setting ", &options - settings, ", ", fmt::format("{}", shape));
      Parameter p(test::normal(shape, 3));
      Muon muon({p}, options);
      Matrix x = matrix_of(p.master()), m = matrix(x.size(), x[0].size());
      const double first = x[0][0];
      for (uint64_t t = 0; t < 5; ++t) {
        Matrix g = matrix_of(test::normal(shape, 10 + t));
        if (shape[0] > 1) std::fill(g[0].begin(), g[0].end(), 0.0);
        p.master().set_grad(tensor(values_of(g), shape, DType::float64));
        muon.step();
        plain_step(x, m, g, options);
      }
      CHECK(spec::distance(p.master().values(), values_of(x), 1e-2) <= 1e-10);
      CHECK(spec::distance(muon.state(p, "momentum").values(), values_of(m), 1e-2) <= 1e-13);
      if (shape[0] > 1)
        CHECK(p.master().values()[0] ==
              doctest::Approx(first * std::pow(1 - options.lr * options.weight_decay, 5)).epsilon(1e-14));
    }
}

TEST_CASE("AdamW moves vectors, stacks of matrices, embeddings and heads; Muon what is inside the model") {
  const auto moved = [](const std::string& name, const Shape& shape, bool by_muon) {
    Parameter p(test::normal(shape, 4, DType::float32)), twin(test::normal(shape, 4, DType::float32));
    if (!name.empty()) p.set_name(name);
    Muon muon({p}, {.lr = 0.01, .weight_decay = 0.1});
    Adam adam({twin}, {.lr = 0.01, .beta2 = 0.95, .weight_decay = 0.1, .decay = Decay::decoupled});
    for (uint64_t t = 0; t < 3; ++t) {
      for (const Parameter& x : {p, twin}) x.master().set_grad(test::normal(shape, 20 + t, DType::float32));
      muon.step();
      adam.step();
    }
    INFO(name, fmt::format(" {}", shape));
    CHECK((p.master().values() == twin.master().values()) == !by_muon);
    CHECK(muon.state_names(p).size() == (by_muon ? 1 : 2));
  };
  moved("blocks.0.attention.query.weight", {6, 4}, true);
  moved("", {6, 4}, true);
  moved("ahead.weight", {6, 4}, true);
  moved("tokens.weight", {6, 4}, false);
  moved("positions", {6, 4}, false);
  moved("head.weight", {6, 4}, false);
  moved("blocks.0.attention.query.bias", {6}, false);
  moved("experts.weight", {2, 6, 4}, false);
  moved("scale", {}, false);
}

TEST_CASE("a parameter keeps its rule when it is named anew") {
  Parameter p(test::normal({3, 4}, 5));
  Muon muon({p});
  p.master().set_grad(test::normal({3, 4}, 6));
  muon.step();
  const auto before = p.master().values();
  p.set_name("tokens.weight");
  p.master().set_grad(test::normal({3, 4}, 7));
  muon.step();
  Parameter twin(tensor(test::normal({3, 4}, 5).values(), {3, 4}, DType::float64));
  Muon same({twin});
  for (const uint64_t seed : {6, 7}) twin.master().set_grad(test::normal({3, 4}, seed)), same.step();
  CHECK(p.master().values() == twin.master().values());
  CHECK(p.master().values() != before);
}

TEST_CASE("Muon refuses settings out of range") {
  const Parameter p(zeros({2, 2}));
  CHECK_THROWS_WITH(Muon({p}, {.momentum = 1}), doctest::Contains("Muon: the momentum is 1, wanted [0, 1)"));
  CHECK_THROWS_WITH(Muon({p}, {.iterations = 0}), doctest::Contains("Muon: iterations is 0"));
  CHECK_THROWS_WITH(Muon({p}, {.beta1 = 2}), doctest::Contains("Muon: the betas are 2 and 0.95"));
}
