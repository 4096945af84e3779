// A language model's head on the device: logits of a vocabulary that no tile divides, in 16 bits,
// and their cross-entropy.
#include <doctest/doctest.h>

#if VITRINE_CUDA_KERNELS

#include <string>

#include "core/gradcheck/differences.h"
#include "core/random.h"
#include "core/tape.h"
#include "cuda/matmul/steps.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/operands.h"
#include "ops/view.h"
#include "tests/cuda/device.h"

using namespace vitrine;
using test::has_gpu, test::kGpu;

namespace {

constexpr int64_t kBatch = 2, kTime = 9, kWidth = 64, kVocabulary = 1027;

/// Features, the matrix of the vocabulary, and targets.
struct Head {
  Tensor x, weight, targets;

  static Head draw(DType dtype) {
    Generator g(3);
    const auto normal = [&](const Shape& shape, double deviation) {
      return copy_as(randn(shape, DType::float64, Device::cpu, 0, deviation, g), dtype);
    };
    Head h{normal({kBatch, kTime, kWidth}, 1), normal({kVocabulary, kWidth}, 0.2),
           randint(0, kVocabulary, {kBatch, kTime}, Device::cpu, g)};
    h.targets.data<int64_t>()[4] = -100;  // ignored
    return h;
  }
  Head on(Device device, DType dtype) const {
    const auto moved = [&](const Tensor& t) { return to(copy_as(t, dtype), device); };
    return {moved(x), moved(weight), to(targets, device)};
  }
  /// Loss, dx and dweight in float64.
  std::vector<std::vector<double>> train(double smoothing) const {
    Tape tape;
    tape.watch(x), tape.watch(weight);
    const Tensor loss = cross_entropy(linear(x, weight), targets, {.label_smoothing = smoothing});
    const auto gradients = tape.gradient({loss}, {x, weight});
    return {loss.values(), gradients[0].values(), gradients[1].values()};
  }
};

}  // namespace

TEST_CASE(
    "long rows of 16 bits begin at multiples of 16 bytes, so that Hopper's step makes all products of a head") {
  if (!has_gpu()) return;
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    const Head h = Head::draw(dtype).on(kGpu, dtype);
    const Tensor rows = flatten(h.x, 0, 1);
    Tensor logits = flatten(linear(h.x, h.weight), 0, 1),
           dlogits = empty_rows("empty", logits.shape(), dtype, kGpu), dx = empty(rows.shape(), dtype, kGpu),
           dweight = empty(h.weight.shape(), dtype, kGpu);
    CHECK(logits.strides() == Strides{1032, 1});
    CHECK(dlogits.strides() == Strides{1032, 1});
    const auto step = [](Tensor& z, const Tensor& x, const Tensor& y) {
      return cuda::choose_matmul("hopper", cuda::product_of(z, x, y, {}, false)).name;
    };
    const std::string_view best =
        cuda::choose_matmul("hopper",
                            cuda::product_of(dx, rows, empty({kWidth, kWidth}, dtype, kGpu), {}, false))
            .name;
    CHECK(step(logits, rows, transpose(h.weight)) == best);
    CHECK(step(dx, dlogits, h.weight) == best);
    CHECK(step(dweight, transpose(dlogits), rows) == best);
    Tensor packed_logits = empty(logits.shape(), dtype, kGpu);
    if (best == "hopper") CHECK(step(dx, packed_logits, h.weight) != best);
  }
  const Head wide = Head::draw(DType::float32).on(kGpu, DType::float32);
  CHECK(linear(wide.x, wide.weight).is_contiguous());
  CHECK(empty_rows("empty", {3, 1000}, DType::bfloat16, kGpu).is_contiguous());
  CHECK(empty_rows("empty", {3, 1027}, DType::bfloat16, Device::cpu).is_contiguous());
}

TEST_CASE("the loss and gradients of a head whose rows lie apart are those of float64") {
  if (!has_gpu()) return;
  for (const DType dtype : {DType::bfloat16, DType::float16, DType::float32})
    for (const double smoothing : {0.0, 0.1}) {
      INFO(name(dtype), " ", smoothing);
      const Head drawn = Head::draw(dtype);
      const auto got = drawn.on(kGpu, dtype).train(smoothing);
      const auto want = drawn.on(Device::cpu, DType::float64).train(smoothing);
      for (size_t i = 0; i < want.size(); ++i) CHECK(distance(got[i], want[i], 1e-2) <= 16 * epsilon(dtype));
      test::in_any_order([&] { CHECK(drawn.on(kGpu, dtype).train(smoothing) == got); });
    }
}

TEST_CASE("rows as they lie: even ones are seen as they are, others are copied") {
  const Tensor x = reshape(arange(0, 120), {2, 3, 4, 5});
  const auto is_view = [](const Tensor& t) {
    const Tensor rows = in_rows(t);
    CHECK(rows.shape() == Shape{t.numel() / t.size(-1), t.size(-1)});
    CHECK(rows.values() == t.values());
    return rows.shared_storage() == t.shared_storage();
  };
  CHECK(is_view(x));
  CHECK(is_view(slice(x, 3, 1, 4)));              // every row without its ends
  CHECK(is_view(slice(x, 2, 0, 1)));              // every fourth row
  CHECK(is_view(select(select(x, 0, 1), 0, 2)));  // one matrix
  CHECK(is_view(select(select(select(x, 0, 1), 0, 2), 0, 3)));
  CHECK(!is_view(slice(x, 2, 0, 2)));  // rows at two distances
  CHECK(!is_view(transpose(x)));
  CHECK(!is_view(expand(select(x, 0, 0), {2, 3, 4, 5})));
  CHECK(in_rows(zeros({3, 0})).shape() == Shape{3, 0});
  CHECK(in_rows(zeros({0, 3})).shape() == Shape{0, 3});
}

#endif
