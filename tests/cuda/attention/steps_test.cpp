// Every step of the ladder of attention (cuda/attention/) against the definition in float64, and
// the choice of the step.
#include <doctest/doctest.h>

#if VITRINE_CUDA_KERNELS

#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "cuda/attention/steps.h"
#include "ops/reduce.h"
#include "tests/cuda/attention/check.h"

#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/counts.h"
#endif

using namespace vitrine;
using namespace vitrine::test;
using cuda::AttentionBackward, cuda::AttentionForward, cuda::AttentionStep;

namespace vitrine::cuda {
int compute_capability();  // of cuda/launch.h, which is for nvcc
}

namespace {

constexpr DType kDTypes[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16};

bool is_hopper() { return cuda::compute_capability() / 10 == 9; }

/// [B, H, T, D], whose heads lie beside each other as the op makes them.
Tensor heads(const Tensor& like, int64_t channels, DType dtype) {
  return permute(empty({like.size(0), like.size(2), like.size(1), channels}, dtype, like.device()),
                 {0, 2, 1, 3});
}

/// What the op gives its kernels; x lies on the GPU.
AttentionBackward arguments(const AttentionInputs& x, const AttentionOptions& o) {
  const DType dtype = x.q.dtype(), wide = accumulation_dtype(dtype);
  const Shape scores{x.q.size(0), x.q.size(1), x.q.size(2), x.k.size(2)};
  const auto moved = [&](const Tensor& t, DType as) {
    return t.defined() ? to(copy_as(t, as), x.q.device()) : Tensor();
  };
  const auto expanded = [&](const Tensor& t, DType as) {
    return t.defined() ? expand(moved(t, as), scores) : Tensor();
  };
  AttentionBackward p;
  p.q = x.q, p.k = x.k, p.v = x.v, p.dy = x.dy;
  p.bias = expanded(o.bias, wide), p.slopes = moved(o.slopes, wide),
  p.allowed = expanded(o.allowed, DType::boolean);
  p.form = o;
  if (o.scale == 0) p.form.scale = 1 / std::sqrt(static_cast<double>(x.q.size(3)));
  p.y = heads(x.q, x.v.size(3), dtype), p.lse = empty({scores[0], scores[1], scores[2]}, wide, x.q.device());
  if (o.read == AttentionRead::laser || dtype != wide)
    p.kept = heads(x.q, x.v.size(3), o.read == AttentionRead::laser ? wide : dtype);
  p.dq = heads(x.q, x.q.size(3), dtype), p.dk = heads(x.k, x.k.size(3), dtype),
  p.dv = heads(x.k, x.v.size(3), dtype);
  return p;
}

/// y, dq, dk and dv by one step: the backward by the next one below that has it. Nothing where the
/// step has no such forward.
std::optional<std::vector<Tensor>> run_step(const AttentionStep& step, const AttentionInputs& x,
                                            const AttentionOptions& o) {
  const AttentionBackward p = arguments(x, o);
  if (!step.supports(p)) return {};
  step.run(p);
  cuda::choose_attention_backward(step.name, p).run_backward(p);
  return std::vector<Tensor>{p.y, p.dq, p.dk, p.dv};
}

double tolerance_of_step(DType dtype, AttentionRead read) {
  if (dtype == DType::float64) return 1e-11;
  return dtype == DType::float32 ? 4e-6 : tolerance_of(dtype, read);
}

/// Checks each step in each dtype; in how many of them it ran is added to `counts`.
void check_steps(const AttentionInputs& x, const AttentionOptions& o, std::map<std::string, int>& counts) {
  for (const DType dtype : kDTypes) {
    const AttentionInputs rounded = cast_all(x, dtype), here = cast_all(x, dtype, Device::cuda);
    const auto want = value_and_gradients(define::attention, cast_all(rounded, DType::float64), o);
    for (const AttentionStep& step : cuda::attention_steps()) {
      INFO(step.name, " in ", name(dtype), ", LASER: ", o.read == AttentionRead::laser);
      const auto got = run_step(step, here, o);
      if (!got) continue;
      ++counts[std::string(step.name)];
      check_close(*got, want, tolerance_of_step(dtype, o.read));
      const bool laser = o.read == AttentionRead::laser;
      if ((dtype == DType::float32 && (!laser || all_samples())) ||
          (dtype == DType::bfloat16 && (laser || all_samples())))
        in_any_order([&] { CHECK(same(*run_step(step, here, o), *got)); });
    }
  }
}

/// The gradients of q, k, v and the bias by one step, for cotangents of y and of log Σ e^s.
std::optional<std::vector<Tensor>> gradients_of_step(const AttentionStep& step, const AttentionInputs& x,
                                                     const AttentionOptions& o, const Tensor& dlse) {
  AttentionBackward p = arguments(x, o);
  p.dlse = to(copy_as(dlse, p.lse.dtype()), x.q.device());
  p.dbias = zeros({x.q.size(0), x.q.size(1), x.q.size(2), x.k.size(2)}, p.lse.dtype(), x.q.device());
  if (!step.supports(p)) return {};
  step.run(p);
  cuda::choose_attention_backward(step.name, p).run_backward(p);
  return std::vector<Tensor>{p.dq, p.dk, p.dv, sum_to(p.dbias, o.bias.shape())};
}

}  // namespace

