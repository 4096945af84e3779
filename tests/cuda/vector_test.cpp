// Access of 16 bytes at a time: views that begin anywhere, rows of any length, and operands that
// are broadcast.
#include <doctest/doctest.h>

#if VITRINE_CUDA_KERNELS

#include <cmath>
#include <cstring>
#include <string>

#include "core/random.h"
#include "core/tape.h"
#include "core/tensor_kernels.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/kernels.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "optim/kernels.h"
#include "tests/cuda/device.h"
#include "tests/cuda/same_bits.h"
#include "tests/spec/spec.h"
#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/counts.h"
#endif

using namespace vitrine;
using test::has_gpu;

namespace {

const DType kNarrow[] = {DType::float32, DType::bfloat16, DType::float16,
                         DType::int32,   DType::uint8,    DType::boolean};
const DType kVectorFloats[] = {DType::float32, DType::bfloat16, DType::float16};

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
        check_same(test::whole({120}, dtype), test::whole({120}, dtype, 2),
                   [&](const Tensor& x, const Tensor& y) {
                     const Tensor a = slice(x, 0, begin, begin + n), b = slice(y, 0, 0, n);
                     return where(less(a, b), a, copy_as(cast(b, DType::float32), dtype));
                   });
      }
}

TEST_CASE("operands that are broadcast, transposed or cut give the CPU's elements") {
  if (!has_gpu()) return;
  const auto last_but_one = [](const Tensor& t) { return slice(t, -1, 0, t.size(-1) - 1); };
  for (const DType dtype : kVectorFloats)
    for (const int64_t columns : {6, 16, 33}) {
      INFO(name(dtype), ": columns is ", columns);
      const auto add = [](const Tensor& x, const Tensor& y) { return x + y; };
      const Tensor x = test::whole({3, 5, columns}, dtype);
      for (const Shape& other :
           {Shape{columns}, Shape{5, 1}, Shape{3, 1, columns}, Shape{3, 1, 1}, Shape{}}) {
        check_same(x, test::whole(other, dtype, 2), add);
        check_same(test::whole(other, dtype, 2), x, add);
      }
      check_same(x, test::whole({columns, 5, 3}, dtype, 2), [](const Tensor& a, const Tensor& b) {
        return a + permute(b, {2, 1, 0});
      });
      check_same(x, x, [&](const Tensor& a, const Tensor& b) { return last_but_one(a) + last_but_one(b); });
    }
}

TEST_CASE("rows of any length that begin anywhere are normalized as on the CPU") {
  if (!has_gpu()) return;
  for (const DType dtype : kVectorFloats)
    for (const int64_t n : {1, 8, 30, 33, 64, 2056, 17001})  // the last one in shared memory
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
        check_near("softmax's gradient, of rows that begin elsewhere", [](const Tensor& dy) {
          Tensor y = softmax(dy), dx = empty_like(y);
          VITRINE_RUN(softmax_backward, dx, dy, y);
          return dx;
        });
        check_near("log_softmax", [](const Tensor& x) { return log_softmax(x); });
        check_near("rms_norm", [](const Tensor& x) { return rms_norm(x); });
        check_near("gradients of layer_norm", [&](const Tensor& x) {
          Tape tape;
          const Tensor w = tape.watch(full({n}, 2, accumulation_dtype(dtype), x.device())),
                       b = tape.watch(zeros_like(w));
          const Tensor in = tape.watch(x);
          const std::vector<Tensor> g = tape.gradient({layer_norm(in, w, b)}, {in, w, b}, {x * x});
          return concat({cast(reshape(g[0], {3 * n}), accumulation_dtype(dtype)), g[1], g[2]}, 0);
        });
        for (const double smoothing : {0.0, 0.1})
          check_near("cross_entropy", [&](const Tensor& x) {
            const std::vector<int64_t> targets = {n - 1, -100, 0};
            return cross_entropy(x, to(index_tensor(targets, {3}), x.device()),
                                 {.reduction = Reduction::none, .label_smoothing = smoothing});
          });
      }
}

TEST_CASE("random numbers and dropout are the CPU's wherever a view begins") {
  if (!has_gpu()) return;
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16})
    for (const int64_t n : {1, 7, 8, 9, 100})
      for (const int64_t begin : {0, 1, 2, 4, 8}) {
        INFO(name(dtype), ": n is ", n, ", begin is ", begin);
        const auto drawn = [&](const Tensor& x, const Tensor& y) {
          Tensor u = slice(copy_as(y, dtype), 0, begin, begin + n);
          VITRINE_RUN(random_uniform, u, Draw{7, 9}, -1.0, 1.0);
          Tensor kept = slice(copy_as(y, dtype), 0, begin, begin + n);
          VITRINE_RUN(dropout, kept, slice(x, 0, 8 - begin, 8 - begin + n), 0.4, 2.0, (Draw{7, 10}));
          return concat({u, kept}, 0);
        };
        check_same(test::whole({120}, dtype), test::whole({120}, dtype, 2), drawn);
      }
}

