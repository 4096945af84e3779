// CUDA kernels at sizes around those of warps, blocks and pieces. Inputs are whole numbers wherever
// sums are compared, so that every order of addition gives the same bits, and results must be equal
// to the CPU's.
#include <doctest/doctest.h>

#if VITRINE_CUDA_KERNELS

#include <cmath>
#include <cstring>

#include "core/tensor_kernels.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/kernels.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/sort.h"
#include "tests/cuda/same_bits.h"

#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/limits.h"
#endif

using namespace vitrine;
using namespace vitrine::test;

TEST_CASE("reductions of rows and columns of every size and dtype") {
  if (!has_gpu()) return;
  for (const Shape& shape : {Shape{1, 1, 1},
                             {3, 31, 1},
                             {2, 129, 1},
                             {1, 1025, 1},
                             {2, 16384, 1},
                             {1, 40001, 1},
                             {2, 1, 3},
                             {3, 33, 5},
                             {1, 127, 33},
                             {2, 129, 32},
                             {1, 300, 70},
                             {2, 129, 136},
                             {1, 20000, 2}})
    for (const DType dtype : kAll) {
      if (numel(shape) > 10000 && dtype != DType::float32) continue;
      INFO(shape, " ", name(dtype));
      const Tensor x = whole(shape, dtype);
      check_same(x, [](const Tensor& t) { return sum(cast(t, accumulation_dtype(t.dtype())), {1}); });
      check_same(x, [](const Tensor& t) { return max(t, {1}); });
      check_same(x, [](const Tensor& t) { return min(t, {1}); });
      check_same(x, [](const Tensor& t) { return argmax(t, 1); });
      check_same(x, [](const Tensor& t) { return argmin(t, 1); });
      check_same(equal(x, full({}, 3, dtype)), [](const Tensor& t) { return any(t, {1}); });
      check_same(not_equal(x, full({}, 3, dtype)), [](const Tensor& t) { return all(t, {1}); });
    }
  check_same(whole({3, 5, 2, 7}, DType::float32), [](const Tensor& t) { return sum(t, {0, 2}); });
  check_same(whole({5, 130, 3}, DType::float32), [](const Tensor& t) { return max(transpose(t), {0, 1}); });
  for (const int64_t begin : {0, 1, 2, 4})  // 8 and 16 bytes at a time, where they lie so
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      INFO(name(dtype), " from ", begin, " on");
      const auto cut = [&](const Tensor& t, const Shape& shape) {
        return reshape(slice(reshape(t, {620}), 0, begin, begin + 600), shape);
      };
      check_same(whole({620}, dtype), [&](const Tensor& t) { return sum(cut(t, {3, 25, 8}), {1}); });
      check_same(whole({620}, dtype), [&](const Tensor& t) { return sum(cut(t, {3, 200}), {1}); });
      check_same(whole({620}, dtype), [&](const Tensor& t) { return sum(cut(t, {8, 75}), {1}); });
    }
  check_same(zeros({3, 0, 2}), [](const Tensor& t) { return sum(t, {1}); });
  check_same(zeros({3, 0}, DType::boolean), [](const Tensor& t) { return all(t, {1}); });
}

TEST_CASE("NaN and infinities in reductions: the first NaN counts as largest and smallest") {
  if (!has_gpu()) return;
  for (const int64_t inner : {1, 3}) {
    Tensor x = whole({4, 300, inner}, DType::float32);
    float* const data = x.data<float>();
    for (const int64_t i : {70, 71, 299}) data[i * inner] = NAN;
    data[(300 + 5) * inner] = INFINITY;
    for (int64_t i = 0; i < 300 * inner; ++i) data[600 * inner + i] = -INFINITY;
    check_same(x, [](const Tensor& t) { return max(t, {1}); });
    check_same(x, [](const Tensor& t) { return min(t, {1}); });
    check_same(x, [](const Tensor& t) { return argmax(t, 1); });
    check_same(x, [](const Tensor& t) { return argmin(t, 1); });
    const auto is_all_finite = [](const Tensor& t) {
      Tensor finite = empty({1}, DType::boolean, t.device());
      VITRINE_RUN(all_finite, finite, t);
      return finite;
    };
    check_same(x, is_all_finite);
    check_same(transpose(slice(x, 0, 3, 4)), is_all_finite);
  }
}

