// LASER in bfloat16 on Hopper: the cases that its kernels compute with anchors, and the cases that
// they leave to other kernels.
#include <doctest/doctest.h>

#include <cmath>

#include "ops/join.h"
#include "tests/cuda/attention/check.h"

#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/counts.h"
#endif

using namespace vitrine;
using namespace vitrine::test;
using Inputs = AttentionInputs;

namespace {

constexpr int64_t kBlock = 128, kKeys = 300,
                  kChannels = 8;  // kBlock: keys that have one anchor, and queries of a tile

Inputs draw_heads(double deviation = 1) { return draw({2, 1, kKeys, kKeys, 16, kChannels}, deviation); }

AttentionOptions causal_laser() {
  AttentionOptions o;
  o.read = AttentionRead::laser, o.causal = true;
  return o;
}

/// v of batch b and key j becomes f(v).
template <class F>
void change_values(Inputs& x, int64_t b, int64_t j, F&& f) {
  double* const v = x.v.data<double>() + (b * kKeys + j) * kChannels;
  for (int64_t d = 0; d < kChannels; ++d) v[d] = f(v[d]);
}

std::vector<Tensor> in_bfloat16(const Inputs& x, const AttentionOptions& o) {
  return run(cast_all(x, DType::bfloat16, Device::cuda), o);
}

/// Those of all batches and keys.
template <class F>
void change_values(Inputs& x, F&& f) {
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t j = 0; j < kKeys; ++j) change_values(x, b, j, [&](double v) { return f(v, j); });
}

/// The products that the kernels of mma make, in the forward and in the backward; none where
/// accesses are not traced.
struct Products {
  std::optional<int64_t> forward, backward;
};

Products check_bfloat16(const Inputs& x, const AttentionOptions& o) {
  const Inputs rounded = cast_all(x, DType::bfloat16);
  Products products;
#if VITRINE_CUDA_EMULATED
  emulator::count_kernels(true);
#endif
  const auto got = in_bfloat16(rounded, o);
#if VITRINE_CUDA_EMULATED
  for (const auto& [name, counts] : emulator::kernel_counts()) {
    if (!counts.traced || name.find("hopper") != std::string::npos) continue;
    auto& sum = name.starts_with("attention_kernel") ? products.forward : products.backward;
    sum = sum.value_or(0) + static_cast<int64_t>(counts.matrix_products);
  }
  emulator::count_kernels(false);
#endif
  check_close(got, run(cast_all(rounded, DType::float64), o), 2 * epsilon(DType::bfloat16));
  in_any_order([&] { CHECK(same(in_bfloat16(rounded, o), got)); });
  return products;
}

/// Checks which of them made any.
void check_products(const Products& found, bool forward, bool backward) {
  if (found.forward) CHECK((*found.forward > 0) == forward);
  if (found.backward) CHECK((*found.backward > 0) == backward);
}

}  // namespace

TEST_CASE("LASER on Hopper: values of every size, anchors that stay and anchors that move") {
  if (!has_gpu()) return;
  for (const double deviation : {0.01, 0.3, 5.0}) {
    INFO("deviation ", deviation);
    check_bfloat16(draw_heads(deviation), causal_laser());
  }
  for (const double slope : {0.02, -0.15}) {
    INFO("values that drift by ", slope, " from key to key");
    Inputs x = draw_heads(0.5);
    for (int64_t j = 0; j < kKeys; ++j)
      change_values(x, j % 2, j, [&](double v) { return v + slope * static_cast<double>(j); });
    check_products(check_bfloat16(x, causal_laser()), false, false);
  }
}

TEST_CASE("LASER on Hopper: windows, grouped heads, other numbers of queries, and rows that see nothing") {
  if (!has_gpu()) return;
  AttentionOptions o = causal_laser();
  o.left = 150;
  check_bfloat16(draw_heads(), o);
  o = causal_laser();
  for (const auto& counts : {std::pair{70, 290}, {290, 40}, {140, 140}}) {
    INFO(counts.first, " queries, ", counts.second, " keys");
    Inputs x = draw({4, 2, counts.first, counts.second, 8, 72});
    x.v = add(x.v, Tensor(100.0));  // o is 100 where keys are seen, and 0 where none is
    check_bfloat16(x, o);
    check_bfloat16(draw({2, 2, counts.first, counts.second, 128, 128}), o);
  }
}

