// Every optimizer on the device against the CPU, with more parameters than one table holds, and
// sizes around a block's piece.
#include <doctest/doctest.h>

#if VITRINE_CUDA_KERNELS

#include <cmath>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "core/tensor_kernels.h"
#include "ops/elementwise.h"
#include "ops/view.h"
#include "optim/by_name.h"
#include "optim/optimizers.h"
#include "tests/cuda/device.h"
#include "tests/optim/rules.h"
#include "tests/spec/spec.h"

#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/counts.h"
#endif

using namespace vitrine;
using test::has_gpu, test::in_any_order;

namespace {

// Traced kernels are slow, so that one parameter alone is longer than a block's piece of 8192
// elements.
#ifdef VITRINE_KERNELS_TRACED
const Shape kSmallMatrix = {9, 35};
const std::vector<int64_t> kLong = {8193};
const Shape kMatrix = {35, 70};
constexpr int kSteps = 2;
#else
const Shape kSmallMatrix = {35, 70};
const std::vector<int64_t> kLong = {8191, 8192, 8193, 20000};
const Shape kMatrix = {130, 257};
constexpr int kSteps = 3;
#endif

/// 90 small parameters, a few long ones and matrices, of two dtypes; their gradients are set by the
/// caller.
std::vector<Parameter> parameters(Device device, bool mixed, const Shape& matrix = kMatrix) {
  std::vector<Shape> shapes;
  for (int64_t i = 0; i < 90; ++i) shapes.push_back({1 + i % 7});
  for (const int64_t n : kLong) shapes.push_back({n});
  for (const Shape& shape : {matrix, {2, 3, 5}, {129, 1}, {1, 300}, {0, 4}}) shapes.push_back(shape);
  std::vector<Parameter> result;
  Generator g(3);
  for (size_t i = 0; i < shapes.size(); ++i) {
    result.emplace_back(
        randn(shapes[i], i % 5 == 0 && !mixed ? DType::float64 : DType::float32, Device::cpu, 0, 1, g));
    if (mixed) result.back().to(DType::bfloat16);
    result.back().to(device);
  }
  return result;
}

/// The parameters, their copies and all states after the steps.
std::vector<Tensor> train(
    const std::function<std::unique_ptr<optim::Optimizer>(std::vector<Parameter>)>& make, Device device,
    bool mixed, const Shape& matrix) {
  auto all = parameters(device, mixed, matrix);
  const auto optimizer = make(all);
  Generator g(4);
  for (int step = 0; step < kSteps; ++step) {
    for (Parameter& p : all)
      p.master().set_grad(to(randn(p.shape(), p.master().dtype(), Device::cpu, 0, 1, g), device));
    optimizer->step();
  }
  std::vector<Tensor> results;
  for (const Parameter& p : all) {
    results.push_back(p.master());
    results.push_back(p.value());
  }
  for (const auto& [name, value] : optimizer->state_dict()) results.push_back(value);
  return results;
}

}  // namespace

TEST_CASE("the first steps of every optimizer") {
  if (!has_gpu()) return;
  size_t turn = 0;
  for (const auto& rule : test::optimizer_rules({.lr = 0.01, .weight_decay = 0.1})) {
    ++turn;
    for (const bool mixed : {false, true}) {
      if (!test::all_samples() && mixed != (turn % 2 == 0)) continue;
      const auto& name = rule.first;
      const auto& make = rule.second;
      INFO(name, mixed ? " with bfloat16 copies" : "");
      // These rules multiply matrices, in which the emulator is slow.
      const Shape& matrix = name.starts_with("muon") || name.starts_with("shampoo") ? kSmallMatrix : kMatrix;
      const auto want = train(make, Device::cpu, mixed, matrix),
                 got = train(make, Device::cuda, mixed, matrix);
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        REQUIRE(got[i].dtype() == want[i].dtype());
        // Muon's products of matrices raise small singular values.
        const double limit = name.starts_with("muon") ? 1e4 : 4;
        CHECK(spec::distance(got[i].values(), want[i].values(), 1e-3) <= limit * epsilon(want[i].dtype()));
      }
      // The threads of these rules wait for each other
      if (name != "lamb" && !name.starts_with("adafactor")) continue;
      in_any_order([&] {
        const auto again = train(make, Device::cuda, mixed, matrix);
        for (size_t i = 0; i < want.size(); ++i) CHECK(again[i].values() == got[i].values());
      });
    }
  }
}

TEST_CASE("gradients whose squares overflow or vanish, and parameters whose gradients begin late") {
  if (!has_gpu()) return;
  for (const auto& rule : test::optimizer_rules())
    for (const double size : {1e38, 1e-30}) {
      INFO(rule.first, ", ", size);
      const auto train = [&](Device device) {
        std::vector<Parameter> all;
        Generator g(6);
        for (const Shape& shape : {Shape{33, 70}, {300}, {5, 3}})
          all.emplace_back(to(randn(shape, DType::float32, Device::cpu, 0, 1, g), device));
        const auto optimizer = rule.second(all);
        for (int step = 0; step < kSteps; ++step) {
          for (Parameter& p : all)
            if (step > 0 || p.shape().rank() == 1) {
              const Tensor gradient = randn(p.shape(), DType::float32, Device::cpu, 0, 1, g) * size;
              p.master().set_grad(to(clamp(gradient, -3e38, 3e38), device));
            }
          optimizer->step();
        }
        std::vector<double> results;
        for (const Parameter& p : all)
          for (const double x : p.master().values()) results.push_back(x);
        return results;
      };
      const auto want = train(Device::cpu), got = train(Device::cuda);
      if (rule.first.starts_with("sgd") && size > 1) continue;  // overflows
      CHECK(spec::distance(got, want, 1e-3) <= 1e-5);
    }
}

