// Attention's kernels on the device at sizes around those of accumulators and tiles, under every option, against the CPU in float64.
#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/view.h"
#include "tests/cuda/device.h"
#include "tests/ops/attention_inputs.h"
#include "tests/spec/spec.h"

#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/counts.h"
#include "cuda/emulator/limits.h"
#endif

using namespace vitrine;
using test::has_gpu, test::in_any_order;

namespace {

struct Sizes {
  int64_t heads, key_heads, queries, keys, size, channels;
};

using Inputs = test::AttentionInputs;
using test::check_close;

Inputs draw(const Sizes& s, double deviation = 1) {
  Generator g(7);
  const auto normal = [&](const Shape& shape, double by = 1) {
    return randn(shape, DType::float64, Device::cpu, 0, by, g);
  };
  return {normal({2, s.heads, s.queries, s.size}), normal({2, s.key_heads, s.keys, s.size}),
          normal({2, s.key_heads, s.keys, s.channels}, deviation),
          normal({2, s.heads, s.queries, s.channels})};
}

Inputs cast_all(const Inputs& x, DType dtype, Device device = Device::cpu) {
  const auto moved = [&](const Tensor& t) { return to(copy_as(t, dtype), device); };
  return {moved(x.q), moved(x.k), moved(x.v), moved(x.dy)};
}

/// y, dq, dk and dv, where x lies.
std::vector<Tensor> run(const Inputs& x, AttentionOptions o) {
  for (Tensor* t : {&o.bias, &o.slopes, &o.allowed})
    if (t->defined()) *t = to(*t, x.q.device());
  return test::value_and_gradients(attention, x, o);
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].values() != b[i].values()) return false;
  return true;
}

/// In float64 as on the CPU but for rounding, and the same bits in any order of threads.
void check_as_on_cpu(const Inputs& x, const AttentionOptions& o, double tolerance = 1e-11) {
  const auto got = run(cast_all(x, DType::float64, Device::cuda), o);
  check_close(got, run(x, o), tolerance);
  in_any_order([&] { CHECK(same(run(cast_all(x, DType::float64, Device::cuda), o), got)); });
}

/// The same in float32, whose tiles are larger.
void check_float32(const Inputs& x, const AttentionOptions& o) {
  const Inputs rounded = cast_all(x, DType::float32);
  const auto got = run(cast_all(rounded, DType::float32, Device::cuda), o);
  check_close(got, run(cast_all(rounded, DType::float64), o), 4e-6);
  in_any_order([&] { CHECK(same(run(cast_all(rounded, DType::float32, Device::cuda), o), got)); });
}

#if VITRINE_CUDA_EMULATED
/// Before Hopper: other kernels compute 16-bit attention there.
struct OlderGpu {
  OlderGpu() { emulator::set_compute_capability(80); }
  ~OlderGpu() { emulator::set_compute_capability(90); }
};
#endif

/// And in 16 bits, on tensor cores: within two units of their rounding, as weights and their gradients are rounded before a product.
void check_16_bits(const Inputs& x, const AttentionOptions& o) {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    INFO(name(dtype));
    const Inputs rounded = cast_all(x, dtype);
    const auto want = run(cast_all(rounded, DType::float64), o);
    const auto check = [&] {
      const auto got = run(cast_all(rounded, dtype, Device::cuda), o);
      check_close(got, want, 2 * epsilon(dtype));
      in_any_order([&] { CHECK(same(run(cast_all(rounded, dtype, Device::cuda), o), got)); });
    };
    check();
#if VITRINE_CUDA_EMULATED
    if (o.read == AttentionRead::laser || x.q.size(3) % 8 != 0) continue;  // the same kernels everywhere
    const OlderGpu older;
    check();
#endif
  }
}

constexpr AttentionRead kReads[] = {AttentionRead::mean, AttentionRead::laser};

}  // namespace