TEST_CASE(
    "LASER on Hopper: values too far apart for one anchor are read by the other kernels, tile by tile") {
  if (!has_gpu()) return;
  Inputs x = draw_heads();
  // One batch, from the second block on
  change_values(x, 1, kBlock + 70, [](double) { return 90; });
  const Products some = check_bfloat16(x, causal_laser()),
                 all = check_bfloat16(draw_heads(40), causal_laser());
  check_products(some, true, true);
  check_products(all, true, true);
  if (some.forward) CHECK(3 * *some.forward < 2 * *all.forward);
  if (some.backward) CHECK(3 * *some.backward < 2 * *all.backward);
  x = draw_heads();
  for (int64_t j = kBlock; j < kKeys; ++j)
    for (int64_t b = 0; b < 2; ++b) change_values(x, b, j, [](double v) { return v + 70; });
  check_products(check_bfloat16(x, causal_laser()), true, true);
}

TEST_CASE("LASER on Hopper: what one block leaves of another is not magnified when the anchor moves") {
  if (!has_gpu()) return;
  Inputs x = draw_heads();
  change_values(x, [](double v, int64_t j) { return j < kBlock ? v + 120 : v + 100; });
  AttentionOptions o = causal_laser();
  // The first block is hidden from the last queries
  o.allowed = full({2, 1, kKeys, kKeys}, 1, DType::boolean);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t i = kBlock; i < kKeys; ++i)
      for (int64_t j = 0; j < kBlock; ++j) o.allowed.data<bool>()[(b * kKeys + i) * kKeys + j] = false;
  check_bfloat16(x, o);
  x = draw_heads();
  change_values(x, [](double v, int64_t j) { return j < kBlock ? v + 140 : v + 100; });
  for (int64_t row = 0; row < x.q.numel() / 16; ++row) x.q.data<double>()[row * 16] = 8;
  for (int64_t row = 0; row < x.k.numel() / 16; ++row)  // scores of later keys: 32 more
    x.k.data<double>()[row * 16] = row % kKeys < kBlock ? 0 : 16;
  check_products(check_bfloat16(x, causal_laser()), false, false);
}

TEST_CASE("LASER on Hopper: where queries see values whose own range is small, others cost them no digits") {
  if (!has_gpu()) return;
  const auto check = [](const Inputs& x, const AttentionOptions& o, int64_t begin, int64_t end) {
    const Inputs rounded = cast_all(x, DType::bfloat16);
    const auto got = in_bfloat16(rounded, o), want = run(cast_all(rounded, DType::float64), o);
    for (const size_t i : {0, 1}) {
      INFO("0 = y, 1 = dq: ", i);
      CHECK(spec::distance(slice(got[i], 2, begin, end).values(), slice(want[i], 2, begin, end).values(),
                           0) <= 2 * epsilon(DType::bfloat16));
    }
  };
  Inputs x = draw_heads(0.002);
  for (int64_t b = 0; b < 2; ++b) change_values(x, b, 2 * kBlock + 3, [](double) { return -9; });
  check(x, causal_laser(), 0, 2 * kBlock);  // by the anchors of the whole head
  x = draw_heads(0.002);
  for (int64_t b = 0; b < 2; ++b) change_values(x, b, 3, [](double) { return -9; });
  AttentionOptions o = causal_laser();
  o.left = 20;
  check(x, o, kBlock, kKeys);
  x = draw({2, 1, 256, 320, 16, kChannels},
           0.002);  // the first tile of queries sees half of the second block
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t d = 0; d < kChannels; ++d) x.v.data<double>()[(b * 320 + 250) * kChannels + d] = -9;
  check(x, causal_laser(), 0, kBlock);
  x = draw_heads(0.002);
  for (int64_t b = 0; b < 2; ++b) change_values(x, b, 3, [](double) { return -9; });
  o = causal_laser();
  o.allowed = full({1, 1, kKeys, kKeys}, 1, DType::boolean);
  for (int64_t i = kBlock; i < kKeys; ++i) o.allowed.data<bool>()[i * kKeys + 3] = false;
  check(x, o, kBlock, kKeys);
}