TEST_CASE("running sums: every size, direction and dtype") {
  if (!has_gpu()) return;
  for (const Shape& shape :
       {Shape{2, 1}, {3, 31}, {2, 33}, {1, 129}, {2, 1025}, {1, 3000}, {3, 130, 5}, {300, 2, 3}})
    for (const DType dtype : kAll) {
      INFO(shape, " ", name(dtype));
      for (const bool exclusive : {false, true})
        for (const bool reverse : {false, true})
          check_same(whole(shape, dtype), [&](const Tensor& t) { return cumsum(t, 1, exclusive, reverse); });
    }
  const Tensor x = tensor({1, INFINITY, 2, 3}, {1, 4});
  check_same(x, [](const Tensor& t) { return cumsum(t, 1, true); });
}

TEST_CASE("softmax's logarithms and cross-entropy over rows of every length") {
  if (!has_gpu()) return;
  for (const int64_t n : {1, 2, 31, 33, 129, 1025, 5000}) {
    INFO("rows of ", n);
    const Tensor x = normal({3, n}, 2);
    check_near([](const std::vector<Tensor>& t) { return log_softmax(t[0]); }, {x});
    check_near([](const std::vector<Tensor>& t) { return log_sum_exp(t[0]); }, {x});
    for (const double smoothing : {0.0, 0.1})
      check_near(
          [&](const std::vector<Tensor>& t) {
            CrossEntropyOptions options;
            options.reduction = Reduction::none;
            options.label_smoothing = smoothing;
            const int64_t targets[] = {n - 1, -100, n / 2};
            return cross_entropy(t[0], index_tensor(targets, {3}, t[0].device()), options);
          },
          {x});
  }
  const double inf = INFINITY;
  const Tensor odd = tensor({-inf, -inf, -inf, 1, -inf, 1, inf, 2, 3, 1, NAN, 2}, {4, 3});
  check_same(odd, [](const Tensor& t) { return log_softmax(t); });
  check_same(odd, [](const Tensor& t) { return softmax(t); });
  check_same(tensor({-inf, -inf, 0, -inf, inf, 0, 1, NAN}, {4, 2}),
             [](const Tensor& t) { return log_sum_exp(t); });
  // Backward, a row of only −∞ gives 0.
  check_same(tensor({-inf, -inf, 0, -inf}, {2, 2}), [](const Tensor& t) {
    Tensor dx = empty_like(t), dy = ones_like(t);
    VITRINE_RUN(log_softmax_backward, dx, dy, t);
    return dx;
  });
}

TEST_CASE("long rows, which a block holds in shared memory: all of them, some or none") {
  if (!has_gpu()) return;
  const auto check_rows = [](int64_t n) {
    INFO("rows of ", n);
    const Tensor x = normal({3, n}, 2), weight = normal({n}, 3), bias = normal({n}, 4);
    check_near([](const std::vector<Tensor>& t) { return softmax(t[0]); }, {x});
    check_near([](const std::vector<Tensor>& t) { return log_softmax(t[0]); }, {x});
    check_near(
        [&](const std::vector<Tensor>& t) {
          const int64_t targets[] = {n - 1, -100, n / 2};
          return cross_entropy(t[0], index_tensor(targets, {3}, t[0].device()), {.label_smoothing = 0.1});
        },
        {x});
    check_near([](const std::vector<Tensor>& t) { return layer_norm(t[0], t[1], t[2]); }, {x, weight, bias});
    check_near([](const std::vector<Tensor>& t) { return add_layer_norm(t[0], t[0], t[1], t[2]).y(); },
               {x, weight, bias});
  };
  // From 32 KiB on, of one row in a forward and of two in a backward.
  for (const int64_t n : {2046, 2047, 4092, 4093}) check_rows(n);
#if VITRINE_CUDA_EMULATED
  const struct Small {
    Small() { emulator::set_shared_memory_size(size_t{64} << 10); }
    ~Small() { emulator::set_shared_memory_size(size_t{227} << 10); }
  } small;
  // Of the 63 KiB that there are now, two rows, one row, or one too long.
  for (const int64_t n : {4032, 4033, 8064, 8065}) check_rows(n);
#endif
}

