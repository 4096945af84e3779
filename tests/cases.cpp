#include "tests/cases.h"

#include <cstdlib>
#include <fstream>
#include <set>

#include "core/creation.h"
#include "core/safetensors.h"
#include "core/tape.h"
#include "tests/data.h"
#include "tests/spec/spec.h"

namespace vitrine::test {
namespace {

std::vector<std::string> strings(const Json& list) { return list.get<std::vector<std::string>>(); }

/// What the plain formula loses in float32; 0 where it is not finite there, so that ours must do better.
double drift(const Json& c, const char* of) {
  const Json drifts = c.value("float32_drift", Json());
  const Json drift = drifts.is_object() ? drifts.value(of, Json()) : Json();
  return drift.is_number() ? drift.get<double>() : 0;
}

}  // namespace

std::vector<TruthCase> truth_cases() {
  const auto directory = data_directory();
  if (!directory) return {};
  const auto folder = *directory / "truth_cases";
  std::ifstream file(folder / "manifest.json");
  check(file.good(), "there is no {}", (folder / "manifest.json").string());
  std::vector<TruthCase> cases;
  const Json manifest = Json::parse(file);
  for (const Json& c : manifest.at("cases")) {
    TruthCase& t = cases.emplace_back();
    t.name = c.at("name"), t.op = c.at("op"), t.params = c.at("params");
    t.inputs = strings(c.at("inputs")), t.gradients = strings(c.at("gradients"));
    t.float32_output_drift = drift(c, "output"), t.float32_gradient_drift = drift(c, "gradient");
    t.tensors = read_safetensors((folder / c.at("file").get<std::string>()).string()).tensors;
  }
  return cases;
}

namespace {

struct Result {
  Tensor y;
  std::vector<Tensor> gradients;
};

/// f in `dtype` on the inputs of the case, rounded to `rounded` before.
Result evaluate(const TruthCase& c, const Function& f, DType dtype, DType rounded) {
  const auto as = [=](const Tensor& x) {
    return is_floating(x.dtype()) ? copy_as(copy_as(x, rounded), dtype) : x;
  };
  Tensors inputs;
  for (const std::string& name : c.inputs) inputs[name] = as(c.tensors.at("in." + name));
  Tape tape;
  std::vector<Tensor> xs;
  for (const std::string& name : c.gradients) xs.push_back(tape.watch(inputs.at(name)));
  const Tensor y = f(inputs);
  if (xs.empty() || y.shape() != c.tensors.at("out.o").shape()) return {y, {}};
  return {y, tape.gradient({y}, xs, {as(c.tensors.at("cot.o"))})};
}

std::string compare(const TruthCase& c, const Result& got, const Result& want, double y_tolerance,
                    double dx_tolerance) {
  if (got.y.shape() != want.y.shape())
    return fmt::format("{}: the output is {}, wanted {}", c.name, got.y.shape(), want.y.shape());
  const double error = spec::distance(got.y.values(), want.y.values(), 1e-3);
  if (!(error <= y_tolerance)) return fmt::format("{}: the output is off by {:.2e}", c.name, error);
  for (size_t i = 0; i < c.gradients.size(); ++i) {
    const double off = spec::distance(got.gradients[i].values(), want.gradients[i].values(), 0.1);
    if (!(off <= dx_tolerance))
      return fmt::format("{}: the gradient of {} is off by {:.2e}", c.name, c.gradients[i], off);
  }
  return "";
}

}  // namespace

std::string check_truth(const TruthCase& c, const Function& f) {
  Result want{c.tensors.at("out.o"), {}};
  for (const std::string& name : c.gradients) want.gradients.push_back(c.tensors.at("grad." + name));
  return compare(c, evaluate(c, f, DType::float64, DType::float64), want, 1e-9, 1e-9);
}

std::string check_float32(const TruthCase& c, const Function& f) {
  const auto tolerance = [](double drift) { return std::max(2e-6, 10 * drift); };
  return compare(c, evaluate(c, f, DType::float32, DType::float32),
                 evaluate(c, f, DType::float64, DType::float32), tolerance(c.float32_output_drift),
                 tolerance(c.float32_gradient_drift));
}

namespace {

/// The tensors of a case by slot.
std::vector<Tensor> by_slot(const Json& slots, const Tensors& tensors) {
  std::vector<Tensor> result;
  for (const Json& s : slots) {
    const size_t slot = s.at("slot");
    if (slot >= result.size()) result.resize(slot + 1);
    result[slot] = tensors.at(s.at("tensor"));
  }
  return result;
}

/// A dtype of the manifest that tensors do not have, or "".
std::string unknown_dtype(const Json& c) {
  const std::set<std::string> known = {"F64", "F32", "F16", "BF16", "I64", "I32", "BOOL"};
  for (const char* slots : {"inputs", "outputs"})
    for (const Json& s : c.at(slots))
      if (const std::string dtype = s.at("dtype"); !known.count(dtype)) return dtype;
  return "";
}

double onnx_tolerance(DType dtype) {
  if (is_low_precision(dtype)) return 2 * epsilon(dtype);
  return dtype == DType::float64 ? 1e-9 : 2e-6;
}

}  // namespace

std::vector<OnnxCase> onnx_cases() {
  const auto directory = data_directory();
  if (!directory) return {};
  const auto folder = *directory / "onnx_node_cases";
  std::ifstream file(folder / "manifest.json");
  check(file.good(), "there is no {}", (folder / "manifest.json").string());
  std::vector<OnnxCase> cases;
  const Json manifest = Json::parse(file);
  for (const Json& c : manifest.at("cases")) {
    OnnxCase& o = cases.emplace_back();
    o.name = c.at("case"), o.group = c.at("group"), o.op = c.at("op"), o.opset = c.at("opset");
    o.attributes = c.at("attributes");
    o.unknown_dtype = unknown_dtype(c);
    if (!o.unknown_dtype.empty()) continue;
    const Tensors tensors = read_safetensors((folder / c.at("file").get<std::string>()).string()).tensors;
    o.inputs = by_slot(c.at("inputs"), tensors), o.outputs = by_slot(c.at("outputs"), tensors);
  }
  return cases;
}

std::string check_onnx(const OnnxCase& c, const OnnxAdapter& adapter) {
  std::vector<Tensor> got;
  try {
    got = adapter(c);
  } catch (const std::exception& e) {
    return fmt::format("{}: {}", c.name, e.what());
  }
  for (size_t slot = 0; slot < c.outputs.size(); ++slot) {
    if (!c.wants(slot)) continue;
    const Tensor& want = c.outputs[slot];
    if (slot >= got.size() || !got[slot].defined())
      return fmt::format("{}: the adapter makes no output {}", c.name, slot);
    const Tensor& y = got[slot];
    if (y.shape() != want.shape() || y.dtype() != want.dtype())
      return fmt::format("{}: output {} is {}, wanted {}", c.name, slot, describe(y), describe(want));
    const double error = spec::distance(y.values(), want.values(), 1e-3);
    if (!(error <= (is_floating(y.dtype()) ? onnx_tolerance(y.dtype()) : 0)))
      return fmt::format("{}: output {} is off by {:.2e}", c.name, slot, error);
  }
  return "";
}

std::map<std::string, std::string> read_skips(const std::string& path) {
  std::ifstream file(std::string(VITRINE_SOURCE_DIR) + "/" + path);
  check(file.good(), "there is no {}", path);
  std::map<std::string, std::string> skips;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(": ");
    check(colon != std::string::npos && colon + 2 < line.size(),
          "{}: `{}` gives no reason: wanted `name: reason`", path, line);
    skips[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return skips;
}

bool has_default_cases() {
  const char* other = std::getenv("VITRINE_DATA");
  return data_directory().has_value() && (other == nullptr || *other == '\0');
}

}  // namespace vitrine::test
