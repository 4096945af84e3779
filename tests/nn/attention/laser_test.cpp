// Known properties of LASER, on the fused and the generic path.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/creation.h"
#include "core/memory/allocator.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/attention/composed.h"
#include "nn/attention/parts/laser.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/attention_inputs.h"
#include "tests/ops/reference.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

using test::AttentionInputs, test::value_and_gradients;

/// q, k and dy are standard normal, v has this deviation.
AttentionInputs inputs(DType dtype, double deviation, int64_t time = 33) {
  Generator g(3);
  const auto normal = [&](double d) {
    return copy_as(randn({2, 2, time, 8}, DType::float64, Device::cpu, 0, d, g), dtype);
  };
  return {normal(1), normal(1), normal(deviation), normal(1)};
}

AttentionInputs widened(AttentionInputs x) {
  for (Tensor* t : {&x.q, &x.k, &x.v, &x.dy}) *t = copy_as(*t, DType::float64);
  return x;
}

/// y, dq, dk, dv.
std::vector<Tensor> run(const char* name, const AttentionInputs& x, bool generic,
                        const AttentionMask& mask = {}) {
  const ComposedAttention attention(parse_attention(name), x.q.size(1), x.q.size(3), 64);
  Tape tape;
  for (const Tensor& t : {x.q, x.k, x.v}) tape.watch(t);
  MixerTrace trace;
  const Tensor y = attention.forward(x.q, x.k, x.v, mask, nullptr, generic ? &trace : nullptr);
  auto result = tape.gradient({y}, {x.q, x.k, x.v}, {x.dy});
  result.insert(result.begin(), y);
  return result;
}

std::string path(bool generic) { return generic ? "generic" : "fused"; }

double error(const Tensor& got, const Tensor& want) {
  return spec::distance(got.values(), want.values(), 1e-9);
}

/// ‖got − want‖/‖want‖.
double relative(const Tensor& got, const Tensor& want) {
  const Tensor off = cast(got, DType::float64) - want;
  return std::sqrt(sum(square(off)).item() / sum(square(want)).item());
}

}  // namespace

TEST_CASE("LASER(ε·v)/ε tends to standard attention as ε tends to 0") {
  for (const bool generic : {false, true})
    for (const DType dtype : {DType::float64, DType::float32}) {
      const double rounding = dtype == DType::float64 ? 1e-9 : 2e-6;
      const AttentionInputs x = inputs(dtype, 1);
      const Tensor standard = run("standard", x, generic)[0];
      for (const double small : {1e-2, 1e-4, 1e-6}) {
        INFO(path(generic), ", ", name(dtype), ", ε = ", small);
        AttentionInputs scaled = x;
        scaled.v = x.v * small;
        const double off = error(run("laser", scaled, generic)[0] / small, standard);
        CHECK(off <= 2 * small + rounding);  // ε/2 times the variance of v, to first order
        CHECK(off >= small / 20 - rounding);
      }
    }
}

TEST_CASE("the gradient by the scores of two keys has the published values") {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  for (const bool generic : {false, true})
    for (const double gap : {-4.0, 4.0}) {
      INFO(path(generic), ", Δa = ", gap);
      const auto one = [](std::vector<double> x) {
        const auto n = static_cast<int64_t>(x.size());
        return tensor(x, {1, 1, n, 1}, DType::float64);
      };
      const AttentionInputs x{one({1}), one({gap, 0}), one({10, 0}), one({1})};
      const double of_laser = run("laser+scale=1", x, generic)[2].values()[0],
                   of_standard = run("standard+scale=1", x, generic)[2].values()[0];
      CHECK(std::abs(of_laser - (gap < 0 ? 0.980 : 0.018)) <= 5e-4);
      CHECK(std::abs(of_standard - 0.177) <= 5e-4);
      CHECK(of_laser == doctest::Approx(sigmoid(gap + 10) - sigmoid(gap)).epsilon(1e-12).scale(0));
      CHECK(of_standard == doctest::Approx(10 * sigmoid(gap) * sigmoid(-gap)).epsilon(1e-12).scale(0));
    }
}

// In bfloat16 the fused kernel rounds weights, exponentials of values and gradients of scores
// before it multiplies them.
TEST_CASE("in bfloat16 small values cost LASER no digits: 0.3 % of the output, 0.55 % of dq") {
  for (const bool generic : {false, true})
    for (const double deviation : {0.01, 0.1, 1.0}) {
      INFO(path(generic), ", deviation ", deviation);
      const AttentionInputs x = inputs(DType::bfloat16, deviation, 64);
      const auto got = run("laser", x, generic), want = run("laser", widened(x), generic);
      CHECK(relative(got[0], want[0]) <= (generic ? 0.002 : 0.003));
      CHECK(relative(got[1], want[1]) <= 0.0055);
    }
}

