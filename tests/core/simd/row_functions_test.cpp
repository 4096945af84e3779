// Functions of one number, compared with a wider type.
#include "core/simd/row_functions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/core/simd/row_functions.h"

namespace vitrine {
namespace {

using test::on_every_isa;
using vecmath::Function;

/// The reference for float is double, and for double it is long double.
template <class T>
using Wider = std::conditional_t<std::is_same_v<T, float>, double, long double>;

/// One function: its reference, the range in which it is measured, and the error bound of
/// core/simd/row_functions.h.
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

/// Uniform numbers, and numbers with uniform bits (of all magnitudes, including denormals), in
/// [low, high].
template <class T>
std::vector<T> samples(const Case& c, size_t n) {
  using Bits = std::conditional_t<std::is_same_v<T, float>, uint32_t, uint64_t>;
  test::Sequence random{7};
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

/// A result that is exact, an infinity, a zero or NaN equals the C function's, including the sign
/// of zero.
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

TEST_CASE("a scope of an instruction set ends where it ends") {
  const Isa before = isa();
  {
    const detail::IsaScope scope(Isa::portable);
    CHECK(isa() == Isa::portable);
  }
  CHECK(isa() == before);
}

TEST_CASE("a set includes those before it, and the emulation of AMX needs AVX-512") {
  using detail::includes;
  CHECK(includes(Isa::amx, Isa::avx512_bf16));
  CHECK_FALSE(includes(Isa::avx512_bf16, Isa::amx));
  CHECK(includes(Isa::avx512, Isa::amx_emulated));
  CHECK_FALSE(includes(Isa::avx2, Isa::amx_emulated));
  CHECK(includes(Isa::amx_emulated, Isa::avx512));
  CHECK_FALSE(includes(Isa::amx_emulated, Isa::avx512_bf16));  // which the CPU may lack
  CHECK(includes(Isa::amx_emulated, Isa::amx_emulated));
  CHECK(detail::best_isa() <= Isa::amx);
}

TEST_CASE("a set that the CPU lacks is an error") {
  const Isa best = detail::best_isa();
  if (best == Isa::amx) return;
  const auto use_amx = [] { const detail::IsaScope scope(Isa::amx); };
  CHECK_THROWS_WITH(use_amx(),
                    fmt::format("IsaScope: amx is wanted, but this CPU has at most {}", name(best)).c_str());
}

}  // namespace
}  // namespace vitrine
