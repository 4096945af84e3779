// Every step of the ladder of matrix products against the product in float64, at sizes that its
// tiles do not divide.
#include <doctest/doctest.h>

#if VITRINE_CUDA_KERNELS

#include <string>

#include "core/gpu/step_graph.h"
#include "core/gradcheck/differences.h"
#include "core/matmul_math.h"
#include "core/random.h"
#include "core/tensor_kernels.h"
#include "cuda/matmul/steps.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/cuda/device.h"

#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/counts.h"
#endif

namespace vitrine::cuda {
int compute_capability();  // of cuda/launch.h, which is for nvcc
}

using namespace vitrine;
using cuda::MatmulStep, cuda::Product;
using test::has_gpu, test::in_any_order;

namespace {

struct Types {
  DType in, out;
};
const Types kFloatPairs[] = {{DType::float32, DType::float32},   {DType::float64, DType::float64},
                             {DType::bfloat16, DType::bfloat16}, {DType::float16, DType::float16},
                             {DType::bfloat16, DType::float32},  {DType::float16, DType::float32}};

/// How a matrix lies in memory: along rows or columns, with unused elements after each line.
struct Layout {
  bool by_rows;
  int64_t gap;
};
const Layout kLayouts[] = {{true, 0}, {false, 0}, {true, 8}, {false, 8}, {true, 1}, {false, 3}};

/// The same matrices on the GPU, and as float64 on the CPU.
struct Both {
  Tensor device, wide;
};

Both draw(const Shape& shape, DType dtype, Layout layout, uint64_t seed) {
  Shape base = shape;
  const int r = base.rank();
  if (!layout.by_rows) std::swap(base[r - 2], base[r - 1]);
  base[r - 1] += layout.gap;
  Generator g(seed);
  const Tensor numbers = is_integer(dtype)
                             ? copy_as(randint(-9, 10, base, Device::cpu, g), dtype)
                             : copy_as(randn(base, DType::float64, Device::cpu, 0, 1, g), dtype);
  const auto view = [&](const Tensor& t) {
    const Tensor used = slice(t, -1, 0, base[r - 1] - layout.gap);
    return layout.by_rows ? used : transpose(used);
  };
  return {view(to(numbers, Device::cuda)), view(copy_as(numbers, DType::float64))};
}

struct Case {
  int64_t M, N, K;
  Layout x{true, 0}, y{true, 0};
  Shape x_batch = {}, y_batch = {}, z_batch = {};
  bool bias = false, add = false, gelu = false;
};

Shape with(Shape shape, int64_t rows, int64_t columns) {
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

/// Whether a step multiplied right; false where it does not support the case.
bool check_case(const MatmulStep& step, const Case& c, Types types) {
  const Both x = draw(with(c.x_batch, c.M, c.K), types.in, c.x, 1);
  const Both y = draw(with(c.y_batch, c.K, c.N), types.in, c.y, 2);
  const Both bias = draw({1, c.N}, types.in, {true, 0}, 3);
  const Both old = draw(with(c.z_batch, c.M, c.N), types.out, {true, 0}, 4);
  Tensor active = empty_like(old.device);
  const auto prepare = [&](Tensor& z) {
    Product p = cuda::product_of(z, x.device, y.device, c.bias ? bias.device : Tensor(), c.add);
    if (c.gelu) p.active = active.raw();
    return p;
  };
  Tensor z = copy_as(old.device, types.out);
  if (!step.supports(prepare(z))) return false;

  INFO(step.name, " [", c.M, ", ", c.K, "]·[", c.K, ", ", c.N, "] ", name(types.in), " to ", name(types.out),
       c.x.by_rows ? ", x by rows + " : ", x by columns + ", c.x.gap,
       c.y.by_rows ? ", y by rows + " : ", y by columns + ", c.y.gap);
  Tensor want = matmul(x.wide, y.wide);
  if (c.bias) want = want + reshape(bias.wide, {c.N});
  if (c.add) want = want + old.wide;
  step.run(prepare(z));
  const double units = is_low_precision(types.out) ? 1 : 8;
  CHECK(distance(z.values(), want.values(), 1e-3) <= units * epsilon(types.out));
  if (c.gelu) {
    const Tensor activated = gelu_tanh(want);
    CHECK(distance(active.values(), activated.values(), 1e-3) <= 2 * units * epsilon(types.out));
  }

  in_any_order([&] {
    Tensor again = copy_as(old.device, types.out);
    step.run(prepare(again));
    CHECK(again.values() == z.values());
  });
  return true;
}

Types typical(const MatmulStep& step) {
  return step.name == "tensor_core" || step.name == "hopper" ? kFloatPairs[2] : kFloatPairs[0];
}

const MatmulStep& find(std::string_view name) {
  for (const MatmulStep& step : cuda::matmul_steps())
    if (step.name == name) return step;
  fail("no step {}", name);
}

/// A matrix whose lines begin at multiples of 16 bytes, with elements of 2.
Layout aligned(bool by_rows, int64_t rows, int64_t columns) {
  return {by_rows, (8 - (by_rows ? columns : rows) % 8) % 8};
}

/// Whether this GPU has what the step `hopper` needs; the emulated one has. The library then has to
/// have it too.
bool is_hopper() { return cuda::compute_capability() / 10 == 9; }

/// Checks the step with every floating type that it knows; how many cases it supported.
int check_types(const MatmulStep& step, const Case& c) {
  int supported = 0;
  for (const Types& types : kFloatPairs) supported += check_case(step, c, types);
  return supported;
}

}  // namespace

TEST_CASE("every step multiplies matrices of any size, however they lie") {
  if (!has_gpu()) return;
  const int64_t sizes[][3] = {{1, 1, 1},      {15, 17, 16},  {16, 15, 1},   {17, 63, 65},  {63, 65, 127},
                              {127, 129, 17}, {65, 200, 63}, {1, 129, 200}, {200, 1, 129}, {129, 127, 15}};
  for (const MatmulStep& step : cuda::matmul_steps()) {
    int cases = 0;
    size_t turn = 0;
    for (const auto& [M, N, K] : sizes) {
      const Layout x = kLayouts[turn % 6], y = kLayouts[turn / 2 % 6];
      ++turn;
      cases += check_types(step, {.M = M, .N = N, .K = K, .x = x, .y = y});
    }
    for (const Layout& x : kLayouts)
      for (const Layout& y : kLayouts)
        cases += check_case(step, {.M = 33, .N = 66, .K = 40, .x = x, .y = y}, typical(step));
    if (step.name == "hopper" || step.name == "cublas") continue;  // of which below
    CHECK(cases >= 36 + 40);
  }
}

TEST_CASE("the Hopper step multiplies what the copy engine takes, at sizes that tiles do not divide") {
  if (!has_gpu() || !is_hopper()) return;
  // From one element of a tile to several tiles a block.
  const int64_t sizes[][3] = {{1, 3, 8},      {128, 256, 64}, {63, 65, 40},   {129, 257, 65},
                              {200, 31, 320}, {16, 777, 63},  {385, 515, 130}};
  size_t turn = 0;
  for (const auto& [M, N, K] : sizes)
    for (const bool x_by_rows : {true, false})
      for (const bool y_by_rows : {true, false}) {
        const Case c{.M = M, .N = N, .K = K, .x = aligned(x_by_rows, M, K), .y = aligned(y_by_rows, K, N)};
        CHECK(check_case(find("hopper"), c, kFloatPairs[2 + turn++ % 4]));
      }
  for (const int options : {1, 2, 3})
    for (const int64_t N : {260, 263}) {  // whole runs of z, and parts of them
      const Case c{.M = 70,
                   .N = N,
                   .K = 72,
                   .y = aligned(true, 72, N),
                   .bias = (options & 1) != 0,
                   .add = (options & 2) != 0};
      CHECK(check_case(find("hopper"), c, kFloatPairs[2 + options % 4]));
    }
  for (const int64_t N : {260, 263}) {
    const Case c{.M = 70, .N = N, .K = 72, .y = aligned(true, 72, N), .bias = true, .gelu = true};
    CHECK(check_case(find("hopper"), c, kFloatPairs[2]));
  }
}

TEST_CASE("cuBLASLt is found where the toolkit is, with every function that is used, also without a GPU") {
  const std::string origin = cuda::cublas_origin();
#if VITRINE_CUDA_EMULATED
  CHECK(origin == "these kernels run in the emulator, where there is no cuBLASLt");
#else
  if (origin.starts_with("cuBLASLt cannot be opened: ")) return test::skip(origin);
  CHECK_MESSAGE(origin.starts_with("cuBLASLt 1"), origin);
  CHECK_MESSAGE(origin.find("libcublasLt.so.") != std::string::npos, origin);
#endif
}

TEST_CASE("cuBLASLt, where it is, multiplies all floats whose lines begin at multiples of 16 bytes") {
  if (!has_gpu() || !cuda::cublas_absence().empty()) return;
  for (const bool x_by_rows : {true, false})
    for (const bool y_by_rows : {true, false}) {
      Case c{.M = 72, .N = 136, .K = 200, .x = {x_by_rows, 8}, .y = {y_by_rows, 0}};
      CHECK(check_types(find("cublas"), c) == 6);
      c.add = true;
      CHECK(check_types(find("cublas"), c) == 6);
      c.x_batch = c.y_batch = c.z_batch = {3};
      CHECK(check_types(find("cublas"), c) == 6);
    }
  // Into its own type
  CHECK(check_types(find("cublas"), {.M = 72, .N = 136, .K = 200, .bias = true}) == 3);
  CHECK(check_types(find("cublas"), {.M = 72, .N = 136, .K = 200, .bias = true, .gelu = true}) > 0);
}

TEST_CASE("a graph may begin with a product, and gives the bits of the one that is not captured") {
  if (!has_gpu()) return;
  for (const MatmulStep& step : cuda::matmul_steps()) {
    INFO(step.name);
    const DType dtype = typical(step).in;
    const Tensor x = draw({40, 72}, dtype, {true, 0}, 1).device,
                 y = draw({72, 88}, dtype, {true, 0}, 2).device;
    Tensor replayed = zeros({40, 88}, dtype, Device::cuda), eager = zeros({40, 88}, dtype, Device::cuda);
    const auto product = [&](Tensor& z) { return cuda::product_of(z, x, y, {}, true); };
    bool supported = false;
    StepGraph graph(Device::cuda, [&] {
      supported = step.supports(product(replayed));  // cuBLASLt chooses its kernel here
      if (supported) step.run(product(replayed));
    });
    if (!supported) continue;
    for (int i = 0; i < 3; ++i) graph.replay(), step.run(product(eager));
    CHECK(replayed.values() == eager.values());
    CHECK(distance(eager.values(), (matmul(x, y) * 3).values(), 1e-3) <= 4 * epsilon(dtype));
  }
}

TEST_CASE("every step adds a bias, and adds to what is there") {
  if (!has_gpu()) return;
  for (const MatmulStep& step : cuda::matmul_steps())
    for (const int options : {1, 2, 3}) {
      const Case c{.M = 65, .N = 17, .K = 33, .bias = (options & 1) != 0, .add = (options & 2) != 0};
      check_types(step, c);
    }
}

TEST_CASE("every step activates what it stores") {
  if (!has_gpu()) return;
  for (const MatmulStep& step : cuda::matmul_steps())
    for (const bool bias : {false, true}) {
      const int cases = check_types(step, {.M = 65, .N = 24, .K = 33, .bias = bias, .gelu = true});
      if (step.name != "hopper" && step.name != "cublas") CHECK(cases > 0);
    }
}

TEST_CASE("every step takes batches, broadcast and strided, and an empty inner axis") {
  if (!has_gpu()) return;
  for (const MatmulStep& step : cuda::matmul_steps()) {
    check_types(
        step,
        {.M = 17, .N = 15, .K = 24, .x = {false, 8}, .x_batch = {2, 1}, .y_batch = {3}, .z_batch = {2, 3}});
    check_types(step, {.M = 16,
                       .N = 33,
                       .K = 17,
                       .y = {false, 0},
                       .x_batch = {3},
                       .y_batch = {2, 3},
                       .z_batch = {2, 3},
                       .add = true});
    check_types(step, {.M = 3, .N = 5, .K = 0});
    check_types(step, {.M = 3, .N = 5, .K = 0, .bias = true, .add = true});
  }
}

TEST_CASE("integers are multiplied exactly, by the steps that know them") {
  if (!has_gpu()) return;
  for (const DType dtype : {DType::int32, DType::int64}) {
    int steps = 0;
    for (const MatmulStep& step : cuda::matmul_steps())
      steps += check_case(step, {.M = 17, .N = 65, .K = 33, .x = {false, 1}}, {dtype, dtype});
    CHECK(steps == 2);
  }
}

TEST_CASE("the same bits in any order of threads") {
  if (!has_gpu()) return;
  for (const MatmulStep& step : cuda::matmul_steps()) {
    for (const bool by_rows : {false, true})
      in_any_order([&] {
        check_case(step, {.M = 66, .N = 129, .K = 130, .x = {by_rows, 6}, .y = {!by_rows, 0}}, typical(step));
      });
  }
}

TEST_CASE("the Hopper step gives the same bits in any order of threads") {
  if (!has_gpu() || !is_hopper()) return;
  for (const bool by_rows : {false, true})
    in_any_order([&] {
      const Case c{.M = 136, .N = 264, .K = 328, .x = {by_rows, 0}, .y = {!by_rows, 0}};
      CHECK(check_case(find("hopper"), c, kFloatPairs[2]));
    });
}

TEST_CASE("the best step that supports a product is taken, or the one that is asked for") {
  if (!has_gpu()) return;
  const auto chosen = [](std::string_view setting, DType dtype, int64_t n = 4) {
    const Tensor x = zeros({n, n}, dtype, Device::cuda);
    Tensor z = zeros({n, n}, dtype, Device::cuda);
    return cuda::choose_matmul(setting, cuda::product_of(z, x, x, {}, false)).name;
  };
  if (!cuda::cublas_absence().empty()) {
    CHECK(chosen("auto", DType::bfloat16, 8) == (is_hopper() ? "hopper" : "tensor_core"));
    CHECK(chosen("auto", DType::bfloat16) == "tensor_core");  // rows of 8 bytes
    CHECK(chosen("auto", DType::float32) == "blocked");
    CHECK(chosen("auto", DType::float64) == "blocked");
    const std::string message = "VITRINE_CUDA_MATMUL is cublas, but " + cuda::cublas_absence();
    CHECK_THROWS_WITH_AS(chosen("cublas", DType::float32), message.c_str(), Error);
  }
  // cuBLASLt would read single elements here, even though lines begin at multiples of 16 bytes.
  const Tensor x = zeros({128, 136}, DType::bfloat16, Device::cuda), y = zeros({136, 136}, x.dtype(), kGpu);
  Tensor z = zeros({128, 136}, x.dtype(), kGpu), cut = slice(z, 1, 0, 130);
  CHECK(cuda::choose_matmul("auto", cuda::product_of(cut, x, slice(y, 1, 0, 130), {}, false)).name ==
        (is_hopper() ? "hopper" : "tensor_core"));
  CHECK(chosen("auto", DType::int64) == "tiled");
  CHECK(chosen("tensor_core", DType::float32) == "blocked");
  CHECK(chosen("tensor_core", DType::float16, 8) == "tensor_core");
  CHECK(chosen("hopper", DType::float16, 8) == (is_hopper() ? "hopper" : "tensor_core"));
  CHECK(chosen("hopper", DType::float32, 8) == "blocked");
  CHECK(chosen("blocked", DType::int32) == "tiled");
  for (const std::string_view name : {"blocked", "tiled", "naive"})
    CHECK(chosen(name, DType::bfloat16) == name);
  CHECK_THROWS_WITH_AS(
      chosen("fast", DType::float32),
      "VITRINE_CUDA_MATMUL is fast: wanted auto or one of naive, tiled, blocked, tensor_core, hopper, cublas",
      Error);
}

TEST_CASE("float32 matrices whose operands are rounded to bfloat16 have the CPU's products and gradients") {
  if (!has_gpu()) return;
  const MatmulMathScope scope(MatmulMath::bfloat16);
  Generator generator(1);
  const Tensor x = randn({5, 7, 33}, DType::float32, Device::cpu, 0, 1, generator);
  const Tensor w = randn({20, 33}, DType::float32, Device::cpu, 0, 1, generator);
  const auto run = [&](Device device) {
    Tape tape;
    const Tensor a = tape.watch(to(x, device)), b = tape.watch(to(w, device)), y = linear(a, b);
    const auto grads = tape.gradient({y}, {a, b}, {y});
    return std::vector{to(y, Device::cpu), to(grads[0], Device::cpu), to(grads[1], Device::cpu)};
  };
  const auto cpu = run(Device::cpu), gpu = run(Device::cuda);
  // y is summed in another order, and rounded again as a cotangent.
  for (size_t i = 0; i < cpu.size(); ++i)
    CHECK(max(abs(cpu[i] - gpu[i])).item() <= (i == 0 ? 1e-5 : 0.005) * max(abs(cpu[i])).item());
}

#if VITRINE_CUDA_EMULATED

namespace {

/// What the kernel of a step does for one product of n × n matrices.
emulator::Counts count(std::string_view step, int64_t n) {
  const Tensor x = zeros({n, n}, DType::bfloat16, Device::cuda);
  Tensor z = zeros({n, n}, DType::bfloat16, Device::cuda);
  emulator::count_kernels(true);
  find(step).run(cuda::product_of(z, x, x, {}, false));
  const auto counts = emulator::kernel_counts();
  emulator::count_kernels(false);
  CHECK(counts.size() == 1);
  CHECK(counts.begin()->first.starts_with("matmul_" + std::string(step) + "<"));
  return counts.begin()->second;
}

}  // namespace

TEST_CASE("each step launches a kernel of its own") {
  for (const std::string_view name : {"naive", "tiled", "blocked", "tensor_core", "hopper"})
    CHECK(count(name, 16).launches == 1);
}

// As in the table of docs/cuda.md, where kernels are traced.
TEST_CASE("each step reads less than the one before") {
  if (!count("naive", 16).traced) return;
  const int64_t n = 128, elements = n * n, products = n * n * n;
  const auto naive = count("naive", n), tiled = count("tiled", n), blocked = count("blocked", n),
             tensor_core = count("tensor_core", n), hopper = count("hopper", n);
  const auto as_signed = [](uint64_t x) { return static_cast<int64_t>(x); };
  CHECK(as_signed(naive.loads) == 2 * products);
  CHECK(as_signed(tiled.loads) == 2 * products / 16);
  CHECK(as_signed(blocked.loads) == 2 * products / 128);
  CHECK(as_signed(tensor_core.loads) == 2 * products / 128 / 8);
  CHECK(as_signed(tiled.shared_loads) == 2 * products);
  CHECK(as_signed(blocked.shared_loads) == 2 * products / 8);
  CHECK(as_signed(hopper.loads) == 2 * products / 128 / 64);
  CHECK(tensor_core.bank_conflicts == 0);
  for (const auto& counts : {naive, tiled, blocked, tensor_core}) CHECK(as_signed(counts.stores) == elements);
  CHECK(as_signed(hopper.stores) == elements / 4);
}
#endif

#endif
