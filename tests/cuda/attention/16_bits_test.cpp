// Attention in bfloat16 and float16, on tensor cores: Hopper's kernels and those of older GPUs,
// against the CPU in float64.
#include <doctest/doctest.h>

#include "core/tensor_kernels.h"
#include "tests/cuda/attention/check.h"

#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/counts.h"
#endif

using namespace vitrine;
using namespace vitrine::test;
using Inputs = AttentionInputs;
using Sizes = AttentionSizes;

TEST_CASE("attention in float16 and bfloat16 at sizes around those of its larger tiles") {
  if (!has_gpu()) return;
  for (const AttentionRead read : kReads) {
    size_t turn = read == AttentionRead::laser;
    for (const auto& counts :
         {std::pair{1, 1}, {31, 33}, {33, 31}, {129, 64}, {64, 129}, {130, 40}, {160, 160}}) {
      ++turn;
      for (const int64_t size : {5, 16}) {
        if (!all_samples() && (turn % 2 == 0) == (size == 16)) continue;
        INFO(counts.first, " queries, ", counts.second, " keys, LASER: ", read == AttentionRead::laser);
        AttentionOptions o;
        // Rows of 5 elements do not begin at multiples of 16 bytes
        o.read = read, o.causal = size == 16;
        check_16_bits(draw({2, 1, counts.first, counts.second, size, size}), o);
      }
    }
  }
}

TEST_CASE("16-bit attention with heads of every size, odd ones too") {
  if (!has_gpu()) return;
  for (const AttentionRead read : kReads)
    for (const auto& widths : kWidths) {
      INFO(widths.first, " and ", widths.second, " channels, LASER: ", read == AttentionRead::laser);
      AttentionOptions o;
      o.read = read, o.causal = true;
      check_16_bits(draw({1, 1, 18, 35, widths.first, widths.second}), o);
    }
}

TEST_CASE("16-bit attention with windows, masks, bias, softcap, ALiBi and grouped queries") {
  if (!has_gpu()) return;
  for_varied_options([](const Inputs& x, const AttentionOptions& o, size_t i) {
    // In the last option a query sees one key: dq is 0, and what the rounding of LASER's F leaves
    // of it is no share of that.
    if (o.read == AttentionRead::mean || i != 6) check_16_bits(x, o);
  });
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
  // Padding: the last block is hidden
  all[3].allowed = less(arange(0, keys), full({}, 135, DType::int64));
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

TEST_CASE("keys far apart count the same where the largest score does not move, however large it is") {
  if (!has_gpu()) return;
  const int64_t n = 4096, size = 8;
  Tensor q = empty({1, 1, 64, size}), v = zeros({1, 1, n, size});
  for (int64_t i = 0; i < q.numel(); ++i) q.data<float>()[i] = static_cast<float>(50 + i / size % 16);
  const Tensor k = full({1, 1, n, size}, 60);
  Tensor half = slice(v, 2, n / 2, n);
  VITRINE_RUN(fill, half, 1);
  AttentionOptions o;
  // Scores of 24000 and more, in which a unit of rounding would be 2⁻⁹ at each block of keys
  o.scale = 1;
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    INFO(name(dtype));
    const auto moved = [&](const Tensor& x) { return to(copy_as(x, dtype), Device::cuda); };
    check_close({attention(moved(q), moved(k), moved(v), o)}, {full(q.shape(), 0.5)}, epsilon(dtype) / 2);
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
      check_close(got, want, epsilon(DType::bfloat16));
    }
}

#if VITRINE_CUDA_EMULATED
namespace {

/// What the emulator counts of a forward and a backward, for n queries and keys of two batches.
std::map<std::string, emulator::Counts> count(int64_t n, int64_t size, DType dtype,
                                              AttentionRead read = AttentionRead::mean) {
  const Inputs x = cast_all(draw({1, 1, n, n, size, size}), dtype, Device::cuda);
  AttentionOptions o;
  o.read = read;
  emulator::count_kernels(true);
  run(x, o);
  auto counts = emulator::kernel_counts();
  emulator::count_kernels(false);
  return counts;
}

/// Of all kernels whose name has this part.
emulator::Counts found(const std::map<std::string, emulator::Counts>& all, const std::string& part) {
  emulator::Counts sum;
  for (const auto& [name, counts] : all)
    if (name.find(part) != std::string::npos) sum += counts, sum.traced = sum.traced && counts.traced;
  check(sum.launches > 0, "no kernel {}", part);
  return sum;
}

}  // namespace

// As in docs/cuda.md, where kernels are traced.
TEST_CASE("16-bit attention multiplies on tensor cores alone, without bank conflicts") {
  const OlderGpu older;
  // Instructions of one product
  const int64_t n = 128, size = 64, product = n * n * size / (16 * 8 * 16);
  const auto low = count(n, size, DType::bfloat16), wide = count(n, size, DType::float32),
             laser = count(n, size, DType::float16, AttentionRead::laser);
  const std::pair<const char*, int64_t> products[] = {
      {"attention_kernel", 2}, {"query_gradients_kernel", 3}, {"key_gradients_kernel", 4}};
  for (const auto& expected : products) {
    INFO(expected.first);
    const emulator::Counts counts = found(low, expected.first);
    if (!counts.traced) return;
    // The example has two batches
    CHECK(static_cast<int64_t>(counts.matrix_products) == 2 * expected.second * product);
    CHECK(found(laser, expected.first).matrix_products == counts.matrix_products);
    CHECK(counts.bank_conflicts == 0);
    CHECK(found(wide, expected.first).matrix_products == 0);
  }
}

TEST_CASE("Hopper's attention makes as many products as the table in docs/cuda.md says") {
  for (const int64_t size : {64, 128}) {
    INFO("heads of ", size);
    const auto all = count(256, size, DType::bfloat16);
    const emulator::Counts forward = found(all, "attention_hopper"),
                           backward = found(all, "hopper_gradients");
    if (!forward.traced) return;
    // Of two batches: two tiles of queries meet two blocks of keys. Gradients: two tiles of queries
    // meet four blocks of keys, and two tiles of keys four of queries.
    const uint64_t share = size == 128 ? 1 : 2;
    CHECK(forward.matrix_products == 2 * (2 * 2 * 2048) / share);
    CHECK(backward.matrix_products == 2 * (2 * 4 * 1536 + 2 * 4 * 2048) / share);
    CHECK(forward.bank_conflicts == 0);
  }
}
#endif
