// Steps that clip while they read the gradients, and steps from gradients in bfloat16: all rules.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/creation.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "optim/optimizers.h"
#include "tests/cuda/device.h"
#include "tests/optim/rules.h"

using namespace vitrine;

namespace {

// Accesses of traced kernels take time. Later steps make the same ones: that they read states of
// earlier steps is tested in cuda/optim/optimizers.
#ifdef VITRINE_KERNELS_TRACED
constexpr int kSteps = 1;
#else
constexpr int kSteps = 3;
#endif

std::vector<Device> devices() {
  std::vector<Device> all = {Device::cpu};
// Emulated kernels of optimizers take too long under ThreadSanitizer.
#if VITRINE_CUDA_KERNELS && !defined(VITRINE_THREADS_SANITIZED)
  if (test::has_gpu()) all.push_back(Device::cuda);
#endif
  return all;
}

std::vector<Parameter> parameters(Device device, DType dtype) {
  std::vector<Parameter> all;
  Generator g(3);
  // Several pieces on the CPU and several blocks on a GPU, whose emulator is slow, above all in the
  // products of matrices that some rules need.
  const bool cpu = device.is_cpu();
  for (const Shape& shape :
       {cpu ? Shape{129, 130} : Shape{9, 35}, {cpu ? 20001 : 9001}, {2, 3, 5}, {7}, {1}}) {
    all.emplace_back(randn(shape, DType::float32, Device::cpu, 0, 1, g));
    all.back().to(dtype);
    all.back().to(device);
  }
  return all;
}

/// Bits of masters and states after the steps. `step` gets the optimizer and the parameters,
/// whose gradients are bfloat16 numbers.
template <class Step>
std::vector<std::vector<double>> train(const test::MakeOptimizer& make, Device device, DType dtype,
                                       DType gradients, Step step) {
  std::vector<Parameter> all = parameters(device, dtype);
  const auto optimizer = make(all);
  Generator g(4);
  for (int i = 0; i < kSteps; ++i) {
    for (Parameter& p : all) {
      const Tensor grad = copy_as(randn(p.shape(), DType::float32, Device::cpu, 0, 1, g), DType::bfloat16);
      p.gradients_in(gradients);
      p.value().set_grad(to(copy_as(grad, gradients), device));
    }
    step(*optimizer, all);
  }
  std::vector<std::vector<double>> results;
  for (const Parameter& p : all) results.push_back(p.master().values());
  for (const auto& [name, state] : optimizer->state_dict()) results.push_back(state.values());
  return results;
}

void plain(optim::Optimizer& optimizer, const std::vector<Parameter>&) { optimizer.step(); }

/// A rule that is no kernel.
class Descent : public optim::Optimizer {
 public:
  explicit Descent(std::vector<Parameter> parameters) : Optimizer(std::move(parameters), {0.5, 0}) {}

 private:
  void update(ParameterBatch& batch, const optim::GroupOptions& o, int64_t) override {
    for (size_t i = 0; i < batch.x.size(); ++i) batch.x[i] = batch.x[i] - batch.g[i] * o.lr;
  }
  std::vector<StateSlot> slots(const Parameter&) const override { return {}; }
};

std::vector<std::pair<std::string, test::MakeOptimizer>> rules_to_step() {
  auto all = test::optimizer_rules({.lr = 0.01, .weight_decay = 0.1});
  all.emplace_back("no kernel", [](auto p) { return std::make_unique<Descent>(std::move(p)); });
  return all;
}

}  // namespace

TEST_CASE("a step that clips has the bits of a step after clip_gradients, and leaves the gradients") {
  for (const Device device : devices())
    for (const auto& rule : rules_to_step())
      for (const double most : {1.0, 1e6}) {
        INFO(rule.first, " on ", to_string(device), ", at most ", most);
        const auto want =
            train(rule.second, device, DType::bfloat16, DType::float32, [&](auto& o, const auto& all) {
              optim::clip_gradients(all, most);
              o.step();
            });
        const auto got =
            train(rule.second, device, DType::bfloat16, DType::float32, [&](auto& o, const auto& all) {
              const double before = optim::gradient_norm(all);
              const optim::ClipFactor clip = optim::clip_factor(all, most);
              o.step(clip);
              CHECK(clip.norm.item() == before);
              CHECK(clip.factor.item() == std::min(1.0, most / (before + 1e-6)));
              CHECK(optim::gradient_norm(all) == before);
            });
        CHECK(got == want);
      }
}

TEST_CASE("a step from bfloat16 gradients has the bits of a step from the same numbers in float32") {
  for (const Device device : devices())
    for (const auto& rule : rules_to_step()) {
      INFO(rule.first, " on ", to_string(device));
      CHECK(train(rule.second, device, DType::bfloat16, DType::bfloat16, plain) ==
            train(rule.second, device, DType::bfloat16, DType::float32, plain));
      const auto clipped = [](auto& o, const auto& all) { o.step(optim::clip_factor(all, 1)); };
      CHECK(train(rule.second, device, DType::bfloat16, DType::bfloat16, clipped) ==
            train(rule.second, device, DType::bfloat16, DType::float32, clipped));
    }
}

TEST_CASE("a bfloat16 model moves its master with the bits of a float32 model with the same gradients") {
  for (const Device device : devices())
    for (const auto& rule : rules_to_step()) {
      INFO(rule.first, " on ", to_string(device));
      CHECK(train(rule.second, device, DType::bfloat16, DType::float32, plain) ==
            train(rule.second, device, DType::float32, DType::float32, plain));
    }
}

TEST_CASE("steps in halves have the same bits on 1, 2, 3 and 7 threads") {
  const int before = threads();
  for (const auto& rule : rules_to_step()) {
    INFO(rule.first);
    set_threads(1);
    const auto want = train(rule.second, Device::cpu, DType::bfloat16, DType::bfloat16, plain);
    for (const int count : {2, 3, 7}) {
      set_threads(count);
      CHECK(train(rule.second, Device::cpu, DType::bfloat16, DType::bfloat16, plain) == want);
    }
  }
  set_threads(before);
}

TEST_CASE("gradients are added up in bfloat16 if asked for, also after freezing and cloning") {
  Parameter p(full({3}, 2.0));
  CHECK_THROWS_WITH(p.gradients_in(DType::bfloat16), doctest::Contains("of a parameter in float32"));
  p.to(DType::bfloat16);
  p.gradients_in(DType::bfloat16);
  p.requires_grad(false);
  p.requires_grad(true);
  for (Parameter x : {p, p.clone()}) {
    x.zero_grad();
    for (int i = 0; i < 2; ++i) {
      Tape tape;
      tape.backward(sum(x.value() * x.value()));
    }
    CHECK(x.grad().dtype() == DType::bfloat16);
    CHECK(x.grad().values() == std::vector<double>{8, 8, 8});
  }
  p.gradients_in(DType::float32);
  CHECK_FALSE(p.grad().defined());
  CHECK(p.gradient_dtype() == DType::float32);
}