TEST_CASE("every step of attention gives the gradients of a bias, for the gradients of y and of log Σ e^s") {
  if (!has_gpu()) return;
  const AttentionInputs x = draw({4, 2, 70, 75, 4, 6});
  Generator g(5);
  const auto normal = [&](const Shape& shape) { return randn(shape, DType::float64, Device::cpu, 0, 1, g); };
  const Tensor dlse = normal({2, 4, 70});
  for (const AttentionRead read : kReads) {
    AttentionOptions o;
    o.read = read, o.causal = true, o.left = 40, o.softcap = 2, o.bias = normal({4, 70, 75});
    std::map<std::string, int> counts;
    for (const DType dtype : kDTypes) {
      const AttentionInputs wide = cast_all(cast_all(x, dtype), DType::float64);
      Tape tape;
      for (const Tensor& t : {wide.q, wide.k, wide.v, o.bias}) tape.watch(t);
      const auto ys = define::attention_with_log_sum_exp(wide.q, wide.k, wide.v, o).tensors();
      const auto want = tape.gradient(ys, {wide.q, wide.k, wide.v, o.bias}, {wide.dy, dlse});
      for (const AttentionStep& step : cuda::attention_steps()) {
        INFO(step.name, " in ", name(dtype), ", LASER: ", read == AttentionRead::laser);
        const auto got = gradients_of_step(step, cast_all(x, dtype, Device::cuda), o, dlse);
        if (!got) continue;
        ++counts[std::string(step.name)];
        check_close(*got, want, tolerance_of_step(dtype, read));
      }
    }
    CHECK(counts["naive"] == 4);
    CHECK(counts["tiled"] == 2);
    CHECK(counts["tensor_core"] == 2);
  }
}

TEST_CASE(
    "every step of attention gives the definition under windows, masks, bias, softcap and ALiBi, grouped") {
  if (!has_gpu()) return;
  std::map<std::string, int> counts;
  int cases = 0;
  for_varied_options([&](const AttentionInputs& x, const AttentionOptions& o, size_t i) {
    // dq is 0 but for what rounding leaves of it
    if (o.read == AttentionRead::laser && i == 6) return;
    check_steps(x, o, counts);
    ++cases;
  });
  CHECK(counts["naive"] == 4 * cases);
  CHECK(counts["tiled"] == 2 * cases);
  CHECK(counts["tensor_core"] == 2 * cases);
}

TEST_CASE("every step of attention takes fewer and more queries than keys, and queries that see nothing") {
  if (!has_gpu()) return;
  std::map<std::string, int> counts;
  size_t turn = 0;
  int cases = 0;
  for (const AttentionRead read : kReads)
    for (const auto& sizes : {std::pair{140, 40}, {37, 140}, {1, 33}, {140, 140}, {33, 35}}) {
      if (!is_chosen(turn++)) continue;
      ++cases;
      INFO(sizes.first, " queries, ", sizes.second, " keys");
      AttentionOptions o;
      o.read = read, o.causal = true;
      // Beside the first 100 queries, which stand before the first key, 20 see what is masked
      if (sizes.second == 40) o.allowed = greater_equal(arange(0, 40), full({}, 20, DType::int64));
      check_steps(draw({2, 1, sizes.first, sizes.second, 8, 16}), o, counts);
    }
  CHECK(counts["naive"] == 4 * cases);
  CHECK(counts["tiled"] == 2 * cases);
  CHECK(counts["tensor_core"] == 2 * cases);
  // LASER in bfloat16 alone, and of more queries than one tile has.
  if (is_hopper() && is_chosen(1)) CHECK(counts["hopper"] == 2 * 5 + 2);
}

