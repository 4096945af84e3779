#include "nn/check_gradients.h"

#include <doctest/doctest.h>

#include "core/creation.h"
#include "core/record.h"
#include "nn/models/gpt.h"
#include "nn/transformer/stack.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/nn/models/tiny_gpt.h"
#include "tests/ops/reference.h"

using namespace vitrine;

namespace {

/// x·wᵀ with a wrong gradient of w.
struct Wrong : nn::Module {
  Tensor forward(const Tensor& x) const {
    const Tensor y = matmul(x, weight.value());
    return record("wrong", {y, weight}, y + 0.0, [](const Tensor& dy) -> Grads {
      return {dy, ones({3, 2}, DType::float64)};
    });
  }
  void fields(nn::Fields& f) override { f("weight", weight); }
  Parameter weight{test::normal({3, 2}, 5)};
};

}  // namespace

TEST_CASE("the gradients of a module's inputs and of each of its parameters are checked, by name") {
  nn::Linear layer(3, 2);
  layer.to(DType::float64);
  const auto before = layer.weight.value().values();
  const GradientReport report = nn::check_gradients(layer, {test::normal({4, 3}, 1)}, {.order = 2});
  CHECK_MESSAGE(report.passed, to_string(report));
  REQUIRE(report.inputs.size() == 3);
  CHECK(report.inputs[0].name == "input 0");
  CHECK(report.inputs[1].name == "weight");
  CHECK(report.inputs[2].name == "bias");
  for (const auto& input : report.inputs) {
    CHECK(input.used);
    CHECK(input.dual_error >= 0);
    CHECK(input.higher_errors.size() == 1);
  }
  CHECK(to_string(report).find("  weight   float64[2, 3]") != std::string::npos);
  CHECK(layer.weight.value().values() == before);  // as it was
  CHECK(layer.weight.requires_grad());
  CHECK(!layer.weight.grad().defined());
}

TEST_CASE("a wrong gradient of a parameter is found and named") {
  Wrong module;
  const GradientReport report = nn::check_gradients(module, {test::normal({4, 3}, 1)});
  CHECK(!report.passed);
  CHECK(report.inputs[0].passed);
  CHECK(!report.inputs[1].passed);
  CHECK_MESSAGE(report.explanation.find("the gradient of weight") == 0, report.explanation);
}

TEST_CASE("float32 parameters are undecided, and the message names the cure") {
  nn::Linear layer(3, 2);
  const GradientReport report =
      nn::check_gradients(layer, {copy_as(test::normal({4, 3}, 1), DType::float32)});
  CHECK(report.cause == Cause::low_precision);
  CHECK_MESSAGE(report.explanation.find("module.to(DType::float64)") != std::string::npos,
                report.explanation);
}

TEST_CASE("a parameter that is given as an input, though the function captures it, is told what to do") {
  nn::Linear layer(3, 2);
  layer.to(DType::float64);
  const Tensor x = test::normal({4, 3}, 1);
  const auto forward = [&](const std::vector<Tensor>&) { return layer.forward(x); };
  GradientReport report = check_gradients(forward, {layer.weight});
  CHECK(report.inputs[0].used == false);  // no change of the argument changes y
  report =
      check_gradients([&](const auto& v) { return layer.forward(x) + detach(sum(v[0])); }, {layer.weight});
  CHECK(report.cause == Cause::cut);
  CHECK_MESSAGE(report.explanation.find("GradientCheckOptions::parameters") != std::string::npos,
                report.explanation);
  report = check_gradients(forward, {}, {.parameters = layer.parameters()});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK(report.inputs.size() == 2);
}

TEST_CASE("a frozen parameter and integer inputs are constants; a parameter alone is enough") {
  nn::Embedding table(5, 2);
  table.to(DType::float64);
  const Tensor ids = index_tensor(std::vector<int64_t>{1, 4, 1}, {3});
  const GradientReport report = nn::check_gradients(table, {ids});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK(report.inputs.size() == 1);
  CHECK_THROWS_WITH(nn::check_gradients(table, {ids, ids}), doctest::Contains("no forward of 2 tensors"));
  table.weight.requires_grad(false);
  CHECK_THROWS_WITH(nn::check_gradients(table, {ids}),
                    doctest::Contains("no parameters that require a gradient"));
}

TEST_CASE("a whole model is checked through its loss, tied weights once") {
  nn::Gpt model(test::tiny_gpt());
  model.to(DType::float64);
  const Tensor ids = test::ids(1, 4), targets = test::ids(1, 4);
  const GradientReport report = nn::check_gradients(
      model, [&](const std::vector<Tensor>& x) { return cross_entropy(model.forward(x[0]), targets); }, {ids},
      {.probe = Probe::directions});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK(report.inputs.size() == model.parameters().size());
  CHECK(report.inputs[0].name == "tokens.weight");
}

TEST_CASE("gradients of parameters are exact on dual numbers, also where x is a constant") {
  const Tensor x = test::normal({2, 4, 8}, 1), w = test::normal({8}, 2), b = test::normal({8}, 3);
  const auto check = [](const std::function<Tensor(const std::vector<Tensor>&)>& f,
                        const std::vector<Tensor>& in) {
    const GradientReport report = check_gradients(f, in, {.duals = Duals::yes});
    CHECK_MESSAGE(report.passed, to_string(report));
  };
  check([&](const auto& in) { return layer_norm(x, in[0], in[1]); }, {w, b});
  check([&](const auto& in) { return rms_norm(x, in[0]); }, {w});
  check([&](const auto& in) { return cast(in[0] * x, DType::float64); }, {w});
}

TEST_CASE("gradients of blocks that are computed again, and of reversible blocks, pass the check") {
  for (const bool reversible : {false, true}) {
    nn::StackOptions options{.block = {.mixer = {.width = 4, .heads = 2, .context = 4}}, .layers = 2};
    (reversible ? options.reversible : options.recompute_blocks) = true;
    nn::Decoder decoder(options);
    decoder.to(DType::float64);
    const GradientReport report = nn::check_gradients(decoder, {test::normal({1, 3, 4}, 1)});
    CHECK_MESSAGE(report.passed, to_string(report));
  }
}
