// The recurrent networks of the reference cases: ops of the library with PyTorch's weights and
// biases.
#include "nn/recurrent/recurrent.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/view.h"
#include "tests/nn/truth_adapters.h"

namespace vitrine::test {
namespace {

/// The states of one direction, h first, followed by its final states.
struct Run {
  std::vector<Tensor> states, last;
};

Run run(In x, bool lstm_cell, size_t direction) {
  const std::string suffix = direction == 0 ? "" : "_reverse";
  const auto weight = [&](const char* name) { return x.at(name + suffix); };
  const auto first = [&](const char* name) {
    return x.has(name) ? select(x.at(name), 0, static_cast<int64_t>(direction)) : Tensor();
  };
  RecurrentOptions options;
  options.reverse = direction == 1;
  if (x.has("lengths")) options.lengths = x.at("lengths");
  const Tensor in = linear(x.at("x"), weight("w_ih"), weight("b_ih")), bias = weight("b_hh"),
               recurrent = weight("w_hh");
  Run result;
  if (lstm_cell) {
    const LstmStates s = lstm(in + bias, recurrent, first("h0"), first("c0"), options);
    result.states = {s.h, s.c};
  } else {
    const int64_t channels = recurrent.size(1);
    const Tensor gates = slice(bias, 0, 0, 2 * channels),
                 none = zeros({channels}, bias.dtype(), bias.device());
    result.states = {
        gru(in + concat({gates, none}, 0), recurrent, slice(bias, 0, 2 * channels), first("h0"), options)};
  }
  for (const Tensor& s : result.states) result.last.push_back(select(s, 1, options.reverse ? 0 : -1));
  return result;
}

Tensor recurrent(Params p, In x, bool lstm_cell) {
  std::vector<Run> runs;
  for (size_t i = 0; i < (p.value("bidirectional", false) ? 2 : 1); ++i) runs.push_back(run(x, lstm_cell, i));
  const std::string output = p.at("output");
  std::vector<Tensor> parts;
  for (const Run& r : runs)
    parts.push_back(output == "sequence" ? r.states[0] : r.last[output == "c" ? 1 : 0]);
  if (output != "sequence") return stack(parts, 0);
  const Tensor sequence = concat(parts, -1);
  if (!x.has("lengths")) return sequence;
  const Tensor lengths = x.at("lengths");
  const Tensor positions =
      arange(0, static_cast<double>(sequence.size(1)), 1, DType::int64, lengths.device());
  return where(unsqueeze(less(positions, unsqueeze(lengths, -1)), -1), sequence, 0.0);
}

}  // namespace

const TruthAdapters kRecurrentTruthAdapters = {
    {"lstm", [](Params p, In x) { return recurrent(p, x, true); }},
    {"gru", [](Params p, In x) { return recurrent(p, x, false); }},
};

}  // namespace vitrine::test
