#include "nn/transformer/universal.h"

#include <string>

#include "core/record.h"
#include "nn/attention/positions.h"
#include "nn/transformer/position_rows.h"
#include "ops/elementwise.h"

namespace vitrine::nn {
namespace {

const UniversalOptions& checked(const UniversalOptions& o) {
  check(!o.block.cross && o.block.experts.count == 0,
        "UniversalTransformer: the block has a cross-attention or experts, wanted a block without both");
  check(!o.recompute || o.block.norm != NormKind::power,
        "UniversalTransformer: recompute with the norm power, which changes its statistics in each step; "
        "wanted another norm, or no recompute");
  check(o.block.mixer.width % 2 == 0,
        "UniversalTransformer: the width {} is odd, and coordinates come in pairs of channels",
        o.block.mixer.width);
  return o;
}

}  // namespace

Tensor universal_coordinates(int64_t past, int64_t count, int64_t n, const Tensor& like,
                             const Tensor& padding) {
  const int64_t width = like.size(-1);
  return sinusoidal_rows(width, past, count, padding, like) +
         sinusoidal_positions(1, width, 1e4, n, like.dtype(), like.device());
}

UniversalTransformer::UniversalTransformer(const UniversalOptions& o)
    : block(checked(o).block), halting(o.block.mixer.width, o.halting), options_(o) {}

Halted UniversalTransformer::forward(const Tensor& x, const MixerCall& call,
                                     std::vector<MixerTrace>* traces) const {
  check(x.rank() == 3, "UniversalTransformer: x is {}, wanted [B, T, {}]", x.shape(),
        options_.block.mixer.width);
  const auto* const state = dynamic_cast<StateList*>(call.state);
  check(call.state == nullptr || (state && std::ssize(state->states) == options_.halting.max_steps),
        "UniversalTransformer: the state is not one of {} steps; wanted what make_state gave",
        options_.halting.max_steps);
  const int64_t past = state ? state->length() : 0;
  if (traces) traces->clear();
  MixerCall own = call;
  own.mask.causal = call.mask.causal || options_.block.mixer.causal;
  Tensor last;
  int64_t taken = 0;
  const auto step = [&](const Tensor& s, int64_t n) {
    const ModuleScope scope("step." + std::to_string(n));
    if (state) own.state = state->states[static_cast<size_t>(n - 1)].get();
    if (traces) own.trace = &traces->emplace_back();
    taken = n;
    const Tensor x = s + universal_coordinates(past, s.size(1), n, s, call.mask.start);
    const auto forward = [this, x, own] { return block.forward(x, own); };
    return last = options_.recompute && !state && !own.trace ? recompute(block, forward) : forward();
  };
  Halted result = halting.forward(x, step, real_positions(call, x.size(1)));
  while (state && taken < options_.halting.max_steps) step(last, taken + 1);
  return result;
}

std::unique_ptr<StateList> UniversalTransformer::make_state(int64_t batch, int64_t capacity) const {
  auto all = std::make_unique<StateList>();
  for (int64_t n = 0; n < options_.halting.max_steps; ++n)
    all->states.push_back(block.make_state(batch, capacity));
  return all;
}

void UniversalTransformer::fields(Fields& f) {
  f("block", block);
  f("halting", halting);
}

UniversalTransformer UniversalTransformer::clone() {
  return clone_into([this] { return UniversalTransformer(options_); });
}

}  // namespace vitrine::nn
