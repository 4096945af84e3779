// The CUDA twins against the CPU, from the spec rows: values and gradients in float32 near the
// CPU's in float64, and the same bits when run twice.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/gpu/stream.h"
#include "core/random.h"
#include "core/tape.h"
#include "core/tensor_kernels.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/cuda/device.h"
#include "tests/spec/differentiate.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using test::has_gpu, test::in_any_order;

namespace vitrine {
VITRINE_CPU_KERNEL(without_twin, const Tensor& x);
void cpu::without_twin(const Tensor&) {}
}  // namespace vitrine

namespace {

struct TwinResult {
  Tensor y;
  std::vector<Tensor> dx;
};

TwinResult run(const spec::Call& call, const std::vector<Tensor>& inputs, const Tensor& dy, Device device,
               DType dtype) {
  std::vector<Tensor> x;
  Tape tape;
  for (const Tensor& t : inputs) x.push_back(tape.watch(to(copy_as(t, dtype), device)));
  const Tensor y = call(x);
  return {y, tape.gradient({y}, x, {to(copy_as(dy, y.dtype()), device)})};
}

void check_near(const TwinResult& got, const TwinResult& want, double tolerance) {
  CHECK(spec::distance(got.y.values(), want.y.values(), 1e-3) <= tolerance);
  for (size_t i = 0; i < want.dx.size(); ++i)
    CHECK(spec::distance(got.dx[i].values(), want.dx[i].values(), 0.1) <= tolerance);
}

void check_same_bits(const TwinResult& x, const TwinResult& y) {
  CHECK(x.y.values() == y.y.values());
  for (size_t i = 0; i < x.dx.size(); ++i) CHECK(x.dx[i].values() == y.dx[i].values());
}

void check_row(const spec::Spec& row, size_t sample) {
  std::string error = spec::check_low_precision(row, sample, Device::cuda);
  CHECK_MESSAGE(error.empty(), error);
  const auto inputs = spec::draw(row, sample);
  const Tensor dy = spec::draw_cotangent(row.call(inputs), 7);
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
    if (dtype == DType::bfloat16 && row.bfloat16_units < 0) continue;
    if (dtype == DType::float16 && row.float16_units < 0) continue;
    INFO(name(dtype));
    const TwinResult first = run(row.call, inputs, dy, Device::cuda, dtype);
    in_any_order([&] { check_same_bits(run(row.call, inputs, dy, Device::cuda, dtype), first); });
  }
}

}  // namespace

TEST_CASE("every spec row on the device: values, gradients, and the same bits in any order of threads") {
  if (!has_gpu()) return;
  // The emulator runs this stream's work late: nothing may be read without waiting.
  const Stream stream(Device::cuda);
  const StreamScope scope(stream);
  for (const spec::Spec& row : spec::rows())
    for (size_t sample = 0; sample < row.samples.size(); ++sample) {
      INFO(row.name, ", sample ", sample);
      check_row(row, sample);
    }
}

TEST_CASE("bits on a device are compared after its stream has computed them") {
  if (!has_gpu()) return;
  const Stream stream(Device::cuda);
  const StreamScope scope(stream);
  Tensor x = ones({4}, DType::float32, Device::cuda);
  const Tensor before = to(x, Device::cpu);
  add_in_place(x, x);  // the emulator runs it when somebody waits
  CHECK(!spec::same_bits(x, before));
}

TEST_CASE("second derivatives on the device are the CPU's") {
  if (!has_gpu()) return;
#if defined(VITRINE_SANITIZED) || defined(VITRINE_KERNELS_TRACED)
  MESSAGE("left out: no other kernels run than for the rows above");
  return;
#endif
  for (const spec::Spec& row : spec::rows()) {
    if (row.order < 2) continue;
    INFO(row.name);
    const auto inputs = spec::draw(row, 0);
    const auto derive = [&](Device device) {
      std::vector<Tensor> x;
      for (const Tensor& t : inputs) x.push_back(to(t, device));
      Tape tape({.order = 2});
      for (const Tensor& t : x) tape.watch(t);
      const Tensor y = row.call(x);
      const Tensor dy = copy_as(spec::draw_cotangent(y, 7), y.dtype());
      const auto first = tape.gradient({y}, x, {to(dy, device)}, Keep::yes);
      std::vector<Tensor> by;
      for (const Tensor& dx : first) by.push_back(to(spec::draw_cotangent(dx, 8), device));
      return tape.gradient(first, x, by);
    };
    const auto want = derive(Device::cpu), got = derive(Device::cuda);
    for (size_t i = 0; i < want.size(); ++i) {
      CHECK(got[i].device() == Device::cuda);
      CHECK(spec::distance(got[i].values(), want[i].values(), 0.1) <= 1e-11);
    }
  }
}

TEST_CASE("a tensor that moves to the device and back has its gradient where it came from") {
  if (!has_gpu()) return;
  Tape tape;
  const Tensor x = tape.watch(tensor({1, -2, 3}, DType::float64));
  const Tensor y = to(square(to(x, Device::cuda)), Device::cpu);
  CHECK(std::string(tape.info(0).op) == "to");
  const Tensor dx = tape.gradient({y}, {x}, {tensor({1, 10, 100}, DType::float64)})[0];
  CHECK(dx.device() == Device::cpu);
  CHECK(dx.values() == std::vector<double>{2, -40, 600});
}

TEST_CASE("a small network learns on the device as on the CPU") {
  if (!has_gpu()) return;
  Generator g(6);
  const Tensor x = randn({8, 6}, DType::float64, Device::cpu, 0, 1, g),
               w1 = randn({6, 9}, DType::float64, Device::cpu, 0, 1, g),
               w2 = randn({9, 4}, DType::float64, Device::cpu, 0, 1, g),
               dy = randn({8, 4}, DType::float64, Device::cpu, 0, 1, g);
  const spec::Call network = [](const std::vector<Tensor>& t) {
    return softmax(matmul(gelu(matmul(t[0], t[1])), t[2]));
  };
  check_near(run(network, {x, w1, w2}, dy, Device::cuda, DType::float64),
             run(network, {x, w1, w2}, dy, Device::cpu, DType::float64), 1e-12);
}

TEST_CASE("what the device cannot do is told") {
  if (!has_gpu()) return;
  const Tensor x = zeros({2, 2}, DType::float32, Device::cuda);
  CHECK_THROWS_WITH(x + zeros({2, 2}), doctest::Contains("different devices, cuda:0 and cpu"));
  const Tensor one = zeros({1}, DType::float32, Device::cuda);
  CHECK_THROWS_WITH(VITRINE_RUN(without_twin, one), doctest::Contains("there is no kernel for cuda:0 yet"));
  CHECK_THROWS_WITH(empty({1}, DType::float32, Device{DeviceKind::cuda, 9}), doctest::Contains("cuda:9"));
}