TEST_CASE("LASER reads what its anchor cannot reach: a far future, and values over a wide range") {
  const AttentionMask causal{.causal = true};
  for (const bool generic : {false, true})
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      INFO(path(generic), ", ", name(dtype));
      AttentionInputs x = inputs(dtype, 1);
      const Tensor before = run("laser", x, generic, causal)[0];
      x.v = concat({slice(x.v, 2, 0, 32), full({2, 2, 1, 8}, 1000, dtype)}, 2);
      const Tensor after = run("laser", x, generic, causal)[0];
      // A sum with different rounding moves a 16-bit result by at most one unit.
      CHECK(error(slice(after, 2, 0, 32), slice(before, 2, 0, 32)) <=
            (dtype == DType::float32 ? 2e-6 : epsilon(dtype)));

      // Most pairs of values differ by more than the exponent range of e^x in float32.
      const AttentionInputs wide = inputs(dtype, 100);
      const auto got = run("laser", wide, generic, causal),
                 want = run("laser", widened(wide), !generic, causal);
      for (size_t i = 0; i < got.size(); ++i) {
        if (dtype == DType::float32)
          CHECK(error(got[i], want[i]) <= 2e-5);
        else
          CHECK(relative(got[i], want[i]) <= 0.0055);
      }
    }
}

TEST_CASE("scores 200 apart are read right, also where a value makes up for a weight of e^−200") {
  for (const bool generic : {false, true})
    for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16})
      for (const double deviation : {0.01, 1.0, 100.0}) {
        INFO(path(generic), ", ", name(dtype), ", deviation ", deviation);
        AttentionInputs x = inputs(dtype, deviation);
        // Every query reads channel 0 only, in which the scores of the keys cycle through 200,
        // 0 and −200: exact in each dtype.
        const Tensor q = zeros(x.q.shape(), DType::float64), k = clone(cast(x.k, DType::float64));
        for (int64_t row = 0; row < 4 * 33; ++row) {
          q.data<double>()[row * 8] = 1;
          k.data<double>()[row * 8] = static_cast<double>(200 - 200 * (row % 3));
        }
        x.q = cast(q, dtype), x.k = cast(k, dtype);
        AttentionOptions exact;
        exact.scale = 1, exact.read = AttentionRead::laser;
        const AttentionInputs wide = widened(x);
        const auto got = run("laser+scale=1", x, generic),
                   want = value_and_gradients(define::attention, wide, exact);
        for (size_t i = 0; i < got.size(); ++i) {
          // The fused kernel rounds the gradients of scores. In dq and dk, terms of 200 times the
          // result's size cancel.
          const bool cancels = !generic && (i == 1 || i == 2);
          if (dtype == DType::bfloat16)
            CHECK(relative(got[i], want[i]) <= (i == 0 ? (generic ? 0.002 : 0.003) : cancels ? 0.2 : 0.0055));
          else
            // Exponents up to 500 are rounded, and terms of 200 times that size cancel in dq. The
            // exact formula cancels as well.
            CHECK(error(got[i], want[i]) <= (dtype == DType::float64 ? 1e-10 : 1e-3));
        }
      }
}

TEST_CASE("LASER's output lies between the least and the greatest value that a query sees") {
  for (const bool generic : {false, true})
    for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16})
      for (const double deviation : {0.01, 1.0, 20.0, 100.0}) {
        INFO(path(generic), ", ", name(dtype), ", deviation ", deviation);
        const AttentionInputs x = inputs(dtype, deviation);
        const AttentionMask mask{.causal = true, .left = 6};
        const auto y = run("laser", x, generic, mask)[0].values(), v = x.v.values();
        // The sums around the anchor are rounded relative to the size of the values. The rounding
        // of the result itself keeps the bounds. The fused kernel rounds e^(v − c) − δ to the dtype
        // of v.
        const double size = max(abs(cast(x.v, DType::float64))).item();
        const double rounding = 4 * epsilon(accumulation_dtype(dtype)) * size +
                                (generic ? 0 : epsilon(dtype) * std::min(size, 1.0));
        for (int64_t row = 0; row < 4; ++row)
          for (int64_t i = 0; i < 33; ++i)
            for (int64_t d = 0; d < 8; ++d) {
              const auto at = [&](int64_t j) { return static_cast<size_t>((row * 33 + j) * 8 + d); };
              double low = INFINITY, high = -INFINITY;
              for (int64_t j = std::max<int64_t>(0, i - 6); j <= i; ++j) {
                low = std::min(low, v[at(j)]);
                high = std::max(high, v[at(j)]);
              }
              CHECK(y[at(i)] >= low - rounding);
              CHECK(y[at(i)] <= high + rounding);
            }
      }
}

