// Conversions between float, double and the 16-bit types.
#include <cmath>
#include <limits>

#include "tests/core/simd/row_functions.h"

namespace vitrine {
namespace {

using test::on_every_isa;

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

/// Between each two neighbours: the middle, and the numbers next to the middle in float and in
/// double.
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

}  // namespace
}  // namespace vitrine
