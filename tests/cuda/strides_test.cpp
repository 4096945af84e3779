// The CUDA twins with operands of any strides, for each spec row.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/creation.h"
#include "core/gpu/stream.h"
#include "core/random.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/view.h"
#include "tests/cuda/device.h"
#include "tests/dtype_of_row.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using test::has_gpu;

TEST_CASE("every spec row on the device: expanded, flipped, transposed, sliced and overlapping operands") {
  if (!has_gpu()) return;
  // The emulator runs this stream's work late: nothing may be read without waiting.
  const Stream stream(Device::cuda);
  const StreamScope scope(stream);
  size_t turn = 0;
  for (const spec::Spec& row : spec::rows())
    for (size_t sample = 0; sample < std::min(row.samples.size(), test::samples_of_each_row()); ++sample) {
      INFO(row.name, ", sample ", sample);
      const std::string error =
          spec::check_layouts(row, sample, Device::cuda, test::dtype_of_row(row, turn++));
      CHECK_MESSAGE(error.empty(), error);
    }
}

TEST_CASE("any strides: transposed, expanded and sliced operands") {
  if (!has_gpu()) return;
  Generator g(4);
  const Tensor a = randn({5, 7}, DType::float32, Device::cpu, 0, 1, g),
               b = randn({7}, DType::float32, Device::cpu, 0, 1, g);
  const Tensor on_a = to(a, Device::cuda), on_b = to(b, Device::cuda);
  CHECK((transpose(on_a) * 2).values() == (transpose(a) * 2).values());
  CHECK((on_a + on_b).values() == (a + b).values());
  CHECK(exp(slice(on_a, 1, 2, 5)).numel() == 15);
  CHECK(spec::distance(matmul(transpose(on_a), slice(on_a, 1, 0, 3)).values(),
                       matmul(transpose(a), slice(a, 1, 0, 3)).values(), 1e-3) <= 1e-6);
  const Tensor batch = randn({2, 3, 5}, DType::float32, Device::cpu, 0, 1, g);
  CHECK(spec::distance(matmul(to(batch, Device::cuda), on_a).values(), matmul(batch, a).values(), 1e-3) <=
        1e-6);
}