TEST_CASE("attention at sizes around those of accumulators and tiles") {
  if (!has_gpu()) return;
  for (const AttentionRead read : kReads)
    for (const auto& counts : {std::pair{1, 1},
                               {1, 33},
                               {31, 32},
                               {32, 31},
                               {16, 65},
                               {17, 64},
                               {33, 33},
                               {64, 1},
                               {65, 65},
                               {130, 40}}) {
      const auto queries = counts.first, keys = counts.second;
      INFO(queries, " queries, ", keys, " keys, LASER: ", read == AttentionRead::laser);
      AttentionOptions o;
      o.read = read;
      const Inputs x = draw({2, 1, queries, keys, 3, 5});
      check_float32(x, o);
      o.causal = true;
      check_as_on_cpu(x, o);
    }
}

TEST_CASE("attention in float16 and bfloat16 at sizes around those of its larger tiles") {
  if (!has_gpu()) return;
  for (const AttentionRead read : kReads)
    for (const auto& counts :
         {std::pair{1, 1}, {31, 33}, {33, 31}, {129, 64}, {64, 129}, {130, 40}, {160, 160}})
      for (const int64_t size : {5, 16}) {
        INFO(counts.first, " queries, ", counts.second, " keys, LASER: ", read == AttentionRead::laser);
        AttentionOptions o;
        o.read = read, o.causal = size == 16;  // rows of 5 elements do not begin at multiples of 16 bytes
        check_16_bits(draw({2, 1, counts.first, counts.second, size, size}), o);
      }
}

TEST_CASE("attention with heads of every size, odd ones too") {
  if (!has_gpu()) return;
  for (const AttentionRead read : kReads)
    for (const auto& widths :
         {std::pair{1, 2}, {3, 33}, {80, 32}, {31, 80}, {128, 128}, {129, 64}, {256, 256}}) {
      const auto size = widths.first, channels = widths.second;
      INFO(size, " and ", channels, " channels, LASER: ", read == AttentionRead::laser);
      AttentionOptions o;
      o.read = read, o.causal = true;
      const Inputs x = draw({1, 1, 18, 35, size, channels});
      if (size > 31) check_float32(x, o);
      if (size <= 31 || size == 256) check_as_on_cpu(x, o);
      check_16_bits(x, o);
    }
}

TEST_CASE("attention with windows, masks, bias, softcap, ALiBi and grouped queries") {
  if (!has_gpu()) return;
  Generator g(3);
  const Sizes sizes{4, 2, 70, 75, 4, 6};
  const Inputs x = draw(sizes);
  std::vector<AttentionOptions> all(7);
  all[0].left = 6,
  all[0].right = 28;  // queries 0 to 64 see a key of the first tile, 31 and later one of the second
  all[1].left = 40, all[1].causal = true, all[1].right = 5;
  all[2].allowed = greater(rand({2, 4, 70, 75}, DType::float64, Device::cpu, 0, 1, g), Tensor(0.7));
  all[3].allowed = less(arange(0, 75), full({}, 41, DType::int64));  // padding
  all[4].bias = randn({4, 70, 1}, DType::float64, Device::cpu, 0, 1, g);
  all[4].softcap = 1.5;
  all[5].slopes = tensor({0.5, 0.25, 0, 1}, DType::float64);
  all[5].causal = true, all[5].scale = 0.3;
  all[6].bias = randn({2, 1, 70, 75}, DType::float64, Device::cpu, 0, 1, g);
  all[6].left = 0, all[6].right = 0;
  for (const AttentionRead read : kReads)
    for (size_t i = 0; i < all.size(); ++i) {
      INFO("option ", i, ", LASER: ", read == AttentionRead::laser);
      all[i].read = read;
      check_as_on_cpu(x, all[i]);
      if (i == 0 || i == 2) check_float32(x, all[i]);
      // In the last option a query sees one key: dq is 0, and what the rounding of LASER's F leaves of it is no share of that.
      if (read == AttentionRead::mean || i != 6) check_16_bits(x, all[i]);
    }
}

