// 16 bytes at a time: from wherever a view begins, over rows of any length, and operands that are broadcast.
#include <doctest/doctest.h>

#if VITRINE_CUDA_KERNELS

#include <string>

#include "core/kernels.h"
#include "core/random.h"
#include "ops/elementwise.h"
#include "ops/kernels.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "optim/kernels.h"
#include "tests/cuda/device.h"
#include "tests/spec/spec.h"
#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/counts.h"
#endif

using namespace vitrine;
using test::has_gpu;

namespace {

const DType kNarrow[] = {DType::float32, DType::bfloat16, DType::float16, DType::int32, DType::boolean};
const DType kFloating[] = {DType::float32, DType::bfloat16, DType::float16};

Tensor draw(const Shape& shape, DType dtype, uint64_t seed = 1) {
  Generator g(seed);
  return copy_as(randint(-9, 10, shape, g), dtype);
}

/// f(x, y) on the GPU has the bits that it has on the CPU.
template <class F>
void check_same(const Tensor& x, const Tensor& y, const F& f) {
  CHECK(f(to(x, Device::cuda), to(y, Device::cuda)).values() == f(x, y).values());
}

}  // namespace

TEST_CASE("elements are the CPU's wherever operands begin and however many there are") {
  if (!has_gpu()) return;
  for (const DType dtype : kNarrow)
    for (const int64_t n : {1, 15, 16, 17, 100})
      for (const int64_t begin : {0, 1, 4, 8}) {
        INFO(name(dtype), ": n is ", n, ", begin is ", begin);
        check_same(draw({120}, dtype), draw({120}, dtype, 2), [&](const Tensor& x, const Tensor& y) {
          const Tensor a = slice(x, 0, begin, begin + n), b = slice(y, 0, 0, n);
          return where(less(a, b), a, copy_as(cast(b, DType::float32), dtype));
        });
      }
}

TEST_CASE("operands that are broadcast, transposed or cut give the CPU's elements") {
  if (!has_gpu()) return;
  const auto last_but_one = [](const Tensor& t) { return slice(t, -1, 0, t.size(-1) - 1); };
  for (const DType dtype : kFloating)
    for (const int64_t columns : {6, 16, 33}) {
      INFO(name(dtype), ": columns is ", columns);
      const auto add = [](const Tensor& x, const Tensor& y) { return x + y; };
      const Tensor x = draw({3, 5, columns}, dtype);
      for (const Shape& other :
           {Shape{columns}, Shape{5, 1}, Shape{3, 1, columns}, Shape{3, 1, 1}, Shape{}}) {
        check_same(x, draw(other, dtype, 2), add);
        check_same(draw(other, dtype, 2), x, add);
      }
      check_same(x, draw({columns, 5, 3}, dtype, 2), [](const Tensor& a, const Tensor& b) {
        return a + permute(b, {2, 1, 0});
      });
      check_same(x, x, [&](const Tensor& a, const Tensor& b) { return last_but_one(a) + last_but_one(b); });
    }
}

TEST_CASE("rows of any length that begin anywhere are normalized as on the CPU") {
  if (!has_gpu()) return;
  for (const DType dtype : kFloating)
    for (const int64_t n : {1, 8, 30, 33, 64})
      for (const int64_t begin : {0, 1, 8}) {
        INFO(name(dtype), ": n is ", n, ", begin is ", begin);
        Generator g(3);
        const Tensor numbers = randn({8 + 3 * n}, dtype, Device::cpu, 0, 1, g);
        const auto rows = [&](const Tensor& t) { return reshape(slice(t, 0, begin, begin + 3 * n), {3, n}); };
        const auto check_near = [&](const char* op, const auto& f) {
          INFO(std::string(op));
          const Tensor want = f(rows(numbers)), got = f(rows(to(numbers, Device::cuda)));
          CHECK(spec::distance(got.values(), want.values(), 1e-3) <= 8 * epsilon(dtype));
        };
        check_near("softmax", [](const Tensor& x) { return softmax(x); });
        check_near("log_softmax", [](const Tensor& x) { return log_softmax(x); });
        check_near("rms_norm", [](const Tensor& x) { return rms_norm(x); });
        check_near("cross_entropy", [](const Tensor& x) {
          return cross_entropy(x, full({3}, 0, DType::int64, x.device()), {.reduction = Reduction::none});
        });
      }
}

#if VITRINE_CUDA_EMULATED
// As in the table of docs/cuda.md, where kernels are traced.
TEST_CASE("aligned tensors are read and written 16 bytes at a time") {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const Tensor x = to(draw({8, 1024}, dtype), Device::cuda);
    Tensor y = empty_like(x);
    const uint64_t vectors = 8 * 1024 * size_of(dtype) / 16;
    const auto counted = [&](const auto& run) {
      emulator::count_kernels(true);
      run();
      const auto counts = emulator::kernel_counts();
      emulator::count_kernels(false);
      REQUIRE(counts.size() == 1);
      return counts.begin()->second;
    };
    const auto copied = counted([&] { VITRINE_RUN(copy, y, x); });
    if (!copied.traced) return;
    CHECK(copied.loads == vectors);
    CHECK(copied.stores == vectors);
    const auto normalized = counted([&] { VITRINE_RUN(softmax, y, x); });
    CHECK(normalized.loads == 2 * vectors);
    CHECK(normalized.stores == vectors);
    CHECK(normalized.transactions == normalized.least_transactions);
  }
}
#endif

#endif
