#include "tests/truth_cases.h"

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/files/safetensors.h"
#include "core/tape.h"
#include "ops/view.h"
#include "tests/spec/spec.h"

namespace vitrine::test {
namespace {

/// What a manifest says of a case that is not mathematics.
Json mathematics_of(Json params) {
  for (const char* remark : {"convention", "exact_only"}) params.erase(remark);
  return params;
}

std::optional<Float32Drift> drift_of(const Json& c) {
  const Json drifts = c.value("float32_drift", Json());
  if (!drifts.is_object()) return std::nullopt;
  const Settings drift(drifts);
  return Float32Drift{drift.value("output", 0.0), drift.value("gradient", 0.0)};
}

struct Result {
  std::vector<Tensor> ys;
  std::vector<Tensor> gradients;
};

constexpr double kGradientFloor = 0.1;

/// The adapter in `dtype` on the inputs of the case, rounded to `rounded` before.
Result evaluate(const TruthCase& c, const TruthAdapter& adapter, DType dtype, DType rounded, Device device) {
  const auto as = [=](const Tensor& x) {
    return to(is_floating(x.dtype()) ? copy_as(copy_as(x, rounded), dtype) : x, device);
  };
  Tensors given;
  for (const std::string& name : c.inputs) given[name] = as(c.tensors.at("in." + name));
  Tape tape;
  std::vector<Tensor> xs;
  for (const std::string& name : c.gradients) xs.push_back(tape.watch(given.at(name)));
  const Inputs inputs(given);
  std::vector<Tensor> ys = adapter(c.params, inputs);
  c.params.check_all_read(c.op);
  inputs.check_all_read(c.op);
  check(ys.size() == c.outputs.size(), "the case has {} outputs, of which the adapter of {} makes {}",
        c.outputs.size(), c.op, ys.size());
  for (size_t i = 0; i < ys.size(); ++i) {
    const Shape wanted = c.tensors.at("out." + c.outputs[i]).shape();
    // A number may have any rank
    if (ys[i].numel() == 1 && numel(wanted) == 1) ys[i] = reshape(ys[i], wanted);
    if (i == 0 && ys[i].shape() != wanted) return {ys, {}};
  }
  if (xs.empty()) return {ys, {}};
  return {ys, tape.gradient({ys[0]}, xs, {as(c.tensors.at("cot." + c.outputs[0]))})};
}

void compare(const TruthCase& c, const Result& got, const Result& want, double y_tolerance,
             double dx_tolerance, double dx_floor) {
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const Tensor &y = got.ys[i], &wanted = want.ys[i];
    check(y.shape() == wanted.shape(), "the output {} is {}, wanted {}", c.outputs[i], y.shape(),
          wanted.shape());
    const double error = spec::distance(y.values(), wanted.values(), 1e-3);
    check(error <= (is_floating(wanted.dtype()) ? y_tolerance : 0), "the output {} is off by {:.2e}",
          c.outputs[i], error);
  }
  for (size_t i = 0; i < c.gradients.size(); ++i) {
    const double off = spec::distance(got.gradients[i].values(), want.gradients[i].values(), dx_floor);
    check(off <= dx_tolerance, "the gradient of {} is off by {:.2e}", c.gradients[i], off);
  }
}

}  // namespace

TruthCase read_truth_case(const Json& entry, const std::filesystem::path& folder) {
  TruthCase t;
  t.name = entry.at("name"), t.op = entry.at("op"), t.params = Settings(mathematics_of(entry.at("params")));
  t.inputs = entry.at("inputs"), t.outputs = entry.at("outputs"), t.gradients = entry.at("gradients");
  t.float32_drift = drift_of(entry);
  t.tensors = read_safetensors((folder / entry.at("file").get<std::string>()).string()).tensors;
  return t;
}

void check_truth(const TruthCase& c, const TruthAdapter& adapter, Device device) {
  Result want;
  for (const std::string& name : c.outputs) want.ys.push_back(c.tensors.at("out." + name));
  for (const std::string& name : c.gradients) want.gradients.push_back(c.tensors.at("grad." + name));
  compare(c, evaluate(c, adapter, DType::float64, DType::float64, device), want, 1e-9, 1e-9, kGradientFloor);
}

void check_float32(const TruthCase& c, const TruthAdapter& adapter, Device device) {
  if (!c.float32_drift) return;
  // Of values more than 60 apart a GPU keeps o, whose unit in the last place is a relative error of
  // its exponential.
  const auto tolerance = [&](double drift) { return (device.is_cpu() ? 1 : 8) * std::max(2e-6, 10 * drift); };
  try {
    const Result want = evaluate(c, adapter, DType::float64, DType::float32, Device::cpu);
    // A gradient that is 0 because large terms cancel has the rounding errors of these terms: such
    // is the gradient of a bias before a batch norm.
    double largest = 1;
    for (const Tensor& dx : want.gradients)
      for (const double value : dx.values()) largest = std::max(largest, std::abs(value));
    compare(c, evaluate(c, adapter, DType::float32, DType::float32, device), want,
            tolerance(c.float32_drift->output), tolerance(c.float32_drift->gradient),
            kGradientFloor * largest);
  } catch (const std::exception& e) {
    fail("in float32: {}", e.what());
  }
}

}  // namespace vitrine::test
