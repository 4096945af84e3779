// Operators against the node cases of ONNX. Which function answers to which operator: tests/ops/onnx/*.cpp. What is not run,
// and why: tests/ops/onnx_cases_skips.txt.
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
        &kNormAdapters, &kLossAdapters, &kAttentionAdapters, &kOptimizerAdapters})
    all.insert(family->begin(), family->end());
  return all;
}

/// The line of the list by which a case is skipped, or "".
std::string skip_of(const OnnxCase& c, const std::map<std::string, std::string>& skips, bool has_adapter) {
  if (skips.count(c.name)) return c.name;
  if (!c.unknown_dtype.empty()) return "dtype " + c.unknown_dtype;
  if (has_adapter) return "";
  return skips.count(c.op) ? c.op : "group " + c.group;
}

}  // namespace

TEST_CASE("operators agree with the ONNX node cases, but for those that the list skips") {
  const auto skips = read_skips("tests/ops/onnx_cases_skips.txt");
  const OnnxAdapters adapters = all_adapters();
  std::set<std::string> used, ops;
  int run = 0;
  for (const OnnxCase& c : onnx_cases()) {
    INFO(c.name);
    ops.insert(c.op);
    const std::string skip = skip_of(c, skips, adapters.count(c.op) > 0);
    if (skip.empty()) {
      CHECK(check_onnx(c, adapters.at(c.op)) == "");
      ++run;
    } else {
      CHECK_MESSAGE(skips.count(skip), "the op ", c.op, " of ", c.name,
                    " is neither run nor skipped with a reason");
      used.insert(skip);
    }
  }
  if (!is_default_data_directory()) return;
  CHECK(run == 285);
  for (const auto& skip : skips)
    CHECK_MESSAGE(used.count(skip.first), "the list skips ", skip.first, ", which is not among the cases");
  for (const auto& adapter : adapters)
    CHECK_MESSAGE(ops.count(adapter.first), "there is an adapter for ", adapter.first,
                  ", which is not among the cases");
}