TEST_CASE(
    "16-bit attention over several of its largest tiles: every way to hide keys, grouped and odd heads") {
  if (!has_gpu()) return;
  Generator g(4);
  const int64_t queries = 150, keys = 290;
  std::vector<AttentionOptions> all(6);
  all[0].causal = true;
  all[1].left = 20, all[1].right = 130;
  all[2].left = 60, all[2].causal = true, all[2].scale = 0.4;
  all[3].allowed = less(arange(0, keys), full({}, 135, DType::int64));  // padding: the last block is hidden
  all[4].allowed = greater(rand({2, 1, queries, keys}, DType::float64, Device::cpu, 0, 1, g), Tensor(0.8));
  all[5].causal = true;  // the first queries stand before the first key
  for (size_t i = 0; i < all.size(); ++i) {
    INFO("option ", i);
    const Sizes sizes = i == 5 ? Sizes{1, 1, keys, queries, 8, 8}
                               : Sizes{2, 1, queries, keys, i == 1 ? 72 : 16, i == 2 ? 128 : 24};
    const Inputs x = cast_all(draw(sizes), DType::bfloat16);
    const auto attend = [&] { return run(cast_all(x, DType::bfloat16, Device::cuda), all[i]); };
    const auto got = attend();
    check_close(got, run(cast_all(x, DType::float64), all[i]), 2 * epsilon(DType::bfloat16));
    in_any_order([&] { CHECK(same(attend(), got)); });
  }
}

TEST_CASE("a float16 forward over several of its largest tiles") {
  if (!has_gpu()) return;
  AttentionOptions o;
  o.causal = true, o.left = 140;
  for (const int64_t size : {8, 128}) {
    const Inputs x = cast_all(draw({2, 1, 290, 290, size, size}), DType::float16);
    const Inputs exact = cast_all(x, DType::float64), here = cast_all(x, DType::float16, Device::cuda);
    const auto attend = [&](const Inputs& of) { return attention(of.q, of.k, of.v, o); };
    const Tensor got = attend(here);
    check_close({got}, {attend(exact)}, 2 * epsilon(DType::float16));
    in_any_order([&] { CHECK(attend(here).values() == got.values()); });
  }
}

TEST_CASE("queries that see nothing give 0 and have gradient 0 on the device") {
  if (!has_gpu()) return;
  for (const AttentionRead read : kReads) {
    AttentionOptions o;
    o.read = read, o.causal = true;  // the first 30 queries stand before the first key
    Tensor allowed = ones({40}, DType::boolean);
    for (int64_t j = 0; j < 35; ++j) allowed.data<bool>()[j] = false;  // and the next 35 see what is masked
    o.allowed = allowed;
    const Inputs x = cast_all(draw({2, 2, 70, 40, 3, 3}), DType::float32, Device::cuda);
    const auto result = run(x, o);
    for (const Tensor& t : {result[0], result[1]})
      for (const double e : slice(t, 2, 0, 65).values()) CHECK(e == 0);
    for (const Tensor& t : {result[2], result[3]})
      for (const double e : slice(t, 2, 0, 35).values()) CHECK(e == 0);
    for (const Tensor& t : result)
      for (const double e : t.values()) CHECK(std::isfinite(e));
  }
}

TEST_CASE("nothing to attend to, and nobody who attends") {
  if (!has_gpu()) return;
  for (const AttentionRead read : kReads)
    for (const auto& [queries, keys] : {std::pair{3, 0}, {0, 3}}) {
      AttentionOptions o;
      o.read = read;
      const auto result = run(cast_all(draw({2, 1, queries, keys, 3, 2}), DType::float32, Device::cuda), o);
      for (const Tensor& t : result)
        for (const double e : t.values()) CHECK(e == 0);
    }
}

