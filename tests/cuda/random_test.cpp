// Random numbers on the device: the same bits as on the CPU, in any order of the threads.
#include <doctest/doctest.h>

#if VITRINE_CUDA_KERNELS

#include <string>
#include <vector>

#include "core/tensor_kernels.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/kernels.h"
#include "ops/multinomial.h"
#include "tests/cuda/same_bits.h"

using namespace vitrine;
using namespace vitrine::test;

TEST_CASE("random numbers and dropout have the CPU's bits") {
  if (!has_gpu()) return;
  for (const int64_t n : {1, 2, 3, 4, 5, 1023, 20001})
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
      INFO(n, " ", name(dtype));
      const auto numbers = [&](auto f) {
        return [=](const Tensor& t) {
          Generator g(11);
          g.set(11, uint64_t{1} << 33);
          return f({n}, dtype, t.device(), 2, 5, g);
        };
      };
      check_same(Tensor(0.0), numbers(vitrine::rand));
      const auto normals = numbers(randn);
      CHECK(spec::distance(normals(to(Tensor(0.0), Device::cuda)).values(), normals(Tensor(0.0)).values(),
                           1e-3) <= 2 * epsilon(dtype == DType::float64 ? DType::float32 : dtype));
      check_same(normal({n}, 2, dtype), [](const Tensor& t) {
        Generator g(12);
        return dropout(t, 0.3, g);
      });
    }
}

TEST_CASE("whole numbers and permutations are the CPU's, whatever their range") {
  if (!has_gpu()) return;
  struct Range {
    int64_t low, high;
  };
  // Of which 64 bits hold three times as many: a quarter of the draws is refused
  constexpr int64_t kMany = (int64_t{1} << 62) + 1;
  for (const Range& range :
       {Range{0, 7}, Range{-5, -4}, Range{-3, kMany - 3}, Range{INT64_MAX - 3, INT64_MAX}})
    for (const int64_t n : {0, 1, 1000}) {
      INFO(range.low, " to ", range.high, ", ", n, " of them");
      const auto draw = [&](Device device) {
        Generator g(17);
        const Tensor y = to(randint(range.low, range.high, {n}, device, g), Device::cpu);
        CHECK(g.offset() == static_cast<uint64_t>(n));
        const auto* const data = y.data<int64_t>();
        return std::vector<int64_t>(data, data + n);
      };
      const auto want = draw(Device::cpu);
      for (const int64_t x : want) CHECK((x >= range.low && x < range.high));
      CHECK(draw(Device::cuda) == want);
      in_any_order([&] { CHECK(draw(Device::cuda) == want); });
    }
  Generator one(3), other(3);
  const Tensor order = randperm(50, Device::cuda, one);
  CHECK(order.device() == Device::cuda);
  CHECK(order.values() == randperm(50, Device::cpu, other).values());
}

TEST_CASE("draws by weights are the CPU's, with and without replacement") {
  if (!has_gpu()) return;
  for (const int64_t n : {1, 2, 31, 33, 1000, 1025, 40000}) {
    INFO("n is ", n);
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::int32}) {
      if (n > 10000 && dtype != DType::float32) continue;
      Generator g(13);
      const Tensor weights = copy_as(rand({3, n}, DType::float64, Device::cpu, 1, 1000, g), dtype);
      const Tensor some_zero = where(greater(weights, full({}, 300, dtype)), weights, full({}, 0, dtype));
      for (const bool replacement : {false, true})
        check_same(replacement ? some_zero : weights, [&](const Tensor& t) {
          Generator generator(14);
          const Tensor drawn =
              multinomial(t, replacement ? 70 : std::min<int64_t>(n, 70), replacement, generator);
          CHECK(generator.offset() == static_cast<uint64_t>(replacement ? 3 * 70 : 3 * n));
          return drawn;
        });
    }
  }
  // An index hides most errors of rounding; sums and times show them.
  for (const int64_t n : {1, 31, 32, 33, 1000}) {
    check_same(normal({3, n}, 2), [&](const Tensor& t) {
      Tensor sums = empty({3, (n + 31) / 32}, DType::float64, t.device());
      VITRINE_RUN(sum_neighbours, sums, t);
      return sums;
    });
    check_same(whole({3, n}, DType::float64), [&](const Tensor& t) {
      Tensor times = empty_like(t);
      VITRINE_RUN(first_times, times, t, (Draw{3, 4}));
      return times;
    });
  }
  check_same(transpose(normal({5, 4}, 2) * normal({5, 4}, 2) + 10.0), [](const Tensor& t) {
    Generator generator(15);
    return multinomial(t, 3, false, generator);
  });
}

TEST_CASE("weights that cannot be drawn by are told by what waits next") {
  if (!has_gpu()) return;
  const auto draw = [](const Tensor& weights, bool replacement) {
    return multinomial(to(weights, Device::cuda), 2, replacement).values();
  };
  for (const bool replacement : {false, true}) {
    for (const double wrong : {-1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)})
      CHECK_THROWS_WITH(draw(tensor({1, 2, 3, 4, 5, wrong}, {2, 3}), replacement),
                        doctest::Contains("multinomial: weight 2 of row 1 is"));
    CHECK_THROWS_WITH(draw(tensor({1, 2, 3, 0, 0, 0}, {2, 3}), replacement),
                      doctest::Contains("multinomial: row 1 has 0 weights above 0, too few for 2 draws"));
  }
  CHECK_THROWS_WITH(draw(tensor({0, 2, 0}), false), doctest::Contains("has 1 weights above 0"));
  CHECK(draw(tensor({0, 2, 0}), true) == std::vector<double>{1, 1});
}

#endif
