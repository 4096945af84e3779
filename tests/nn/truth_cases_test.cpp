// Values and gradients against reference cases: which function answers to which op of the manifest. Those of attention stand in
// truth_cases_attention.cpp.
#include <doctest/doctest.h>

#include "nn/attention/position.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "tests/cases.h"
#include "tests/data.h"
#include "tests/nn/truth_adapters.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

Tensor elu_plus_one(const Tensor& x) { return elu(x) + 1; }

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

TruthAdapters all_adapters() {
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
  all.insert(kAttentionTruthAdapters.begin(), kAttentionTruthAdapters.end());
  return all;
}

}  // namespace

TEST_CASE("reference cases: values and gradients at 1e-9") {
  const auto skips = read_skips("tests/nn/truth_cases_skips.txt");
  const TruthAdapters adapters = all_adapters();
  int run = 0, run_in_float32 = 0;
  for (const TruthCase& c : truth_cases()) {
    if (skips.count(c.op)) continue;
    INFO(c.name);
    ++run;
    CHECK_MESSAGE(adapters.count(c.op), "the op ", c.op, " is neither run nor skipped with a reason");
    if (!adapters.count(c.op)) continue;
    CHECK(check_truth(c, adapters.at(c.op)) == "");
    // How far float32 may be off was measured for the default cases. Of other ones it is said, but no failure.
    const std::string in_float32 = check_float32(c, adapters.at(c.op));
    if (is_default_data_directory())
      CHECK(in_float32 == "");
    else
      WARN(in_float32 == "");
    if (c.float32_drift) ++run_in_float32;
  }
  if (!is_default_data_directory()) return;
  CHECK(run == 60);
  CHECK(run_in_float32 == 60);
}
