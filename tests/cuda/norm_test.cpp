// Norms on the device at the widths of every path: a row in the registers of a warp, a row in the
// registers of a block, and longer rows; with and without weights, and after a residual connection.
// Values and all gradients against the CPU in float64.
#include "ops/norm.h"

#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/view.h"
#include "tests/cuda/device.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using test::has_gpu, test::in_any_order;

namespace {

using Tensors = std::vector<Tensor>;

struct Norm {
  const char* name;
  int operands;  // of x, residual, weight, bias in the order of the function's parameters
  bool has_residual;
  std::function<Tensors(const Tensors&)> apply;  // y, and the sum
};

const std::vector<Norm>& norms() {
  static const std::vector<Norm> all = {
      {"layer_norm", 1, false, [](const Tensors& t) { return Tensors{layer_norm(t[0])}; }},
      {"layer_norm with weights", 3, false,
       [](const Tensors& t) { return Tensors{layer_norm(t[0], t[1], t[2])}; }},
      {"rms_norm", 1, false, [](const Tensors& t) { return Tensors{rms_norm(t[0])}; }},
      {"rms_norm with weights", 2, false, [](const Tensors& t) { return Tensors{rms_norm(t[0], t[1])}; }},
      {"add_layer_norm", 4, true,
       [](const Tensors& t) {
         const AddNorm a = add_layer_norm(t[0], t[1], t[2], t[3]);
         return Tensors{a.y(), a.sum()};
       }},
      {"add_rms_norm", 3, true, [](const Tensors& t) {
         const AddNorm a = add_rms_norm(t[0], t[1], t[2]);
         return Tensors{a.y(), a.sum()};
       }}};
  return all;
}

/// What is normed, its residual, weights; in `dtype`, so that every path gets the same numbers.
Tensors draw(const Norm& norm, const Shape& shape, DType dtype) {
  Tensors t;
  for (int i = 0; i < norm.operands; ++i) {
    Generator g(static_cast<uint64_t>(5 + i));
    const bool wide = i == 0 || (norm.has_residual && i == 1);
    t.push_back(copy_as(
        randn(wide ? shape : Shape{shape[1]}, DType::float64, Device::cpu, i == 0 ? 3 : 0, 1, g), dtype));
  }
  return t;
}

/// All outputs, then all gradients.
Tensors run(const Norm& norm, const Tensors& operands, DType dtype, Device device) {
  Tape tape;
  Tensors x, dy;
  for (const Tensor& t : operands) x.push_back(tape.watch(to(copy_as(t, dtype), device)));
  Tensors results = norm.apply(x);
  for (const Tensor& y : results) {
    Generator g(40 + dy.size());
    const Tensor drawn = randn(y.shape(), DType::float64, Device::cpu, 0, 1, g);
    dy.push_back(to(copy_as(copy_as(drawn, operands[0].dtype()), dtype), device));
  }
  for (const Tensor& dx : tape.gradient(results, x, dy)) results.push_back(dx);
  return results;
}

void check_norms(const Shape& shape, DType dtype) {
  for (const Norm& norm : norms()) {
    INFO(norm.name, " of ", shape, " in ", name(dtype));
    const Tensors operands = draw(norm, shape, dtype);
    const Tensors want = run(norm, operands, DType::float64, Device::cpu),
                  got = run(norm, operands, dtype, Device::cuda);
    // Each result is rounded once; before that it is float32 (float64). x + residual is rounded
    // before it is normed.
    const double roundings = norm.has_residual ? 3 : 1;
    const double tolerance = roundings * epsilon(dtype) + (dtype == DType::float64 ? 1e-13 : 3e-6);
    for (size_t i = 0; i < want.size(); ++i) {
      INFO("result ", i);
      CHECK(spec::distance(got[i].values(), want[i].values(), 0.1) <= tolerance);
    }
    in_any_order([&] {
      const Tensors again = run(norm, operands, dtype, Device::cuda);
      for (size_t i = 0; i < got.size(); ++i) CHECK(again[i].values() == got[i].values());
    });
  }
}

constexpr DType kFloating[] = {DType::float64, DType::float32, DType::bfloat16, DType::float16};

}  // namespace

TEST_CASE("norms of every width and number of rows") {
  if (!has_gpu()) return;
  for (const Shape& shape :
       // Of two elements a gradient is what cancellation leaves
       {Shape{1, 2}, {3, 31}, {130, 33}, {2, 129}, {70, 200}, {3, 1025}, {300, 5}, {128, 32}})
    for (const DType dtype : {DType::float64, DType::float32})
      if (shape[1] > 2 || dtype == DType::float64) check_norms(shape, dtype);
}

TEST_CASE("norms of the widths of models, which warps and blocks hold in registers, in every dtype") {
  if (!has_gpu()) return;
  for (const int64_t width : {256, 512, 513, 768, 1024, 4096, 4097})
    for (const DType dtype : kFloating) {
#if defined(VITRINE_SANITIZED) || defined(VITRINE_KERNELS_TRACED)
      // Others access memory alike
      if (width % 256 != 0 || width > 768 || dtype == DType::float64) continue;
#endif
      check_norms({width <= 1024 ? 5 : 3, width}, dtype);
    }
}

TEST_CASE("the variance is that of differences: a mean of a thousand takes no digits of it") {
  if (!has_gpu()) return;
  Generator g(2);
  const Tensor x = copy_as(randn({3, 300}, DType::float64, Device::cpu, 1000, 1, g), DType::float32);
  CHECK(spec::distance(layer_norm(to(x, Device::cuda)).values(),
                       layer_norm(copy_as(x, DType::float64)).values(),
                       1e-3) <= 1e-3);  // E x² − (E x)² would be off by a tenth
}