TEST_CASE("gathering and adding by index: in the order of the index, bit for bit") {
  if (!has_gpu()) return;
  // Sums of normals in float32 differ in other orders.
  for (const int64_t count : {1, 2, 33, 1000, 1024, 1025, 5000}) {
    INFO(count, " indices");
    Generator g(7);
    const Tensor ids = randint(0, 7, {count}, Device::cpu, g);
    for (const int64_t width : {1, 33, 200, 2056}) {
      if (count * width > 100000) continue;
      const Tensor x = normal({count, width}, 2, DType::float32);
      const auto add_rows = [&](DType dtype) {
        return [&, dtype](const Tensor& t) {
          Tensor sums = full({7, width}, 0.5, dtype, t.device());
          VITRINE_RUN(accumulate_rows, sums, t, to(ids, t.device()));
          return sums;
        };
      };
      check_same(x, add_rows(DType::float32));
      check_same(copy_as(x, DType::bfloat16), add_rows(DType::float32));
      for (const DType dtype : {DType::int64, DType::int32})
        check_same(normal({7, width}, 2, DType::float32),
                   [&](const Tensor& t) { return index_select(t, 0, to(copy_as(ids, dtype), t.device())); });
    }
    const Tensor many = randint(0, 5, {3, count, 2}, Device::cpu, g),
                 source = normal({3, count, 2}, 2, DType::float32);
    check_same(source, [&](const Tensor& t) {
      return scatter_add(full({4, 5, 2}, 0.5, DType::float32, t.device()), 1, to(many, t.device()), t);
    });
    check_same(transpose(source), [&](const Tensor& t) {
      return scatter_add(full({4, 2, 5}, 0.5, DType::float32, t.device()), 2, transpose(to(many, t.device())),
                         t);
    });
    const Tensor narrow = copy_as(many, DType::int32);
    check_same(whole({4, 5, 3}, DType::float32),
               [&](const Tensor& t) { return gather(t, 1, to(narrow, t.device())); });
    check_same(whole({4, 5, 3}, DType::int32),
               [&](const Tensor& t) { return gather(transpose(t), 2, transpose(to(many, t.device()))); });
  }
}

TEST_CASE("indices of 32 bits do what those of 64 do") {
  if (!has_gpu()) return;
  Generator g(7);
  const Tensor ids = randint(0, 7, {40}, Device::cpu, g), table = normal({7, 9}, 2, DType::float32),
               source = normal({40, 9}, 2, DType::float32);
  for (const DType dtype : {DType::int64, DType::int32}) {
    INFO(name(dtype));
    const auto on = [&](const Tensor& t) { return to(copy_as(ids, dtype), t.device()); };
    check_same(table, [&](const Tensor& t) { return embedding(t, on(t)); });
    check_same(table, [&](const Tensor& t) {
      Tape tape;
      const Tensor x = tape.watch(t);
      return tape.gradient({embedding(x, on(t))}, {x}, {to(source, t.device())})[0];
    });
    check_same(source, [&](const Tensor& t) {
      const Tensor index = expand(unsqueeze(on(t), 1), {40, 9});
      return scatter_add(zeros({7, 9}, DType::float32, t.device()), 0, index, t);
    });
    check_same(source, [&](const Tensor& t) { return one_hot(on(t), 7); });
    check_near([&](const std::vector<Tensor>& t) { return cross_entropy(t[0], on(t[0])); },
               {normal({40, 7}, 2)});
  }
}

