// The linear recurrences of the reference cases: adapters from the notation of each paper to the
// two scans.
#include <cmath>

#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/linear_scan.h"
#include "ops/norm.h"
#include "ops/selective_scan.h"
#include "ops/view.h"
#include "tests/nn/truth_adapters.h"

namespace vitrine::test {
namespace {

/// The output that the case asks for.
Tensor asked(Params p, const LinearScanStates& s) { return p.at("output") == "state" ? s.state : s.o; }

double scale_of(Params p, const Tensor& q) {
  return p.value("scale", 1 / std::sqrt(static_cast<double>(q.size(-1))));
}

Tensor retention(Params p, In x) {
  const Tensor gamma = x.at("gamma");
  return asked(p, linear_scan(x.at("q"), x.at("k"), x.at("v"),
                              {.log_decay = log(reshape(gamma, {1, gamma.size(0), 1})),
                               .state = x.get("state"),
                               .scale = scale_of(p, x.at("q"))}));
}

Tensor gated_linear_attention(Params p, In x) {
  return asked(
      p, linear_scan(x.at("q"), x.at("k"), x.at("v"),
                     {.log_decay = x.at("g"), .state = x.get("state"), .scale = scale_of(p, x.at("q"))}));
}

Tensor delta_rule(Params p, In x) {
  const bool normalize = p.at("normalize");
  const auto unit = [&](const Tensor& y) { return normalize ? l2_normalize(y) : y; };
  const Tensor k = unit(x.at("k")), written = unsqueeze(x.at("beta"), -1) * k, g = x.get("g");
  return asked(p, linear_scan(unit(x.at("q")), written, x.at("v"),
                              {.log_decay = g,
                               .erase_to = -written,
                               .erase_from = g.defined() ? unsqueeze(exp(g), -1) * k : k,
                               .state = x.get("state"),
                               .scale = scale_of(p, k)}));
}

/// From [B, T, H, ·] to [B, H, T, ·] and back.
Tensor heads(const Tensor& x) { return transpose(x, 1, 2); }
/// A case's state is the transpose of a scan's.
Tensor first_state(In x) { return x.has("state") ? transpose(x.at("state")) : Tensor(); }

Tensor ssd(Params p, In x) {
  const Tensor values = heads(x.at("x")), a = -exp(x.at("a_log"));
  const Tensor delta = transpose(softplus(x.at("dt") + x.at("dt_bias")), 1, 2);  // [B, H, L]
  const auto of_groups = [&](const Tensor& y) { return repeat(heads(y), values.size(1) / y.size(2), 1); };
  const LinearScanStates s =
      linear_scan(of_groups(x.at("c")), of_groups(x.at("b")), unsqueeze(delta, -1) * values,
                  {.log_decay = delta * unsqueeze(a, -1), .state = first_state(x)});
  const Tensor y = heads(s.o + reshape(x.at("d"), {-1, 1, 1}) * values);
  return p.at("output") == "state" ? transpose(s.state) : y;
}

Tensor rwkv7_wkv(Params p, In x) {
  const Tensor kk = heads(x.at("kk"));
  const LinearScanStates s = linear_scan(heads(x.at("r")), heads(x.at("k")), heads(x.at("v")),
                                         {.log_decay = log(heads(x.at("w"))),
                                          .erase_to = -(heads(x.at("a")) * kk),
                                          .erase_from = kk,
                                          .state = first_state(x)});
  return p.at("output") == "state" ? transpose(s.state) : heads(s.o);
}

Tensor selective(Params p, In x) {
  Tensor delta = x.has("delta_bias") ? x.at("delta") + x.at("delta_bias") : x.at("delta");
  if (p.at("delta_softplus")) delta = softplus(delta);
  const SelectiveScanStates s = selective_scan(x.at("u"), delta, -exp(x.at("a_log")), x.at("b"), x.at("c"),
                                               {.skip = x.get("d"), .state = x.get("state")});
  if (p.at("output") == "state") return s.state;
  return x.has("z") ? s.y * silu(x.at("z")) : s.y;
}

}  // namespace

const TruthAdapters kScanTruthAdapters = {
    {"delta_rule", delta_rule},    {"gated_linear_attention", gated_linear_attention},
    {"retention", retention},      {"rwkv7_wkv", rwkv7_wkv},
    {"selective_scan", selective}, {"ssd", ssd},
};

}  // namespace vitrine::test