#if VITRINE_CUDA_EMULATED
TEST_CASE(
    "a step updates all parameters of a group and their 16-bit copies by one launch, Lamb's by three and Adafactor's by "
    "five") {
  const std::map<std::string, uint64_t> more = {{"lamb", 3}, {"adafactor", 5}};
  for (const optim::OptimizerRow* row : optim::optimizer_table(false))
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
      INFO(row->name, " in ", name(dtype));
      // The matrices of these rules have products of their own, in which the emulator is slow.
      const bool multiplies = row->name == "muon" || row->name == "shampoo";
      std::vector<Parameter> all;
      for (int64_t i = 0; i < (multiplies ? 2 : 20); ++i) {
        all.emplace_back(full({3, 1 + i}, 0.5, DType::float32, Device::cuda));
        all.back().to(dtype);
      }
      const auto optimizer = row->make(all, {.lr = 0.01});
      const auto set_gradients = [&] {
        for (Parameter& p : all) p.master().set_grad(full_like(p.master(), 0.25));
      };
      set_gradients();
      test::give_estimates(*optimizer, all);
      optimizer->step();  // makes the states
      set_gradients();
      emulator::count_kernels(true);
      optimizer->step();
      uint64_t launches = 0;
      for (const auto& [kernel, counts] : emulator::kernel_counts()) launches += counts.launches;
      emulator::count_kernels(false);
      if (!multiplies) CHECK(launches == (more.count(row->name) > 0 ? more.at(row->name) : 1));
      for (const Parameter& p : all) CHECK(p.value().values() == test::copy_of(p).values());
    }
}
#endif

TEST_CASE("16-bit copies follow their masters, also of both kinds and beside parameters that have none") {
  if (!has_gpu()) return;
  for (const Device device : {Device::cpu, Device::cuda})
    for (const char* rule : {"sgd", "adam", "lamb", "adafactor"}) {
      INFO(to_string(device), ", ", std::string(rule));
      auto all = parameters(device, true);
      for (size_t i = 0; i < all.size(); i += 2) all[i].to(i % 4 == 0 ? DType::float16 : DType::float32);
      for (const Parameter& p : all) p.master().set_grad(full_like(p.master(), 0.3));
      const Parameter& untouched = all[3];
      untouched.zero_grad();
      const auto before = untouched.value().values();
      Tensor master = untouched.master();
      VITRINE_RUN(fill, master, 7.0);
      const auto moved = all[0].value().values();
      optim::make_optimizer(rule, all, {.lr = 0.5})->step();
      for (size_t i = 0; i < all.size(); ++i)
        if (i != 3) CHECK(all[i].value().values() == test::copy_of(all[i]).values());
      CHECK(untouched.value().values() == before);
      CHECK(all[0].value().values() != moved);
    }
}

TEST_CASE("the norm of all gradients, and clipping") {
  if (!has_gpu()) return;
  const auto clip = [](Device device) {
    auto all = parameters(device, false);
    for (Parameter& p : all) p.master().set_grad(copy_as(p.master(), p.master().dtype()));
    std::vector<double> results = {optim::clip_gradients(all, 100).item(), optim::gradient_norm(all)};
    for (const Parameter& p : all)
      for (const double g : p.grad().values()) results.push_back(g);
    return results;
  };
  const auto want = clip(Device::cpu), got = clip(Device::cuda);
  double squares = 0;
  for (const Parameter& p : parameters(Device::cpu, false))
    for (const double x : p.master().values()) squares += x * x;
  CHECK(got[0] == doctest::Approx(std::sqrt(squares)).epsilon(1e-12));
  CHECK(got[1] == doctest::Approx(100).epsilon(1e-6));
  CHECK(spec::distance(got, want, 1e-3) <= 1e-6);
  in_any_order([&] { CHECK(clip(Device::cuda) == got); });
}

TEST_CASE("Adafactor, and gradients of any strides") {
  if (!has_gpu()) return;
  const auto train = [](Device device) {
    Generator g(5);
    Parameter matrix(to(randn({37, 50}, DType::float64, Device::cpu, 0, 1, g), device));
    Parameter vector(to(randn({300}, DType::float64, Device::cpu, 0, 1, g), device));
    optim::Adafactor optimizer({matrix, vector});
    for (int step = 0; step < 2; ++step) {
      Tensor strided = transpose(to(randn({50, 37}, DType::float64, Device::cpu, 0, 1, g), device));
      matrix.master().set_grad(std::move(strided));  // the only handle: moved, with its strides
      vector.master().set_grad(to(randn({300}, DType::float64, Device::cpu, 0, 1, g), device));
      optim::clip_gradients({matrix, vector}, 1);
      optimizer.step();
    }
    auto values = matrix.master().values();
    for (double v : vector.master().values()) values.push_back(v);
    return values;
  };
  CHECK(spec::distance(train(Device::cuda), train(Device::cpu), 1e-3) <= 1e-12);
}

#endif
