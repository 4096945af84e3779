#include "core/vecmath.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/isa.h"

namespace vitrine {
namespace {

using vecmath::Function;

/// Runs `body` with every instruction set that this machine has.
template <class F>
void on_every_isa(F body) {
  for (const Isa set : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (set > detail::best_isa()) continue;
    const detail::IsaScope scope(set);
    INFO("instruction set ", std::string(name(set)));
    body();
  }
}

/// Numbers that look random, the same on every run.
struct Sequence {
  uint64_t state = 0;
  uint64_t next() {  // splitmix64
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
  }
};

template <class S>
std::vector<S> random_row(size_t n, double low, double high, uint64_t seed) {
  Sequence random{seed};
  std::vector<S> x(n);
  for (S& v : x) v = static_cast<S>(static_cast<Wide<S>>(random.uniform(low, high)));
  return x;
}

// ---- Functions against a wider type ----

/// float is judged by double, double by long double.
template <class T>
using Wider = std::conditional_t<std::is_same_v<T, float>, double, long double>;

/// One function: its reference, where it is measured, and the promise of vecmath.h.
struct Case {
  Function function;
  std::string name;
  std::function<double(double)> in_double;
  std::function<long double(long double)> in_long_double;
  double low, high;  // sampled uniformly here, and over all bit patterns within
  double bound;
  double floor = 0;  // a result smaller than this is measured in ulp of this
};

#define FUNCTIONS(name) [](double x) { return std::name(x); }, [](long double x) { return std::name(x); }

const Case kCases[] = {
    {Function::exp, "exp", FUNCTIONS(exp), -110, 90, 1},
    {Function::expm1, "expm1", FUNCTIONS(expm1), -110, 90, 4},
    {Function::log, "log", FUNCTIONS(log), 0, 1e30, 1},
    {Function::log1p, "log1p", FUNCTIONS(log1p), -1, 1e30, 3},
    {Function::sqrt, "sqrt", FUNCTIONS(sqrt), 0, 1e30, 0.5},
    {Function::rsqrt, "rsqrt", [](double x) { return 1 / std::sqrt(x); },
     [](long double x) { return 1 / std::sqrt(x); }, 0, 1e30, 1.5},
    {Function::sin, "sin", FUNCTIONS(sin), -1e5, 1e5, 2.5, 1},
    {Function::cos, "cos", FUNCTIONS(cos), -1e5, 1e5, 2.5, 1},
    {Function::tanh, "tanh", FUNCTIONS(tanh), -25, 25, 3},
    {Function::erf, "erf", FUNCTIONS(erf), -7, 7, 4},
};

template <class T>
Wider<T> reference(const Case& c, T x) {
  if constexpr (std::is_same_v<T, float>) {
    return c.in_double(x);
  } else {
    return c.in_long_double(x);
  }
}

template <class T>
double error_in_ulp(T got, Wider<T> wanted, double floor) {
  const T rounded = static_cast<T>(wanted);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : INFINITY;
  const T size = std::max(std::abs(rounded), static_cast<T>(floor));
  const T ulp = std::max(std::nextafter(size, std::numeric_limits<T>::infinity()) - size,
                         std::numeric_limits<T>::denorm_min());
  return static_cast<double>(std::abs(static_cast<Wider<T>>(got) - wanted) / ulp);
}

/// Uniform numbers, and numbers with uniform bits (all magnitudes, denormals too), in [low, high].
template <class T>
std::vector<T> samples(const Case& c, size_t n) {
  using Bits = std::conditional_t<std::is_same_v<T, float>, uint32_t, uint64_t>;
  Sequence random{7};
  std::vector<T> x;
  for (double bound : {c.high - c.low, 20.0, 2.0})
    for (size_t i = 0; i < n / 4; ++i)
      x.push_back(static_cast<T>(std::clamp(random.uniform(-bound, bound), c.low, c.high)));
  while (x.size() < n) {
    const T v = std::bit_cast<T>(static_cast<Bits>(random.next()));
    if (v >= static_cast<T>(c.low) && v <= static_cast<T>(c.high)) x.push_back(v);
  }
  return x;
}

template <class T>
void check_accuracy(const Case& c) {
  const std::vector<T> x = samples<T>(c, 200000);
  std::vector<T> y(x.size());
  vecmath::apply(c.function, y.data(), x.data(), x.size());
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = error_in_ulp(y[i], reference(c, x[i]), c.floor);
    if (error > worst) worst = error, where = i;
  }
  INFO(c.name, " of ", sizeof(T), " bytes at ", x[where], " gives ", y[where]);
  CHECK(worst <= c.bound);
}

/// Where a result is exact or an infinity, a zero or NaN, it is that of the C function, to the sign of zero.
template <class T>
void check_edges(const Case& c) {
  using Limits = std::numeric_limits<T>;
  const T edges[] = {0,
                     -T(0),
                     Limits::infinity(),
                     -Limits::infinity(),
                     Limits::quiet_NaN(),
                     Limits::denorm_min(),
                     -Limits::denorm_min(),
                     Limits::min(),
                     Limits::max(),
                     Limits::lowest(),
                     T(-1),
                     T(-2),
                     T(800),
                     T(-800),
                     T(1e10),
                     T(-1e10)};
  for (const T x : edges) {
    T y = 42;
    vecmath::apply(c.function, &y, &x, 1);
    const Wider<T> wanted = reference(c, x);
    const T rounded = static_cast<T>(wanted);
    INFO(c.name, " of ", sizeof(T), " bytes at ", x, " gives ", y, ", wanted ", rounded);
    CHECK(error_in_ulp(y, wanted, c.floor) <= c.bound);
    if (!std::isnan(rounded)) CHECK(std::signbit(y) == std::signbit(rounded));
  }
}

TEST_CASE("vector functions keep the error bounds that they promise") {
  on_every_isa([] {
    for (const Case& c : kCases) {
      check_accuracy<float>(c);
      check_accuracy<double>(c);
    }
  });
}

TEST_CASE(
    "vector functions treat zeros, infinities, NaN, denormals and huge arguments as the C functions do") {
  on_every_isa([] {
    for (const Case& c : kCases) {
      check_edges<float>(c);
      check_edges<double>(c);
    }
  });
}

// ---- Rows ----

/// Lengths around every vector size and unrolling, and one that spans several blocks of a sum.
const size_t kLengths[] = {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 130, 5000, 12289};

template <class S>
double tolerance() {
  return 4 * static_cast<double>(std::numeric_limits<Wide<S>>::epsilon());
}

/// Calls body(S{}) for each of the four types.
template <class F>
void for_every_type(F body) {
  body(float{});
  body(double{});
  body(bfloat16{});
  body(float16{});
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
    return static_cast<double>(static_cast<Wide<S>>(v[i]));
  };
  const double t = tolerance<S>() * (1 + 4.0 * static_cast<double>(n));  // a term is at most 4
  const auto close = [&](Wide<S> got, double wanted) { return std::abs(got - wanted) <= t; };
  CHECK(close(vecmath::sum(x.data(), n), exact_sum(x, [&](size_t i) { return at(x, i); })));
  CHECK(close(vecmath::sum_of_squares(x.data(), n),
              exact_sum(x, [&](size_t i) { return at(x, i) * at(x, i); })));
  CHECK(close(vecmath::dot(x.data(), y.data(), n),
              exact_sum(x, [&](size_t i) { return at(x, i) * at(y, i); })));
  CHECK(close(vecmath::sum_squared_deviation(x.data(), Wide<S>(0.5), n),
              exact_sum(x, [&](size_t i) { return (at(x, i) - 0.5) * (at(x, i) - 0.5); })));
  CHECK(close(vecmath::exp_shifted_sum<S>(nullptr, x.data(), Wide<S>(2), n),
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
  using T = Wide<S>;
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

/// Runs op(y, x, z) on rows that start at an odd address, and compares with expected(x, z) element by
/// element; what lies behind the row must stay.
template <class S, class Op, class Expected>
void check_map(size_t n, Op op, Expected expected) {
  using T = Wide<S>;
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
  using T = Wide<S>;
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
      using T = Wide<S>;
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

// ---- Conversions ----

template <class S>
std::vector<S> all_16_bit_patterns() {
  std::vector<S> x(65536);
  for (size_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<uint16_t>(i);
  return x;
}

template <class S>
void check_16_bit_round_trip() {
  const auto x = all_16_bit_patterns<S>();
  std::vector<float> wide(x.size());
  std::vector<double> wider(x.size());
  std::vector<S> back(x.size()), back_from_double(x.size());
  vecmath::convert(wide.data(), x.data(), x.size());
  vecmath::convert(wider.data(), x.data(), x.size());
  vecmath::convert(back.data(), wide.data(), x.size());
  vecmath::convert(back_from_double.data(), wider.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const float expected = static_cast<float>(x[i]);
    if (std::isnan(expected)) {
      REQUIRE((std::isnan(wide[i]) && std::isnan(wider[i])));
      REQUIRE(
          (std::isnan(static_cast<float>(back[i])) && std::isnan(static_cast<float>(back_from_double[i]))));
    } else {
      REQUIRE((wide[i] == expected && wider[i] == expected));
      REQUIRE((back[i].bits == x[i].bits && back_from_double[i].bits == x[i].bits));
    }
  }
}

TEST_CASE("every bfloat16 and float16 survives the way to float and double and back") {
  on_every_isa([] {
    check_16_bit_round_trip<bfloat16>();
    check_16_bit_round_trip<float16>();
  });
}

/// Between each two neighbours: the middle, and the numbers directly beside it in float and in double.
template <class S>
void check_rounding() {
  for (uint16_t bits = 0; bits < 0x7c00; bits += 7) {
    S low, high;
    low.bits = bits;
    high.bits = static_cast<uint16_t>(bits + 1);
    if (!std::isfinite(static_cast<float>(high))) continue;
    const double middle = (static_cast<double>(static_cast<float>(low)) + static_cast<float>(high)) / 2;
    const uint16_t even = bits % 2 == 0 ? low.bits : high.bits;
    const double x[] = {middle, std::nextafter(middle, 0), std::nextafter(middle, 1e300), -middle};
    S y[4];
    vecmath::convert(y, x, 4);
    CHECK(y[0].bits == even);
    CHECK(y[1].bits == low.bits);
    CHECK(y[2].bits == high.bits);
    CHECK(y[3].bits == (even | 0x8000));
    const auto m = static_cast<float>(middle);
    const float xf[] = {m, std::nextafter(m, 0.0f), std::nextafter(m, 1e38f), -m};
    vecmath::convert(y, xf, 4);
    CHECK(y[0].bits == even);
    CHECK(y[1].bits == low.bits);
    CHECK(y[2].bits == high.bits);
    CHECK(y[3].bits == (even | 0x8000));
  }
}

TEST_CASE("conversions to 16 bits round to nearest, ties to even, once, also from double") {
  on_every_isa([] {
    check_rounding<bfloat16>();
    check_rounding<float16>();
  });
}

TEST_CASE("conversions keep NaN and infinities, and overflow to infinity") {
  on_every_isa([] {
    const double inf = std::numeric_limits<double>::infinity();
    const std::vector<double> x = {std::nan(""), inf, -inf, 1e300, -1e300, 1e-300, 65504, 65519.99, 65520};
    std::vector<float> f(x.size());
    std::vector<bfloat16> b(x.size()), b_from_float(x.size());
    std::vector<float16> h(x.size()), h_from_float(x.size());
    vecmath::convert(f.data(), x.data(), x.size());
    vecmath::convert(b.data(), x.data(), x.size());
    vecmath::convert(h.data(), x.data(), x.size());
    vecmath::convert(b_from_float.data(), f.data(), x.size());
    vecmath::convert(h_from_float.data(), f.data(), x.size());
    CHECK((std::isnan(f[0]) && std::isnan(float(b[0])) && std::isnan(float(h[0]))));
    CHECK((std::isnan(float(b_from_float[0])) && std::isnan(float(h_from_float[0]))));
    for (size_t i = 1; i < 5; ++i) {
      const float wanted = x[i] > 0 ? static_cast<float>(inf) : -static_cast<float>(inf);
      CHECK((f[i] == wanted && float(b[i]) == wanted && float(h[i]) == wanted));
      CHECK((float(b_from_float[i]) == wanted && float(h_from_float[i]) == wanted));
    }
    CHECK((f[5] == 0 && float(b[5]) == 0 && float(h[5]) == 0));
    CHECK((float(h[6]) == 65504 && float(h[7]) == 65504 && std::isinf(float(h[8]))));
  });
}

// ---- The choice of instruction set ----

TEST_CASE("a scope of an instruction set ends where it ends") {
  const Isa before = isa();
  {
    const detail::IsaScope scope(Isa::portable);
    CHECK(isa() == Isa::portable);
  }
  CHECK(isa() == before);
}

}  // namespace
}  // namespace vitrine
