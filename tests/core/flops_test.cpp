// The counter of floating-point operations, against counts by hand.
#include "core/flops.h"

#include <doctest/doctest.h>

#include <functional>
#include <thread>

#include "core/creation.h"
#include "core/gpu/gpu.h"
#include "core/profiler.h"
#include "core/tape.h"
#include "nn/layers/linear.h"
#include "nn/models/gpt.h"
#include "nn/training/trainer.h"
#include "ops/attention.h"
#include "ops/convolution.h"
#include "ops/elementwise.h"
#include "ops/linear_scan.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "tests/nn/training/tiny.h"

using namespace vitrine;

namespace {

double flops_of(const std::function<void()>& computation) {
  const FlopCounter counter;
  computation();
  return counter.total();
}

/// Ones that need a gradient.
Tensor leaf(const Shape& shape, Device device = Device::cpu) {
  Tensor x = ones(shape, DType::float32, device);
  x.requires_grad(true);
  return x;
}

/// Of y = f(), and of the backward of its sum.
std::pair<double, double> both_ways(const std::function<Tensor()>& f) {
  Tape tape;
  Tensor y;
  const double forward = flops_of([&] { y = sum(f()); });
  return {forward, flops_of([&] { tape.backward(y); })};
}

/// Of one training step of a Gpt with T tokens per row, B rows.
double hand_count(const nn::GptOptions& o, int64_t B, int64_t T) {
  const auto C = static_cast<double>(o.width), V = static_cast<double>(o.vocabulary),
             L = static_cast<double>(o.layers), rows = static_cast<double>(B), time = static_cast<double>(T);
  // query, key, value and output are 4·C·C weights, the feed-forward part 2·C·4C; the logits V·C
  const double weights = L * 12 * C * C + V * C;
  const double pairs = time * (time + 1) / 2;  // that causality leaves
  // Forward: a score and a weighted value of each pair and channel. Backward: five such products.
  const double attention = L * rows * pairs * C * 2;
  return 3 * 2 * weights * rows * time + (2 + 5) * attention;
}

}  // namespace

TEST_CASE("a product of matrices is 2·m·k·n operations, for each matrix of a batch") {
  CHECK(flops_of([] { matmul(ones({3, 5}), ones({5, 7})); }) == 2 * 3 * 5 * 7);
  CHECK(flops_of([] { matmul(ones({4, 1, 3, 5}), ones({2, 5, 7})); }) == 8 * 2 * 3 * 5 * 7);
  CHECK(flops_of([] { matmul(ones({5}), ones({5})); }) == 2 * 5);
  CHECK(flops_of([] { matmul(ones({0, 5}), ones({5, 7})); }) == 0);
  CHECK(flops_of([] { sum(exp(ones({30})) * 2.0); }) == 0);  // elementwise and sums are not counted
}

TEST_CASE("a linear layer is 2·B·I·O operations, and its gradient twice as many") {
  const nn::Linear layer(5, 7);
  const auto [forward, backward] = both_ways([&] { return layer.forward(leaf({3, 5})); });
  CHECK(forward == 2 * 3 * 5 * 7);
  CHECK(backward == 2 * forward);
  const auto of_weights_alone = both_ways([&] { return layer.forward(ones({3, 5})); }).second;
  CHECK(of_weights_alone == forward);
}

TEST_CASE("attention counts the pairs that causality and a window leave") {
  const auto count = [](const AttentionOptions& o) {
    return both_ways([&] {
      return attention(leaf({2, 4, 6, 8}), leaf({2, 2, 6, 8}), leaf({2, 2, 6, 10}), o);
    });
  };
  const auto expected = [](double pairs) {
    const double one = 2 * 2 * 4 * pairs;
    return std::pair{one * (8 + 10), one * (3 * 8 + 2 * 10)};
  };
  AttentionOptions causal, window, first;
  causal.causal = true;
  first.causal = true, first.left = 1, first.first = 1;
  window.causal = true, window.left = 1;
  CHECK(count({}) == expected(36));
  CHECK(count(causal) == expected(21));
  CHECK(count(window) == expected(11));
  CHECK(count(first) == expected(11 + 6));  // every query computes its score for the first key
}

TEST_CASE("a convolution counts its windows, a scan the elements of its state") {
  const auto [forward, backward] = both_ways([] {
    return conv2d(leaf({2, 4, 5, 5}), leaf({6, 2, 3, 3}), {}, {.groups = 2});
  });
  CHECK(forward == 2 * (2 * 6 * 3 * 3) * (2 * 3 * 3));
  CHECK(backward == 2 * forward);
  const auto scan = both_ways([] {
    return linear_scan(leaf({2, 3, 7, 4}), ones({2, 3, 7, 4}), leaf({2, 3, 7, 5})).o;
  });
  CHECK(scan.first == 2 * 3 * 7 * 4 * (4 * 5));
  CHECK(scan.second == 2 * scan.first);
}

TEST_CASE("counters nest, are of their thread, and the profiler shows the same by op and module") {
  const FlopCounter outer;
  const Profiler profiler;
  const auto product = [] { matmul(ones({3, 5}), ones({5, 7})); };
  CHECK(flops_of([&] { product(), product(); }) == 2 * 210);
  product();
  std::thread(product).join();
  CHECK(outer.total() == 3 * 210);
  double by_op = 0, by_module = 0;
  for (const Profiler::Row& row : profiler.by_op()) by_op += row.name == "matmul" ? row.flops : 0;
  for (const Profiler::Row& row : profiler.by_module()) by_module += row.flops;
  CHECK(by_op == 4 * 210);
  CHECK(by_module == 4 * 210);
}

TEST_CASE("a step of a Gpt is what a hand counts, and 6·N·T within the share of attention") {
  nn::GptOptions o = test::tiny();
  for (const bool large : {false, true}) {
    if (large) o.width = 64, o.layers = 3, o.context = 16;
    manual_seed(1);
    nn::Gpt model(o);
    nn::training::Trainer trainer(test::text(model, test::counting(300), test::counting(60)),
                                  optim::constant(1e-3), test::quiet(2));
    trainer.run();
    const auto& flops = trainer.record().flops;
    CHECK(flops.y == std::vector(2, hand_count(o, 4, o.context)));
    const double rule = 6.0 * static_cast<double>(model.parameter_count() * 4 * o.context);
    // N has positions, norms and biases, which multiply nothing, and lacks attention
    if (large) CHECK(flops.y[0] == doctest::Approx(rule).epsilon(0.1));
  }
}

#if VITRINE_CUDA_KERNELS
TEST_CASE("a GPU counts what the CPU counts") {
  const auto count = [](Device device) {
    return both_ways([device] {
      const Tensor x = leaf({2, 2, 4, 8}, device);
      return matmul(attention(x, x, x), transpose(x));
    });
  };
  CHECK(count(Device::cuda) == count(Device::cpu));
  CHECK(count(Device::cpu).second > count(Device::cpu).first);
}
#endif