TEST_CASE("what is hidden has no influence on the device: no bit of a mean, and of LASER's in other tiles") {
  if (!has_gpu()) return;
  for (const AttentionRead read : kReads) {
    AttentionOptions o;
    o.read = read, o.causal = true;
    Inputs x = cast_all(draw({1, 1, 130, 130, 8, 8}), DType::float32);
    const auto attend = [&] {
      const Inputs moved = cast_all(x, DType::float32, Device::cuda);
      return attention(moved.q, moved.k, moved.v, o);
    };
    const Tensor before = attend();
    const float huge = read == AttentionRead::mean ? 1e30f : 1000;
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t d = 0; d < 8; ++d) {
        x.v.data<float>()[(b * 130 + 129) * 8 + d] = huge;
        x.k.data<float>()[(b * 130 + 129) * 8 + d] = -50;
      }
    const Tensor after = attend();
    const int64_t tile = 64, same = read == AttentionRead::mean ? 129 : 2 * tile;
    CHECK(slice(before, 2, 0, same).values() == slice(after, 2, 0, same).values());
    CHECK(spec::distance(slice(after, 2, 0, 129).values(), slice(before, 2, 0, 129).values(), 0.1) <= 2e-6);
    o.causal = false;
    o.allowed = less(arange(0, 130, 1, DType::int64, Device::cuda),
                     full({}, 129, DType::int64, Device::cuda));  // the last key is padding
    const Tensor hidden = attend();
    for (int64_t e = 0; e < 8; ++e) x.v.data<float>()[129 * 8 + e] = -500;
    CHECK(hidden.values() == attend().values());
  }
}

TEST_CASE("LASER on the device: anchors that move, values of every size, elements that are read exactly") {
  if (!has_gpu()) return;
  AttentionOptions o;
  o.read = AttentionRead::laser;
  for (const double deviation : {0.01, 1.0, 10.0, 100.0}) {
    INFO("deviation ", deviation);
    o.causal = deviation != 10;
    Inputs x = draw({1, 1, 34, 70, 4, 34}, deviation);
    // float64 rounds at the size of the values, which the exponents see.
    check_as_on_cpu(x, o, deviation < 10 ? 1e-11 : 1e-10);
    if (deviation < 100) check_float32(x, o);
    if (deviation == 1) {
      for (int64_t d = 0; d < 34; d += 3)
        x.v.data<double>()[60 * 34 + d] = 1000;  // a late outlier: δ goes from 1 to 0
      check_as_on_cpu(x, o);
    }
  }
}

TEST_CASE("LASER in float16 and bfloat16: the bounds of its weights, whatever the range of values") {
  if (!has_gpu()) return;
  AttentionOptions o;
  o.read = AttentionRead::laser, o.causal = true;
  for (const DType dtype : {DType::float16, DType::bfloat16})
    for (const double deviation : {0.01, 1.0, 8.0, 100.0}) {
      INFO(name(dtype), ", deviation ", deviation);
      const Inputs x = cast_all(draw({2, 2, 40, 40, 8, 8}, deviation), dtype);
      const auto got = run(cast_all(x, dtype, Device::cuda), o), want = run(cast_all(x, DType::float64), o);
      check_close(got, want, epsilon(dtype));
    }
}