TEST_CASE("a row without keys gives 0 and gradients 0 also where LASER reads exactly") {
  const int64_t lengths[] = {33, 0};
  AttentionMask masked, biased;
  masked.allowed = padding_mask(lengths, 33);
  biased.bias = where(masked.allowed, full({}, 0, DType::float64), -INFINITY);
  const AttentionInputs x = inputs(DType::float64, 100);
  for (const bool generic : {false, true})
    for (const AttentionMask& mask : {masked, biased}) {
      INFO(path(generic), mask.bias.defined() ? ", hidden by a bias" : ", hidden by a mask");
      for (const Tensor& t : run("laser", x, generic, mask)) {
        for (const double e : select(t, 0, 1).values()) CHECK(e == 0);
        for (const double e : select(t, 0, 0).values()) CHECK(std::isfinite(e));
      }
    }
}

TEST_CASE("only the channels whose values are far apart need the exact read") {
  const Tensor scores = test::normal({1, 2, 5, 12}, 1, DType::float64, 2), weights = softmax(scores);
  const Tensor scale = tensor({1, 40, 0.01, 300}, {4}, DType::float64);
  const Tensor v = test::normal({1, 2, 12, 4}, 2) * scale;
  const LaserReadOut laser;
  Tape tape;
  const Tensor s = tape.watch(scores), x = tape.watch(v);
  const Tensor got = laser.read({.weights = softmax(s), .scores = s}, x),
               want = log_sum_exp(unsqueeze(s, -1) + unsqueeze(x, -3), {-2}) -
                      log_sum_exp(s, {-1}, KeepAxes::yes);
  CHECK(error(got, want) < 1e-12);
  const Tensor dy = test::normal(got.shape(), 3);
  const auto ours = tape.gradient({got}, {s, x}, {dy}, Keep::yes),
             theirs = tape.gradient({want}, {s, x}, {dy});
  for (size_t i = 0; i < 2; ++i) CHECK(error(ours[i], theirs[i]) < 1e-11);

  // One far channel of 64: without the choice a tensor [2, 64, 64, 64] of 4 MiB
  const Tensor s64 = test::normal({1, 2, 64, 64}, 4), w64 = softmax(s64),
               v64 = concat({test::normal({1, 2, 64, 63}, 5), test::normal({1, 2, 64, 1}, 6) * 100}, -1);
  memory::reset_peak();
  const size_t before = memory::statistics().now;
  laser.read({.weights = w64, .scores = s64}, v64);
  CHECK(memory::statistics().peak - before < 1 << 20);
}

TEST_CASE("two blocks of keys with anchors of their own join into the read of all keys") {
  for (const double deviation : {1e-6, 0.3, 3.0, 9.0}) {
    Generator g(8);
    const auto normal = [&](const Shape& shape, double d) {
      return randn(shape, DType::float64, Device::cpu, 0, d, g);
    };
    const Tensor scores = normal({1, 2, 5, 12}, 2), v = normal({1, 2, 12, 3}, deviation);
    const Tensor weights = softmax(scores);
    const LaserReadOut laser;
    const Tensor anchor = laser.anchor(v, {});
    Tensor average;
    for (const int64_t first : {0, 7}) {
      const int64_t end = first == 0 ? 7 : 12;
      const Tensor w = slice(weights, 3, first, end), block = slice(v, 2, first, end);
      const Tensor share = sum(w, {-1}, KeepAxes::yes), own = laser.anchor(block, {});
      const Tensor part = matmul(w / share, laser.encode(block, own));
      const Tensor joined = share * laser.rescale(part, own, anchor);
      average = average.defined() ? average + joined : joined;
    }
    const Tensor y = laser.decode(average, anchor);
    CHECK(error(y, laser.read({.weights = weights, .scores = scores}, v)) < 1e-12);
    CHECK(error(y, log(matmul(weights, exp(v)))) < (deviation < 1e-3 ? 1e-6 : 1e-12));
  }
}
