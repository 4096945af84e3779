#include "nn/attention/scan_mixer.h"

#include <cmath>
#include <utility>

#include "core/creation.h"
#include "core/record.h"
#include "core/tape.h"
#include "nn/fixed_state.h"
#include "nn/layers/heads.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// The channels of queries, keys and values together, of options that fit together.
int64_t projected_width(const std::string& name, const MixerOptions& o) {
  check_heads(name, o.width, o.heads, o.key_heads);
  check(
      o.causal,
      "{}: positions are read from the first to the last, so that later ones cannot be seen; wanted a causal "
      "mixer, or the base linear",
      name);
  return o.width + 2 * o.width / o.heads * (o.key_heads ? o.key_heads : o.heads);
}

Tensor hidden_as_zero(const Tensor& x, const Tensor& seen) {
  return x.defined() && seen.defined() ? where(seen, x, 0.0) : x;
}

}  // namespace

ScanMixer::ScanMixer(std::string name, const MixerOptions& o, Gate has_gate)
    : query_key_value(o.width, projected_width(name, o), o.bias.query),
      out(o.width, o.width, o.bias.out, o.out_deviation),
      gate(has_gate == Gate::yes ? std::make_unique<Linear>(o.width, o.width, o.bias.query) : nullptr),
      options_(o),
      name_(std::move(name)),
      head_size_(o.width / o.heads),
      key_heads_(o.key_heads ? o.key_heads : o.heads) {}

ScanMixer::Heads ScanMixer::project(const Tensor& x) const {
  const int64_t key_width = key_heads_ * head_size_;
  // The norm of a head enlarges the rounding errors of small outputs, so nothing is rounded from
  // here on.
  const Tensor wide = cast(query_key_value.forward(x), accumulation_dtype(x.dtype()));
  const auto qkv = split(wide, {options_.width, key_width, key_width}, -1);
  const auto repeated = [&](const Tensor& heads) {
    return define::repeat_key_heads(split_heads(heads, key_heads_), options_.heads);
  };
  Heads heads{split_heads(qkv[0], options_.heads), repeated(qkv[1]), repeated(qkv[2]), {}};
  heads.scan.scale = 1 / std::sqrt(static_cast<double>(head_size_));
  return heads;
}

void ScanMixer::check_call(const Tensor& x, const MixerCall& call) const {
  check(x.rank() == 3 && x.size(2) == options_.width, "{}: x is {}, wanted [B, T, {}]", name_, x.shape(),
        options_.width);
  check(call.mask.causal, "{}: the mask is not causal, and later positions cannot be seen", name_);
  check(!call.source.defined(), "{}: one sequence is read, so that a source has no place", name_);
}

Tensor ScanMixer::forward(const Tensor& x, const MixerCall& call) const {
  check_call(x, call);
  const ModuleScope scope(name_);
  FixedState* const state = FixedState::of(call.state, name_);
  const int64_t past = state ? state->length() : 0, time = x.size(1);
  const Tensor seen = shared_keys(with_lengths(call.mask, call.lengths, x.size(0), past + time), time, name_);
  Heads heads = project(x);
  prepare(heads, x, past);
  heads.k = hidden_as_zero(heads.k, seen), heads.v = hidden_as_zero(heads.v, seen);
  heads.scan.erase_to = hidden_as_zero(heads.scan.erase_to, seen);
  if (call.trace) show(*call.trace, heads, seen);
  if (state && !state->states.empty()) heads.scan.state = state->states[0];
  const LinearScanStates s = linear_scan(heads.q, heads.k, heads.v, heads.scan);
  if (state) state->advance(time, {s.state});
  Tensor y = join_heads(normalized(s.o));
  if (gate) y = y * silu(cast(gate->forward(x), y.dtype()));
  return out.forward(cast(y, x.dtype()));
}

/// The outputs for the values e_1, …, e_T are the weights of T values.
void ScanMixer::show(MixerTrace& trace, const Heads& heads, const Tensor& seen) const {
  trace = {};
  trace.q = heads.q, trace.k = heads.k, trace.v = heads.v, trace.scale = heads.scan.scale;
  trace.distribution = false;
  const Tape::Pause pause;
  AttentionMask mask{.causal = true};
  if (seen.defined()) mask.allowed = transpose(seen);
  const int64_t time = heads.q.size(2);
  trace.visible = mask.visible(time, time, heads.q.device());
  trace.weights = linear_scan(heads.q, heads.k,
                              expand(eye(time, -1, heads.q.dtype(), heads.q.device()),
                                     {heads.q.size(0), heads.q.size(1), time, time}),
                              heads.scan)
                      .o;
}

std::unique_ptr<DecodingState> ScanMixer::make_state(int64_t, int64_t) const {
  return std::make_unique<FixedState>(name_);
}

std::string ScanMixer::explain(const MixerCall& call) const {
  return fmt::format("{}: linear in the length: the op linear_scan keeps a state [{}, {}] per head{}", name_,
                     head_size_, head_size_,
                     call.trace ? "; the weights are computed for display alone" : "");
}

void ScanMixer::fields(Fields& f) {
  f("query_key_value", query_key_value);
  f("gate", gate);
  f("out", out);
}

}  // namespace vitrine::nn