TEST_CASE("sorting: stable, NaN last, every length and dtype, the first k") {
  if (!has_gpu()) return;
  for (const int64_t n : {1, 2, 63, 64, 65, 300, 1023, 1024, 1025, 2500, 5000})
    for (const DType dtype : kAll) {
      if (n > 1100 && dtype != DType::float32) continue;
      INFO(n, " ", name(dtype));
      Tensor x = whole({2, n}, dtype);
      if (dtype == DType::float32 && n > 60)
        for (const int64_t i : {n / 3, n / 2, n - 1}) x.data<float>()[i] = NAN;
      for (const bool descending : {false, true})
        check_same(x, [&](const Tensor& t) { return sort(t, 1, descending).indices; });
      for (const int64_t k : {int64_t{1}, (n + 1) / 2, std::min<int64_t>(n, 40)})
        check_same(x, [&](const Tensor& t) { return topk(t, k).indices; });
    }
  check_same(whole({5, 3, 4}, DType::float32), [](const Tensor& t) { return sort(t, 0).values; });
  check_same(whole({5, 3, 4}, DType::float32), [](const Tensor& t) { return topk(t, 0, 0).indices; });
}

TEST_CASE("numbers that go up by a step are the CPU's in every dtype") {
  if (!has_gpu()) return;
  for (const DType dtype : kAll)
    for (const int64_t n : {0, 1, 2, 255, 256, 257, 70'000})
      for (const auto& range : {std::pair{-3.0, 1.0}, {5.0, -2.0}, {0.1, 0.3}}) {
        const double start = range.first, step = range.second;
        if (dtype != DType::float32 && dtype != DType::float64 && (step == 0.3 || n > 257)) continue;
        INFO(name(dtype), " ", n, " from ", start, " by ", step);
        Tensor on_cpu = empty({n}, dtype), on_gpu = empty({n}, dtype, Device::cuda);
        VITRINE_RUN(arange, on_cpu, start, step);
        VITRINE_RUN(arange, on_gpu, start, step);
        CHECK(same(on_gpu, on_cpu));
        if (n > 2 && dtype != DType::uint8)
          CHECK(on_cpu.values()[2] == full({}, start + 2 * step, dtype).item());
      }
}

TEST_CASE("comparisons, logic, choices, and arithmetic of integers") {
  if (!has_gpu()) return;
  for (const DType dtype : kAll) {
    INFO(name(dtype));
    const Tensor x = whole({3, 1, 40}, dtype), y = whole({7, 1}, dtype, 2);
    using F = Tensor (*)(const Tensor&, const Tensor&);
    const auto with = [&](F f) { check_same(x, [&](const Tensor& t) { return f(t, to(y, t.device())); }); };
    for (auto f : {equal, not_equal, less, less_equal, greater, greater_equal}) with(f);
    with([](const Tensor& a, const Tensor& b) { return where(greater(a, b), a, b); });
    if (dtype == DType::boolean)
      for (auto f : {logical_and, logical_or, logical_xor}) with(f);
    if (is_integer(dtype))
      for (F f : {F(add), F(sub), F(mul), F(maximum), F(minimum)}) with(f);
    if (is_integer(dtype)) with([](const Tensor& a, const Tensor& b) { return div(a, b * b + 1); });
    if (is_integer(dtype)) with([](const Tensor& a, const Tensor& b) { return pow(a, b * b); });
    if (is_integer(dtype))
      for (auto f : {neg, abs, sign, square}) check_same(x, f);
    if (is_integer(dtype)) check_same(x, [](const Tensor& t) { return matmul(t, transpose(t)); });
  }
  const Tensor odd = tensor({NAN, 1, -INFINITY, 0}, {4});
  check_same(odd, is_nan);
  check_same(odd, is_finite);
  check_same(odd, [](const Tensor& t) { return less(t, flip(t, {0})); });
}

#endif
