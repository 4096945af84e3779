// The recurrences of the reference cases: LSTM and GRU with PyTorch's weights and biases, RWKV and
// Mamba.
#include <cmath>

#include "core/creation.h"
#include "nn/recurrent/mamba.h"
#include "nn/recurrent/recurrent.h"
#include "nn/recurrent/rwkv4.h"
#include "nn/recurrent/rwkv7.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/view.h"
#include "ops/wkv.h"
#include "tests/nn/truth_adapters.h"

namespace vitrine::test {
namespace {

/// The states of one direction, h first, followed by its final states.
struct RecurrentRun {
  std::vector<Tensor> states, last;
};

RecurrentRun run(In x, bool lstm_cell, size_t direction) {
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
  RecurrentRun result;
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
  std::vector<RecurrentRun> runs;
  for (size_t i = 0; i < (p.value("bidirectional", false) ? 2 : 1); ++i) runs.push_back(run(x, lstm_cell, i));
  const std::string output = p.at("output");
  std::vector<Tensor> parts;
  for (const RecurrentRun& r : runs)
    parts.push_back(output == "sequence" ? r.states[0] : r.last[output == "c" ? 1 : 0]);
  if (output != "sequence") return stack(parts, 0);
  const Tensor sequence = concat(parts, -1);
  if (!x.has("lengths")) return sequence;
  const Tensor lengths = x.at("lengths");
  const Tensor positions =
      arange(0, static_cast<double>(sequence.size(1)), 1, DType::int64, lengths.device());
  return where(unsqueeze(less(positions, unsqueeze(lengths, -1)), -1), sequence, 0.0);
}

/// A parameter, and the name under which a case gives it.
using Given = std::vector<std::pair<Parameter*, const char*>>;
void assign(const Given& given, In x) {
  for (const auto& [own, name] : given) *own = Parameter(x.at(name));
}

nn::MixerOptions options_of(const Tensor& x, int64_t heads) {
  return {.width = x.size(-1), .heads = heads, .bias = nn::Bias::no};
}

Tensor rwkv4_time_mix(Params, In x) {
  nn::Rwkv4 mixer(options_of(x.at("x"), 1));
  assign({{&mixer.mix_receptance, "mu_r"},
          {&mixer.mix_key, "mu_k"},
          {&mixer.mix_value, "mu_v"},
          {&mixer.receptance.weight, "wr"},
          {&mixer.key.weight, "wk"},
          {&mixer.value.weight, "wv"},
          {&mixer.out.weight, "wo"},
          {&mixer.decay, "decay"},
          {&mixer.bonus, "u"}},
         x);
  std::vector<Tensor> state;
  if (x.has("previous")) {
    const Tensor previous = x.at("previous");
    state = {previous, zeros_like(previous), full_like(previous, -INFINITY)};
  }
  return mixer.run(x.at("x"), state);
}

Tensor rwkv7_time_mix(Params p, In x) {
  nn::Rwkv7 mixer(options_of(x.at("x"), p.at("heads")), x.at("w1").size(1), x.has("v_first"));
  mixer.eps = p.at("eps");
  assign({{&mixer.mix_receptance, "x_r"},   {&mixer.mix_decay, "x_w"},  {&mixer.mix_key, "x_k"},
          {&mixer.mix_value, "x_v"},        {&mixer.mix_erase, "x_a"},  {&mixer.mix_gate, "x_g"},
          {&mixer.receptance.weight, "wr"}, {&mixer.key.weight, "wk"},  {&mixer.value.weight, "wv"},
          {&mixer.out.weight, "wo"},        {&mixer.decay.start, "w0"}, {&mixer.decay.down, "w1"},
          {&mixer.decay.up, "w2"},          {&mixer.erase.start, "a0"}, {&mixer.erase.down, "a1"},
          {&mixer.erase.up, "a2"},          {&mixer.gate.down, "g1"},   {&mixer.gate.up, "g2"},
          {&mixer.key_scale, "k_k"},        {&mixer.key_erase, "k_a"},  {&mixer.gain, "ln_gamma"},
          {&mixer.bias, "ln_beta"}},
         x);
  mixer.own = Parameter(x.at("r_k"));
  if (x.has("v_first"))
    assign({{&mixer.blend->start, "v0"}, {&mixer.blend->down, "v1"}, {&mixer.blend->up, "v2"}}, x);
  std::vector<Tensor> state;
  return mixer.mix(x.at("x"), x.get("v_first"), state);
}

Tensor mamba_block(Params, In x) {
  const Tensor a = x.at("a_log");
  nn::Mamba mixer(options_of(x.at("x"), 1), {.states = a.size(1),
                                             .channels = a.size(0),
                                             .kernel = x.at("w_conv").size(-1),
                                             .rank = x.at("w_dt").size(1)});
  assign({{&mixer.in.weight, "w_in"},
          {&mixer.conv.weight, "w_conv"},
          {&mixer.conv.bias, "b_conv"},
          {&mixer.select.weight, "w_x"},
          {&mixer.step.weight, "w_dt"},
          {&mixer.step.bias, "b_dt"},
          {&mixer.rates, "a_log"},
          {&mixer.skip, "d"},
          {&mixer.out.weight, "w_out"}},
         x);
  std::vector<Tensor> state;
  return mixer.run(x.at("x"), state);
}

Tensor rwkv4_wkv(Params, In x) { return wkv(x.at("k"), x.at("v"), neg(exp(x.at("decay"))), x.at("u")).y; }

}  // namespace

const TruthAdapters kRecurrentTruthAdapters = {
    {"lstm", [](Params p, In x) { return recurrent(p, x, true); }},
    {"gru", [](Params p, In x) { return recurrent(p, x, false); }},
    {"mamba_block", mamba_block},
    {"rwkv4_time_mix", rwkv4_time_mix},
    {"rwkv4_wkv", rwkv4_wkv},
    {"rwkv7_time_mix", rwkv7_time_mix},
};

}  // namespace vitrine::test
