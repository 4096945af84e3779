// Float32 in two halves: lossless, rounded to nearest, and the same on vectors and scalars.
#include "core/halves.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/creation.h"
#include "core/parameter.h"
#include "core/random.h"
#include "core/simd/row_functions.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

using namespace vitrine;

namespace {

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

/// Every upper half with lower halves around 0, the tie and the ends.
std::vector<float> floats() {
  std::vector<float> all;
  for (uint32_t high = 0; high < 1u << 16; ++high)
    for (const uint32_t low : {0u, 1u, 0x1234u, 0x7fffu, 0x8000u, 0x8001u, 0xfffeu, 0xffffu})
      all.push_back(std::bit_cast<float>(high << 16 | low));
  all.resize(all.size() - 3);  // so that the last vector is a part
  return all;
}

}  // namespace

TEST_CASE("halves joined are the float, bit for bit; a NaN stays a NaN in both") {
  for (const float x : floats()) {
    const Halves halves(x);
    if (std::isnan(x)) {
      REQUIRE(std::isnan(static_cast<float>(halves.high)));
      REQUIRE(std::isnan(halves.joined()));
    } else {
      REQUIRE(bits_of(halves.joined()) == bits_of(x));
    }
  }
}

TEST_CASE("the upper half is the float rounded to nearest, with ties away from 0") {
  for (const float x : floats()) {
    const Halves halves(x);
    const bool is_tie = halves.low == 0x8000;
    if (!is_tie) {
      if (!std::isnan(x)) REQUIRE(halves.high.bits == bfloat16(x).bits);
      continue;
    }
    if (std::isfinite(static_cast<float>(halves.high)))
      REQUIRE(std::abs(static_cast<float>(halves.high)) > std::abs(x));
  }
  CHECK(static_cast<float>(Halves(std::numeric_limits<float>::max()).high) == INFINITY);
  CHECK(static_cast<float>(Halves(-INFINITY).high) == -INFINITY);
}

TEST_CASE("vectors split and join as scalars do, at any length") {
  const std::vector<float> all = floats();
  std::vector<bfloat16> high(all.size());
  std::vector<uint16_t> low(all.size());
  std::vector<float> joined(all.size());
  vecmath::split({high.data(), low.data()}, all.data(), all.size());
  vecmath::join(joined.data(), {high.data(), low.data()}, all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const Halves want(all[i]);
    REQUIRE(high[i].bits == want.high.bits);
    REQUIRE(low[i] == want.low);
    REQUIRE(bits_of(joined[i]) == bits_of(want.joined()));
  }
  for (size_t n = 0; n < 40; ++n) {
    std::vector<float> part(41, 7.0f);
    vecmath::join(part.data(), {high.data() + 999, low.data() + 999}, n);
    for (size_t i = 0; i < n; ++i) REQUIRE(bits_of(part[i]) == bits_of(joined[999 + i]));
    REQUIRE(part[n] == 7.0f);
  }
}

TEST_CASE("a bfloat16 parameter keeps every bit of its float32 master, and stores 4 bytes an element") {
  Generator g(3);
  const Tensor x = randn({37, 11}, DType::float32, Device::cpu, 0, 1, g);
  Parameter p(copy_as(x, DType::float32));
  p.to(DType::bfloat16);
  CHECK_FALSE(p.stored().whole.defined());
  CHECK(p.stored().copy.storage().bytes() + p.stored().rest.storage().bytes() == 4 * 37 * 11);
  CHECK(p.master().values() == x.values());
  const Tensor more = randn({37, 11}, DType::float32, Device::cpu, 0, 1, g);
  p.assign(more);
  CHECK(p.master().values() == more.values());
  CHECK(p.clone().master().values() == more.values());
  p.to(DType::float32);
  CHECK(p.master().values() == more.values());
}

TEST_CASE("a joined master has the parameter's gradient, which conversions between 16 and 32 bits keep") {
  Parameter p(full({2}, 3.0));
  p.to(DType::bfloat16);
  p.master().set_grad(ones({2}));
  CHECK(p.grad().values() == std::vector<double>{1, 1});
  {
    Tape tape;
    tape.backward(sum(p.master() * p.master()) + sum(p.value()));
  }
  CHECK(p.grad().values() == std::vector<double>{8, 8});
  p.to(DType::float16);
  p.to(DType::float32);
  CHECK(p.grad().values() == std::vector<double>{8, 8});
  p.requires_grad(false);
  p.to(DType::bfloat16);
  CHECK(p.master().leaf() == nullptr);
}