TEST_CASE("the naive step takes heads of any size, without keys, and without queries") {
  if (!has_gpu()) return;
  for (const AttentionRead read : kReads) {
    AttentionOptions o;
    o.read = read;
    std::map<std::string, int> counts;
    check_steps(draw({1, 1, 5, 7, 257, 300}), o, counts);
    CHECK(counts == std::map<std::string, int>{{"naive", 4}});
    const AttentionInputs wide = draw({1, 1, 5, 7, 257, 300});
    check_close(run(cast_all(wide, DType::float64, Device::cuda), o), run(wide, o), 1e-11);
    for (const auto& sizes : {std::pair{3, 0}, {0, 3}}) {
      const AttentionInputs x =
          cast_all(draw({2, 1, sizes.first, sizes.second, 3, 2}), DType::float32, Device::cuda);
      const auto empty = run_step(cuda::attention_steps()[0], x, o);
      for (const Tensor& t : *empty)
        for (const double e : t.values()) CHECK(e == 0);
    }
  }
}

TEST_CASE("the naive step reads LASER exactly, however far apart the values are") {
  if (!has_gpu()) return;
  AttentionOptions o;
  o.read = AttentionRead::laser, o.causal = true;
  for (const double deviation : {0.01, 10.0, 100.0}) {
    INFO("deviation ", deviation);
    const AttentionInputs x = draw({1, 1, 34, 70, 4, 34}, deviation);
    const auto got = run_step(cuda::attention_steps()[0], cast_all(x, DType::float64, Device::cuda), o);
    check_close(*got, value_and_gradients(define::attention, x, o), 1e-10);
  }
}

TEST_CASE("the best step of attention that supports a case is taken, or the one that is asked for") {
  if (!has_gpu()) return;
  const auto chosen = [](std::string_view setting, DType dtype, const AttentionOptions& o = {},
                         int64_t size = 8) {
    const AttentionBackward p = arguments(cast_all(draw({1, 1, 4, 4, size, size}), dtype, Device::cuda), o);
    return std::pair{cuda::choose_attention(setting, p).name,
                     cuda::choose_attention_backward(setting, p).name};
  };
  using Names = std::pair<std::string_view, std::string_view>;
  const std::string_view top = is_hopper() ? "hopper" : "tensor_core";
  CHECK(chosen("auto", DType::bfloat16) == Names{top, top});
  // Hopper's backward is bfloat16's
  CHECK(chosen("auto", DType::float16) == Names{top, "tensor_core"});
  CHECK(chosen("auto", DType::float32) == Names{"tiled", "tiled"});
  CHECK(chosen("hopper", DType::float64) == Names{"tiled", "tiled"});
  CHECK(chosen("tensor_core", DType::float16) == Names{"tensor_core", "tensor_core"});
  CHECK(chosen("naive", DType::bfloat16) == Names{"naive", "naive"});
  CHECK(chosen("auto", DType::float32, {}, 257) == Names{"naive", "naive"});
  AttentionOptions capped;
  capped.softcap = 2;
  CHECK(chosen("hopper", DType::bfloat16, capped) == Names{"tensor_core", "tensor_core"});
  CHECK_THROWS_WITH_AS(
      chosen("fast", DType::float32),
      "VITRINE_CUDA_ATTENTION is fast: wanted auto or one of naive, tiled, tensor_core, hopper", Error);
}

#if VITRINE_CUDA_EMULATED

namespace {

/// What all kernels of a step's forward do for n queries and keys of one head of 64 channels, twice
/// (draw has two batches).
emulator::Counts count(std::string_view name, DType dtype, int64_t n) {
  const AttentionBackward p = arguments(cast_all(draw({1, 1, n, n, 64, 64}), dtype, Device::cuda), {});
  for (const AttentionStep& step : cuda::attention_steps()) {
    if (step.name != name) continue;
    REQUIRE(step.supports(p));
    emulator::count_kernels(true);
    step.run(p);
    emulator::Counts sum;
    sum.traced = true;
    for (const auto& [kernel, counts] : emulator::kernel_counts())
      sum += counts, sum.traced = sum.traced && counts.traced;
    emulator::count_kernels(false);
    return sum;
  }
  fail("no step {}", name);
}

}  // namespace

// As in the table of docs/cuda.md, where kernels are traced.
TEST_CASE("each step of attention reads less than the one before") {
  const int64_t n = 128;
  const auto naive = count("naive", DType::float32, n), tiled = count("tiled", DType::float32, n),
             tensor_core = count("tensor_core", DType::bfloat16, n),
             hopper = count("hopper", DType::bfloat16, n);
  CHECK(tiled.launches == 1);
  if (!naive.traced || !tiled.traced || !tensor_core.traced || !hopper.traced) return;
  CHECK(naive.shared_loads == 0);
  CHECK(naive.loads > 100 * tiled.loads);
  CHECK(tiled.shared_loads > 50 * tensor_core.shared_loads);
  CHECK(tensor_core.bank_conflicts == 0);
  CHECK(tensor_core.loads > hopper.loads);
  CHECK(tensor_core.shared_loads > hopper.shared_loads);
}
#endif

#endif
