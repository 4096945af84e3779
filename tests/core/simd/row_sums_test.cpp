// Sums, extremes and maps over rows of any length.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/core/simd/row_functions.h"

namespace vitrine {
namespace {

using test::for_every_type;
using test::on_every_isa;
using test::random_row;

/// Lengths around every vector size and unrolling, and one that spans several blocks of a sum.
const size_t kLengths[] = {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 130, 5000, 12289};

template <class S>
double tolerance() {
  return 4 * static_cast<double>(std::numeric_limits<AccumulatorOf<S>>::epsilon());
}

template <class S, class F>
double exact_sum(const std::vector<S>& x, F term) {
  long double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += term(i);
  return static_cast<double>(sum);
}

template <class S>
void check_sums(size_t n) {
  const auto x = random_row<S>(n, -1, 2, n), y = random_row<S>(n, -1, 2, n + 1);
  const auto at = [](const std::vector<S>& v, size_t i) {
    return static_cast<double>(static_cast<AccumulatorOf<S>>(v[i]));
  };
  const double t = tolerance<S>() * (1 + 4.0 * static_cast<double>(n));  // a term is at most 4
  const auto close = [&](AccumulatorOf<S> got, double wanted) { return std::abs(got - wanted) <= t; };
  CHECK(close(vecmath::sum(x.data(), n), exact_sum(x, [&](size_t i) { return at(x, i); })));
  CHECK(close(vecmath::sum_of_squares(x.data(), n),
              exact_sum(x, [&](size_t i) { return at(x, i) * at(x, i); })));
  CHECK(close(vecmath::dot(x.data(), y.data(), n),
              exact_sum(x, [&](size_t i) { return at(x, i) * at(y, i); })));
  CHECK(close(vecmath::sum_squared_deviation(x.data(), AccumulatorOf<S>(0.5), n),
              exact_sum(x, [&](size_t i) { return (at(x, i) - 0.5) * (at(x, i) - 0.5); })));
  CHECK(close(vecmath::exp_shifted_sum<S>(nullptr, x.data(), AccumulatorOf<S>(2), n),
              exact_sum(x, [&](size_t i) { return std::exp(at(x, i) - 2); })));
}

TEST_CASE("sums over rows of any length agree with a long double sum") {
  on_every_isa([] {
    for (const size_t n : kLengths) for_every_type([n](auto s) { check_sums<decltype(s)>(n); });
  });
}

TEST_CASE("a float sum of a million equal terms is right to six digits") {
  const std::vector<float> x(1000000, 0.1f);
  on_every_isa(
      [&] { CHECK(vecmath::sum(x.data(), x.size()) == doctest::Approx(100000.0015).epsilon(2e-6)); });
}

template <class S>
void check_extremes(size_t n) {
  auto x = random_row<S>(n, -3, -1, n);
  using T = AccumulatorOf<S>;
  T largest = -std::numeric_limits<T>::infinity(), smallest = std::numeric_limits<T>::infinity();
  for (const S v : x)
    largest = std::max(largest, static_cast<T>(v)), smallest = std::min(smallest, static_cast<T>(v));
  CHECK(vecmath::max(x.data(), n) == largest);
  CHECK(vecmath::min(x.data(), n) == smallest);
  for (size_t i = 0; i < std::min<size_t>(n, 200); ++i) {
    const S kept = x[i];
    x[i] = static_cast<S>(std::numeric_limits<T>::quiet_NaN());
    CHECK(std::isnan(vecmath::max(x.data(), n)));
    CHECK(std::isnan(vecmath::min(x.data(), n)));
    x[i] = static_cast<S>(T(5));
    CHECK(vecmath::max(x.data(), n) == 5);
    x[i] = static_cast<S>(T(-5));
    CHECK(vecmath::min(x.data(), n) == -5);
    x[i] = kept;
  }
}

TEST_CASE("max and min find the extreme element wherever it stands, and NaN wins") {
  on_every_isa([] {
    for (const size_t n : kLengths) for_every_type([n](auto s) { check_extremes<decltype(s)>(n); });
  });
}

/// Runs op(y, x, z) on rows that start at an odd address, and compares the result with expected(x,
/// z) element by element. Memory after the row must not change.
template <class S, class Op, class Expected>
void check_map(size_t n, Op op, Expected expected) {
  using T = AccumulatorOf<S>;
  const auto x = random_row<S>(n + 1, -2, 2, n), z = random_row<S>(n + 1, -2, 2, n + 1);
  std::vector<S> y(n + 40, static_cast<S>(T(77)));
  op(y.data() + 1, x.data() + 1, z.data() + 1);
  CHECK(static_cast<T>(y[0]) == 77);
  for (size_t i = n + 1; i < y.size(); ++i) REQUIRE(static_cast<T>(y[i]) == 77);
  const double unit = static_cast<double>(std::numeric_limits<S>::epsilon());
  for (size_t i = 1; i <= n; ++i) {
    const double wanted =
        expected(static_cast<double>(static_cast<T>(x[i])), static_cast<double>(static_cast<T>(z[i])));
    REQUIRE(std::abs(static_cast<double>(static_cast<T>(y[i])) - wanted) <=
            4 * unit * std::max(1.0, std::abs(wanted)));
  }
}

template <class S>
void check_maps(size_t n) {
  using T = AccumulatorOf<S>;
  check_map<S>(
      n, [n](S* y, const S* x, const S*) { vecmath::exp_shifted_scaled(y, x, T(1), T(0.5), n); },
      [](double x, double) { return 0.5 * std::exp(x - 1); });
  check_map<S>(
      n, [n](S* y, const S* x, const S*) { vecmath::scale(y, x, T(3), n, T(0.5)); },
      [](double x, double) { return 3 * (x - 0.5); });
  check_map<S>(
      n, [n](S* y, const S* x, const S* z) { vecmath::multiply(y, x, z, n); },
      [](double x, double z) { return x * z; });
  check_map<S>(
      n, [n](S* y, const S* x, const S* z) { vecmath::multiply_shifted(y, x, T(0.25), z, n); },
      [](double x, double z) { return (x - 0.25) * z; });
  const auto wide_row = [n](const S* z) { return std::vector<T>(z, z + n); };
  check_map<S>(
      n,
      [n, wide_row](S* y, const S* x, const S* z) {
        vecmath::normalize(y, x, T(0.5), T(2), wide_row(z).data(), wide_row(z).data(), n);
      },
      [](double x, double z) { return (x - 0.5) * 2 * z + z; });
  check_map<S>(
      n,
      [n, wide_row](S* y, const S* x, const S* z) {
        vecmath::normalize<S>(y, x, T(0.5), T(2), wide_row(z).data(), nullptr, n);
      },
      [](double x, double z) { return (x - 0.5) * 2 * z; });
  check_map<S>(
      n,
      [n, wide_row](S* y, const S* x, const S* z) {
        vecmath::normalize<S>(y, x, T(0.5), T(2), nullptr, wide_row(z).data(), n);
      },
      [](double x, double z) { return (x - 0.5) * 2 + z; });
  check_map<S>(
      n, [n](S* y, const S* x, const S*) { vecmath::normalize<S>(y, x, T(0.5), T(2), nullptr, nullptr, n); },
      [](double x, double) { return (x - 0.5) * 2; });
}

TEST_CASE("row functions write every element of a row of any length and nothing else") {
  on_every_isa([] {
    for (const size_t n : kLengths) for_every_type([n](auto s) { check_maps<decltype(s)>(n); });
  });
}

TEST_CASE("axpy and exp_shifted_sum write wide rows") {
  on_every_isa([] {
    for_every_type([](auto s) {
      using S = decltype(s);
      using T = AccumulatorOf<S>;
      const auto x = random_row<S>(37, -2, 2, 3);
      std::vector<T> y(37, T(1)), e(37);
      vecmath::axpy(y.data(), T(2), x.data(), x.size());
      const T sum = vecmath::exp_shifted_sum(e.data(), x.data(), T(1), x.size());
      T total = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const T v = static_cast<T>(x[i]);
        CHECK(y[i] == doctest::Approx(1 + 2 * v).epsilon(tolerance<S>()));
        CHECK(e[i] == doctest::Approx(std::exp(v - 1)).epsilon(tolerance<S>()));
        total += e[i];
      }
      CHECK(sum == doctest::Approx(total).epsilon(10 * tolerance<S>()));
    });
  });
}

}  // namespace
}  // namespace vitrine
