// The functions of the library that compute the ops of the reference cases. Attention is in
// truth_cases_attention.cpp; mechanisms composed of several ops are in
// truth_cases_compositions.cpp.
#include "tests/nn/truth_adapters.h"

#include <doctest/doctest.h>

#include "nn/attention/positions.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"

namespace vitrine::test {
namespace {

Tensor activation(Params p, In x) {
  const std::map<std::string, Tensor (*)(const Tensor&)> kinds = {
      {"elu_plus_one", elu_plus_one}, {"gelu_erf", gelu}, {"gelu_tanh", gelu_tanh}, {"silu", silu}};
  const std::string kind = p.at("kind");
  check(kinds.count(kind) > 0, "the activation {} is not known", kind);
  return kinds.at(kind)(x.at("x"));
}

Tensor rope(Params p, In x) {
  nn::RotaryOptions o;
  o.base = p.value("base", o.base);
  o.size = p.value("rotary_dim", o.size);
  o.interleaved = p.value("interleaved", o.interleaved);
  return x.has("positions") ? nn::rotate(x.at("x"), x.at("positions"), o) : nn::rotate(x.at("x"), 0, o);
}

Tensor cross_entropy_mean(Params p, In x) {
  CrossEntropyOptions o;
  o.label_smoothing = p.value("smoothing", o.label_smoothing);
  o.ignore_index = p.value("ignore_index", o.ignore_index);
  return cross_entropy(x.at("logits"), x.at("target"), o);
}

}  // namespace

TruthAdapters truth_adapters() {
  TruthAdapters all = {
      {"activation", activation},
      {"alibi_slopes", [](Params p, In) { return nn::alibi_slopes(p.at("heads")); }},
      {"cross_entropy", cross_entropy_mean},
      {"ffn_relu",
       [](Params, In x) {
         return matmul(relu(matmul(x.at("x"), x.at("w1")) + x.at("b1")), x.at("w2")) + x.at("b2");
       }},
      {"layer_norm",
       [](Params p, In x) {
         return layer_norm(x.at("x"), x.get("gamma"), x.get("beta"), p.value("eps", 1e-5));
       }},
      {"rms_norm", [](Params p, In x) { return rms_norm(x.at("x"), x.get("gamma"), p.value("eps", 1e-5)); }},
      {"rope", rope},
      {"sinusoidal",
       [](Params p, In) {
         return nn::sinusoidal_positions(p.at("n"), p.at("d"), p.value("base", 1e4),
                                         p.value("offset", int64_t{0}), DType::float64);
       }},
      {"swiglu",
       [](Params, In x) {
         return matmul(silu(matmul(x.at("x"), x.at("w"))) * matmul(x.at("x"), x.at("v")), x.at("w2"));
       }},
  };
  for (const TruthAdapters* more :
       {&kAttentionTruthAdapters, &kBlockTruthAdapters, &kCompositionTruthAdapters,
        &kConvolutionTruthAdapters, &kCtcTruthAdapters, &kGenerationTruthAdapters, &kLinearTruthAdapters,
        &kRecurrentTruthAdapters, &kScanTruthAdapters, &kScoreTruthAdapters, &kViewTruthAdapters})
    all.insert(more->begin(), more->end());
  return all;
}

TruthRun run_truth_cases(const CaseFolder& folder, Device device) {
  TruthRun run{CaseRunner("tests/nn/truth_cases_skips.txt"), CaseRunner()};
  const TruthAdapters adapters = truth_adapters();
  const Json manifest = read_json(folder.path / "manifest.json");
  run.in_float64.run(manifest.at("cases"), "name", [&](const Json& entry) {
    if (run.in_float64.skips(entry.at("op"))) return;
    const TruthAdapter& adapter = adapter_of(adapters, "op", entry.at("op"));
    const TruthCase c = read_truth_case(entry, folder.path);
    check_truth(c, adapter, device);
    if (c.float32_drift) run.in_float32.run_one(c.name, [&] { check_float32(c, adapter, device); });
  });
  return run;
}

void check_truth_cases(const std::string& name, int expected, Device device) {
  for (const CaseFolder& folder : case_folders(name)) {
    CAPTURE(folder.path.string());
    const TruthRun run = run_truth_cases(folder, device);
    CHECK(run.in_float64.failures() == "");
    if (folder.golden) {
      CHECK(run.in_float32.failures() == "");
      CHECK(run.in_float64.ran() == expected);
      CHECK(run.in_float32.ran() == expected);
    } else {
      WARN(run.in_float32.failures() == "");
    }
  }
}

}  // namespace vitrine::test
