// Code that the tests of attention's kernels share: operands, and the comparison with the CPU in
// float64.
#pragma once

#include <utility>
#include <vector>

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
#include "cuda/emulator/limits.h"
#endif

namespace vitrine::test {

struct AttentionSizes {
  int64_t heads, key_heads, queries, keys, size, channels;
};

inline AttentionInputs draw(const AttentionSizes& s, double deviation = 1) {
  Generator g(7);
  const auto normal = [&](const Shape& shape, double by = 1) {
    return randn(shape, DType::float64, Device::cpu, 0, by, g);
  };
  return {normal({2, s.heads, s.queries, s.size}), normal({2, s.key_heads, s.keys, s.size}),
          normal({2, s.key_heads, s.keys, s.channels}, deviation),
          normal({2, s.heads, s.queries, s.channels})};
}

inline AttentionInputs cast_all(const AttentionInputs& x, DType dtype, Device device = Device::cpu) {
  const auto moved = [&](const Tensor& t) { return to(copy_as(t, dtype), device); };
  return {moved(x.q), moved(x.k), moved(x.v), moved(x.dy)};
}

/// y, dq, dk and dv, where x lies.
inline std::vector<Tensor> run(const AttentionInputs& x, AttentionOptions o) {
  for (Tensor* t : {&o.bias, &o.slopes, &o.allowed})
    if (t->defined()) *t = to(*t, x.q.device());
  return value_and_gradients(attention, x, o);
}

inline bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].values() != b[i].values()) return false;
  return true;
}

/// In float64 as on the CPU but for rounding, and the same bits in any order of threads.
inline void check_as_on_cpu(const AttentionInputs& x, const AttentionOptions& o, double tolerance = 1e-11) {
  const auto got = run(cast_all(x, DType::float64, Device::cuda), o);
  check_close(got, run(x, o), tolerance);
  in_any_order([&] { CHECK(same(run(cast_all(x, DType::float64, Device::cuda), o), got)); });
}

/// The same in float32, whose tiles are larger.
inline void check_float32(const AttentionInputs& x, const AttentionOptions& o) {
  const AttentionInputs rounded = cast_all(x, DType::float32);
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

/// In 16 bits weights and their gradients are rounded before a product: two units of that. LASER's
/// F and H are bfloat16 in float16 too.
inline double tolerance_of(DType dtype, AttentionRead read) {
  return 2 * epsilon(read == AttentionRead::laser ? DType::bfloat16 : dtype);
}

/// And in 16 bits, on tensor cores.
inline void check_16_bits(const AttentionInputs& x, const AttentionOptions& o) {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    INFO(name(dtype));
    const AttentionInputs rounded = cast_all(x, dtype);
    const auto want = run(cast_all(rounded, DType::float64), o);
    const auto check = [&] {
      const auto got = run(cast_all(rounded, dtype, Device::cuda), o);
      check_close(got, want, tolerance_of(dtype, o.read));
      in_any_order([&] { CHECK(same(run(cast_all(rounded, dtype, Device::cuda), o), got)); });
    };
    check();
#if VITRINE_CUDA_EMULATED
    if (x.q.size(3) % 8 != 0) continue;  // the same kernels everywhere
    const OlderGpu older;
    check();
#endif
  }
}

constexpr AttentionRead kReads[] = {AttentionRead::mean, AttentionRead::laser};

/// Channels of queries and of values.
constexpr std::pair<int64_t, int64_t> kWidths[] = {{1, 2},     {3, 33},   {80, 32},  {31, 80},
                                                   {128, 128}, {129, 64}, {256, 256}};

constexpr AttentionSizes kVaried{4, 2, 70, 75, 4, 6};

/// Windows, masks, biases, softcap and slopes, for operands of sizes kVaried.
inline std::vector<AttentionOptions> varied_options() {
  Generator g(3);
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
  return all;
}

/// Calls check(operands, options, their number) for each of them, by both reads.
template <class F>
void for_varied_options(F&& check) {
  const AttentionInputs x = draw(kVaried);
  std::vector<AttentionOptions> all = varied_options();
  for (const AttentionRead read : kReads)
    for (size_t i = 0; i < all.size(); ++i) {
      if (!is_chosen(i + static_cast<size_t>(read))) continue;
      INFO("option ", i, ", LASER: ", read == AttentionRead::laser);
      all[i].read = read;
      check(x, all[i], i);
    }
}

}  // namespace vitrine::test