TEST_CASE("conversions between floats round as on the CPU, and keep every 16-bit number") {
  if (!has_gpu()) return;
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    Tensor all = empty({1 << 16}, dtype);
    auto* const bits = static_cast<uint16_t*>(all.raw());
    for (int i = 0; i < 1 << 16; ++i) bits[i] = static_cast<uint16_t>(i);
    const Tensor wide = copy_as(all, DType::float32), on_device = to(all, Device::cuda);
    const Tensor back = to(copy_as(copy_as(on_device, DType::float32), dtype), Device::cpu);
    int64_t wrong = 0;
    for (int i = 0; i < 1 << 16; ++i)
      wrong += std::isfinite(wide.data<float>()[i]) && static_cast<uint16_t*>(back.raw())[i] != i;
    CHECK(wrong == 0);
    // Half-way between neighbours, and a little to each side.
    Tensor between = empty({3 << 16}, DType::float32);
    for (int i = 0; i < 1 << 16; ++i) {
      const float x = wide.data<float>()[i];
      float* const to = between.data<float>() + 3 * i;
      const float next = i + 1 < 1 << 16 ? wide.data<float>()[i + 1] : x;
      to[1] = std::isfinite(x) && std::isfinite(next) && (x < 0) == (next < 0) ? x + (next - x) / 2 : 1;
      to[0] = std::nextafter(to[1], -INFINITY), to[2] = std::nextafter(to[1], INFINITY);
    }
    const Tensor want = copy_as(between, dtype),
                 got = to(copy_as(to(between, Device::cuda), dtype), Device::cpu);
    CHECK(std::memcmp(want.raw(), got.raw(), static_cast<size_t>(want.numel()) * 2) == 0);
  }
}

#if VITRINE_CUDA_EMULATED
// As in the table of docs/cuda.md, where kernels are traced.
TEST_CASE("aligned tensors are read and written 16 bytes at a time") {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const Tensor x = to(test::whole({8, 1024}, dtype), Device::cuda);
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
    CHECK(normalized.loads == vectors);  // The row is held in registers.
    CHECK(normalized.stores == vectors);
    CHECK(normalized.transactions == normalized.least_transactions);
    // Columns: 8 bytes at a time, so that a warp has 256 of each row.
    Tensor of_rows = empty({8, 1}, accumulation_dtype(dtype), Device::cuda),
           of_columns = empty({1, 1024}, accumulation_dtype(dtype), Device::cuda);
    const auto rows = counted([&] { VITRINE_RUN(sum, of_rows, reshape(x, {8, 1024, 1})); });
    CHECK(rows.loads == vectors);
    CHECK(rows.stores == 8);
    const auto columns = counted([&] { VITRINE_RUN(sum, of_columns, reshape(x, {1, 8, 1024})); });
    CHECK(columns.loads == 2 * vectors);
    CHECK(columns.stores == 1024 / (8 / size_of(dtype)));
    CHECK(columns.transactions == columns.least_transactions);
    Generator g(1);
    const auto thinned = counted([&] { VITRINE_RUN(dropout, y, x, 0.5, 2.0, g.draw(x.numel())); });
    CHECK(thinned.loads == vectors);
    CHECK(thinned.stores == vectors);
    // x and dy once; the weight for each row, twice in a backward.
    const Tensor weight = ones({1024}, accumulation_dtype(dtype), Device::cuda), bias = ones_like(weight);
    Tensor mean = empty({8}, accumulation_dtype(dtype), Device::cuda), rstd = empty_like(mean);
    const auto normed = counted([&] { VITRINE_RUN(layer_norm, y, mean, rstd, x, weight, bias, 1e-5); });
    CHECK(normed.loads == 3 * vectors);
    CHECK(normed.stores == vectors + 16);
    Tensor dx = empty_like(x), none;
    const auto back =
        counted([&] { VITRINE_RUN(norm_backward, dx, none, none, y, none, x, mean, rstd, weight); });
    CHECK(back.stores == vectors);
    CHECK(back.loads == 4 * vectors + 2 * 8 * 64);  // mean and rstd, by 64 threads a row
  }
}
#endif

#endif
