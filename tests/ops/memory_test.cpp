// The memory that the fused ops save: no matrix of probabilities, no attention weights, no copies
// of transposed operands.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/attention.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/view.h"
#include "tests/memory_use.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using test::memory_use;

namespace {

constexpr size_t kSmall =
    1 << 16;  // shapes, nodes of the tape, and whatever else does not grow with the tensors

size_t bytes(const Tensor& x) { return static_cast<size_t>(x.numel() * x.element_size()); }

}  // namespace

TEST_CASE("cross_entropy of bfloat16 logits keeps nothing of their size but its gradient") {
  const Tensor logits = test::normal({512, 50257}, 1, DType::bfloat16);
  Generator generator(2);
  const Tensor targets = randint(0, 50257, {512}, Device::cpu, generator);
  for (const double smoothing : {0.0, 0.1}) {
    const auto forward_and_backward = [&] {
      Tape tape;
      const Tensor x = tape.watch(logits);
      tape.gradient(cross_entropy(x, targets, {.label_smoothing = smoothing}), {x});
    };
    // The logits already exist. Probabilities in float32 would need twice the memory of the
    // gradient in addition.
    CHECK(memory_use(forward_and_backward).peak <= bytes(logits) + bytes(logits) / 20);
  }
}

TEST_CASE("attention takes memory as the sequence grows, not as its square") {
  constexpr int64_t kTime = 2048, kSize = 16;
  const Tensor q = test::normal({1, 2, kTime, kSize}, 1, DType::float32);
  const size_t scores = 2 * kTime * kTime * sizeof(float);
  for (const AttentionRead read : {AttentionRead::mean, AttentionRead::laser})
    for (const bool causal : {false, true}) {
      AttentionOptions o;
      o.read = read, o.causal = causal;
      const auto forward = [&] { attention(q, q, q, o); };
      const auto forward_and_backward = [&] {
        Tape tape;
        const Tensor x = tape.watch(q), y = attention(x, x, x, o);
        tape.gradient({y}, {x}, {y});
      };
      // y, LASER's sums, a number per query, tiles, and each thread's packed keys and values
      CHECK(memory_use(forward).peak <= 4 * bytes(q));
      CHECK(memory_use(forward_and_backward).peak <= 8 * bytes(q));  // and three gradients
      CHECK(8 * bytes(q) < scores / 8);
    }
}

TEST_CASE("a product of transposed operands takes no memory but its result's") {
  const Tensor x = test::normal({300, 500}, 1, DType::float32),
               y = test::normal({500, 400}, 1, DType::float32);
  const Tensor xt = transpose(contiguous(transpose(x))), yt = transpose(contiguous(transpose(y)));
  // Heads in the layout of a projection: [B, H, T, D] and [B, H, D, T].
  const Tensor q = permute(test::normal({2, 70, 4, 32}, 1, DType::float32), {0, 2, 1, 3}), kt = transpose(q);
  for (const auto& operands : {std::pair{x, y}, {x, yt}, {xt, y}, {xt, yt}, {q, kt}}) {
    Tensor z = matmul(operands.first, operands.second);
    // Threads keep their packing buffers; all buffers exist once each thread has taken a part.
    size_t peak = SIZE_MAX;
    for (int i = 0; i < 5; ++i) {
      const auto use = memory_use([&] { z = matmul(operands.first, operands.second); });
      CHECK(use.allocations == 1);
      peak = std::min(peak, use.peak);
    }
    CHECK(peak <= bytes(z) + kSmall);
  }
}