TEST_CASE("attention by its definition on the device, as where the bias has a gradient") {
  if (!has_gpu()) return;
  const Inputs x = draw({2, 1, 5, 7, 3, 4});
  Generator g(5);
  const Tensor bias = randn({2, 5, 7}, DType::float64, Device::cpu, 0, 1, g);
  for (const AttentionRead read : kReads) {
    const auto results = [&](Device device) {
      const Inputs here = cast_all(x, DType::float64, device);
      AttentionOptions o;
      o.read = read, o.causal = true, o.left = 3, o.right = 1, o.softcap = 2;
      o.bias = to(bias, device), o.slopes = to(tensor({0.5, 0.25}, DType::float64), device);
      o.allowed = not_equal(arange(0, 7, 1, DType::int64, device), full({}, 3, DType::int64, device));
      Tape tape;
      for (const Tensor& t : {here.q, here.k, here.v, o.bias}) tape.watch(t);
      const Tensor y = attention(here.q, here.k, here.v, o);
      std::vector<Tensor> all = tape.gradient({y}, {here.q, here.k, here.v, o.bias}, {here.dy});
      all.insert(all.begin(), y);
      return all;
    };
    check_close(results(Device::cuda), results(Device::cpu), 1e-12);
  }
}

TEST_CASE(
    "on the device a query with NaN gives NaN, and the result lies as the projection that follows reads it") {
  if (!has_gpu()) return;
  for (const AttentionRead read : kReads) {
    Inputs x = draw({2, 1, 5, 40, 4, 4});
    x.q.data<double>()[0] = NAN;
    AttentionOptions o;
    o.read = read;
    const Inputs here = cast_all(x, DType::float32, Device::cuda);
    const Tensor y = attention(here.q, here.k, here.v, o);
    CHECK(std::isnan(y.values()[0]));
    CHECK(std::isfinite(y.values()[4]));
    CHECK(permute(y, {0, 2, 1, 3}).is_contiguous());
  }
}

#if VITRINE_CUDA_EMULATED
TEST_CASE("attention fits into the shared memory of smaller GPUs, or says how much it needs") {
  struct Small {
    Small() { emulator::set_shared_memory_size(size_t{99} << 10); }
    ~Small() { emulator::set_shared_memory_size(size_t{227} << 10); }
  } const small;
  for (const AttentionRead read : kReads) {
    AttentionOptions o;
    o.read = read, o.causal = true;
    for (const int64_t size : {64, 128, 192}) {
      INFO(size, " channels, LASER: ", read == AttentionRead::laser);
      const Inputs x = draw({1, 1, 70, 40, size, size});
      if (size <= 128) check_float32(x, o);
      check_16_bits(x, o);
    }
    const Inputs wide = cast_all(draw({1, 1, 18, 35, 256, 256}), DType::float64, Device::cuda);
    CHECK_THROWS_WITH(attention(wide.q, wide.k, wide.v, o),
                      doctest::Contains("attention: heads of 256 and 256 channels in float64 need"));
  }
}

// As in docs/cuda.md, where kernels are traced.
TEST_CASE("16-bit attention multiplies on tensor cores alone, without bank conflicts") {
  const OlderGpu older;
  const int64_t n = 128, size = 64, product = n * n * size / (16 * 8 * 16);  // instructions of one product
  const auto count = [&](DType dtype) {
    const Inputs x = cast_all(draw({1, 1, n, n, size, size}), dtype, Device::cuda);
    emulator::count_kernels(true);
    run(x, {});
    auto counts = emulator::kernel_counts();
    emulator::count_kernels(false);
    return counts;
  };
  const auto found = [](const std::map<std::string, emulator::Counts>& all, const std::string& kernel) {
    for (const auto& [name, counts] : all)
      if (name.starts_with(kernel)) return counts;
    fail("no kernel {}", kernel);
  };
  const auto low = count(DType::bfloat16), wide = count(DType::float32);
  const std::pair<const char*, int64_t> products[] = {
      {"attention_kernel", 2}, {"query_gradients_kernel", 3}, {"key_gradients_kernel", 4}};
  for (const auto& expected : products) {
    INFO(expected.first);
    const emulator::Counts counts = found(low, expected.first);
    if (!counts.traced) return;
    CHECK(static_cast<int64_t>(counts.matrix_products) == 2 * expected.second * product);  // of two batches
    CHECK(counts.bank_conflicts == 0);
    CHECK(found(wide, expected.first).matrix_products == 0);
  }
}
#endif