TEST_CASE(
    "LASER on Hopper: near and far heads side by side, and cotangents that its copy engine cannot read") {
  if (!has_gpu()) return;
  Inputs x = draw({4, 2, kKeys, kKeys, 16, kChannels});
  for (int64_t j = 200; j < kKeys; ++j)
    x.v.data<double>()[(kKeys + j) * kChannels + 2] += 80;  // of key head 1
  check_products(check_bfloat16(x, causal_laser()), true, true);
  x = draw_heads();
  const Inputs rounded = cast_all(x, DType::bfloat16);
  Inputs moved = cast_all(x, DType::bfloat16, Device::cuda);
  const Tensor wide = concat({moved.dy, moved.dy}, -1);
  moved.dy = slice(wide, -1, 2, 2 + kChannels);  // rows begin at odd multiples of 4 bytes
  Inputs same_dy = cast_all(rounded, DType::float64);
  same_dy.dy = to(copy_as(contiguous(moved.dy), DType::float64), Device::cpu);
  check_close(run(moved, causal_laser()), run(same_dy, causal_laser()), 2 * epsilon(DType::bfloat16));
}

TEST_CASE("LASER on Hopper: NaN among the values is seen by all who see it") {
  if (!has_gpu()) return;
  Inputs x = draw_heads();
  x.v.data<double>()[200 * kChannels + 5] = NAN;
  const auto result = in_bfloat16(x, causal_laser());
  const auto y = result[0].values();
  for (int64_t head = 0; head < 4; ++head)  // two of each batch
    for (int64_t i = 0; i < kKeys; ++i)
      for (int64_t d = 0; d < kChannels; ++d) {
        const double of = y[static_cast<size_t>((head * kKeys + i) * kChannels + d)];
        if (head >= 2 || i < kBlock || d != 5) CHECK(std::isfinite(of));
        if (head < 2 && i >= 200 && d == 5) CHECK(std::isnan(of));
      }
  CHECK(std::isnan(result[3].values()[200 * kChannels + 5]));
}

TEST_CASE("LASER on Hopper: a later key changes no bit of an earlier tile, whoever reads it") {
  if (!has_gpu()) return;
  const Inputs x = draw_heads();
  const Tensor before = in_bfloat16(x, causal_laser())[0];
  for (const double outlier : {20.0, -1000.0}) {
    INFO("outlier ", outlier);
    Inputs changed = x;
    changed.v = copy_as(x.v, DType::float64);
    change_values(changed, 0, 2 * kBlock + 3, [&](double) { return outlier; });
    const Tensor after = in_bfloat16(changed, causal_laser())[0];
    CHECK(slice(after, 2, 0, 2 * kBlock).values() == slice(before, 2, 0, 2 * kBlock).values());
    CHECK(after.values() != before.values());
  }
}

TEST_CASE("LASER on Hopper: padding moves no anchor, and neither do keys outside of all windows") {
  if (!has_gpu()) return;
  Inputs x = draw_heads();
  AttentionOptions o = causal_laser();
  o.allowed = greater(arange(0, kKeys), full({}, 40, DType::int64));
  const Tensor before = in_bfloat16(x, o)[0];
  for (int64_t j = 0; j <= 40; j += 8)
    for (int64_t b = 0; b < 2; ++b) change_values(x, b, j, [](double) { return 1000; });
  check_products(check_bfloat16(x, o), false, false);
  CHECK(in_bfloat16(x, o)[0].values() == before.values());
}
