// Operators against the node cases of ONNX. tests/ops/onnx/*.cpp maps operators to functions;
// tests/ops/onnx_cases_skips.txt lists the cases that are not run, with reasons.
#include <doctest/doctest.h>

#include <set>

#include "tests/cases.h"
#include "tests/data.h"
#include "tests/ops/onnx/adapters.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

OnnxAdapters all_adapters() {
  OnnxAdapters all;
  for (const OnnxAdapters* family :
       {&kElementwiseAdapters, &kShapeAdapters, &kIndexAdapters, &kReductionAdapters, &kMatmulAdapters,
        &kNormAdapters, &kLossAdapters, &kAttentionAdapters, &kOptimizerAdapters, &kConvolutionAdapters,
        &kRecurrentAdapters})
    all.insert(family->begin(), family->end());
  return all;
}

/// True if the list skips the case: by its name, by a dtype that the library does not have or, if
/// there is no adapter, by its operator or group.
bool skips(CaseRunner& runner, const OnnxCase& c, bool has_adapter) {
  if (runner.skips(c.name)) return true;
  if (!c.unknown_dtype.empty() && runner.skips("dtype " + c.unknown_dtype)) return true;
  check(c.unknown_dtype.empty(), "the dtype {} is not known and not in the list of skips", c.unknown_dtype);
  return !has_adapter && (runner.skips(c.op) || runner.skips("group " + c.group));
}

}  // namespace

TEST_CASE("operators agree with the ONNX node cases, but for those that the list skips") {
  const auto folder = data_file("onnx_node_cases");
  if (!folder) return;
  CaseRunner runner("tests/ops/onnx_cases_skips.txt");
  const OnnxAdapters adapters = all_adapters();
  std::set<std::string> ops;
  const Json manifest = read_json(*folder / "manifest.json");
  runner.run(manifest.at("cases"), "case", [&](const Json& entry) {
    const OnnxCase c = read_onnx_case(entry, *folder);
    ops.insert(c.op);
    if (!skips(runner, c, adapters.count(c.op) > 0)) check_onnx(c, adapter_of(adapters, "operator", c.op));
  });
  CHECK(runner.failures() == "");
  if (manifest.at("cases").size() != 355) return;  // those of ONNX 1.22, which are known
  CHECK(runner.ran() == 324);
  CHECK(runner.unused_skips() == "");
  ops.insert("MeanVarianceNormalization");  // which ONNX defines by other operators
  for (const auto& adapter : adapters)
    CHECK_MESSAGE(ops.count(adapter.first), "there is an adapter for ", adapter.first,
                  ", which is not among the cases");
}
