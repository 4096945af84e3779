#include "nn/transformer/stack.h"

#include <cmath>
#include <string>
#include <utility>

#include "core/creation.h"
#include "core/print.h"
#include "core/record.h"
#include "nn/transformer/reversible.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

StackOptions with_direction(StackOptions o, bool causal) {
  o.block.mixer.causal = causal;
  return o;
}

/// The constants of DeepNet; a causal stack is the decoder of a pair.
DeepNorm deep_norm_of(const StackOptions& o) {
  if (o.other_layers == 0) return deep_norm(o.layers);
  return o.block.mixer.causal ? deep_norm_of_decoder(o.layers)
                              : deep_norm_of_encoder(o.layers, o.other_layers);
}

/// The options of block i.
BlockOptions block_options(const StackOptions& o, int64_t i) {
  BlockOptions block = o.block;
  block.mixer.layer = i + 1;
  if (block.residual == Residual::deepnet) block.deep_norm = deep_norm_of(o);
  block.drop_path *= static_cast<double>(i + 1) / static_cast<double>(o.layers);
  return block;
}

/// The mask that also hides the padding at the beginning of each row.
AttentionMask after_padding(AttentionMask mask, const Tensor& padding, int64_t batch, int64_t keys) {
  if (!padding.defined()) return mask;
  check(padding.shape() == Shape{batch} && padding.dtype() == DType::int64,
        "BlockStack: the padding is {}, wanted int64 [{}], a number for each row", describe(padding), batch);
  const Tensor positions = arange(0, static_cast<double>(keys), 1, DType::int64, padding.device());
  const Tensor own = greater_equal(positions, reshape(padding, {batch, 1, 1, 1}));
  mask.allowed = mask.allowed.defined() ? logical_and(mask.allowed, own) : own;
  mask.start = padding;
  return mask;
}

std::unique_ptr<UniversalTransformer> universal_of(const StackOptions& o) {
  if (!o.universal) return nullptr;
  return std::make_unique<UniversalTransformer>(
      UniversalOptions{.block = block_options(o, o.layers - 1),
                       .halting = {.kind = o.halting, .max_steps = o.layers, .ponder = o.ponder},
                       .recompute = o.recompute_blocks});
}

/// block.forward(x, own, cross, routing), which runs again in the backward pass.
Tensor computed_again(const TransformerBlock& block, const Tensor& x, const MixerCall& own,
                      const MixerCall& cross, Routing* routing) {
  const auto chosen = routing ? std::make_shared<Routing>() : nullptr;  // each run writes it
  const std::vector<Tensor> made = recompute_all(block, [&block, x, own, cross, chosen] {
    const Tensor y = block.forward(x, own, cross, chosen.get());
    return chosen ? std::vector{y, chosen->gates, chosen->auxiliary} : std::vector{y};
  });
  if (routing) {
    *routing = *chosen;
    routing->gates = made[1], routing->auxiliary = made[2];
  }
  return made[0];
}

DecodingState* member(StateList* list, size_t i) { return list ? list->states[i].get() : nullptr; }

}  // namespace

void StackOptions::validate() const {
  block.validate();
  const std::pair<bool, const char*> of_reversible[] = {
      {block.residual != Residual::pre, "with residual connections that are not pre-norm"},
      {block.cross, "with a cross-attention"},
      {block.experts.count > 0, "with experts"},
      {recompute_blocks, "with blocks that are computed again, which reversible blocks are anyway"}};
  for (const auto& [given, what] : of_reversible)
    check(!reversible || !given,
          "reversible: wanted pre-norm blocks of a mixer and a feed-forward part, and they come {}", what);
  const std::pair<bool, const char*> of_universal[] = {
      {reversible, "reversible"},
      {block.cross, "one with a cross-attention"},
      {block.experts.count > 0, "one of experts"},
      {block.residual == Residual::admin, "one of Residual::admin, which measures each part once"}};
  for (const auto& [given, what] : of_universal)
    check(!universal || !given, "universal: wanted a block that can be applied several times, and it is {}",
          what);
}

BlockStack::BlockStack(const StackOptions& options)
    : universal((options.validate(), universal_of(options))),
      final_norm(options.block.mixer.width, options.block.norm, options.block.norm_epsilon),
      options_(options) {
  for (int64_t i = 0; !universal && i < options.layers; ++i)
    blocks.push_back(std::make_unique<TransformerBlock>(block_options(options, i)));
}

Tensor BlockStack::forward(const Tensor& x, const StackCall& given) const {
  auto* const state = dynamic_cast<StateList*>(given.state);
  check(given.state == nullptr || (state != nullptr && std::ssize(state->states) == options_.layers),
        "BlockStack: the state is not one of {} blocks; wanted what make_state gave", options_.layers);
  check(!given.source.defined() || options_.block.cross,
        "BlockStack: a source is given, and the blocks have no cross-attention");
  if (given.traces) given.traces->resize(blocks.size());
  StackCall call = given;
  call.mask = after_padding(given.mask, given.padding, x.size(0), (state ? state->length() : 0) + x.size(1));
  call.mask.causal = given.mask.causal || options_.block.mixer.causal;
  const Tensor y = universal             ? one_block(x, call)
                   : options_.reversible ? two_streams(x, call, state)
                                         : one_stream(x, call, state);
  const ModuleScope scope("final_norm");
  return options_.block.residual == Residual::pre ? final_norm.forward(y) : y;
}

Tensor BlockStack::one_stream(Tensor x, const StackCall& call, StateList* state) const {
  for (size_t i = 0; i < blocks.size(); ++i) {
    TransformerBlock& block = *blocks[i];
    const ModuleScope scope("blocks." + std::to_string(i));
    MixerCall own{.mask = call.mask, .lengths = call.lengths},
        cross{.source = call.source, .lengths = call.source_lengths};
    Routing* const routing = call.routing && block.experts ? &call.routing->emplace_back() : nullptr;
    if (options_.recompute_blocks && !state && !call.traces) {
      x = computed_again(block, x, own, cross, routing);
      continue;
    }
    own.state = member(state, i);
    if (call.traces) (block.cross ? cross : own).trace = &(*call.traces)[i];
    x = block.forward(x, own, cross, routing);
  }
  return x;
}

Tensor BlockStack::one_block(const Tensor& x, const StackCall& call) const {
  const ModuleScope scope("blocks.0");
  Halted h =
      universal->forward(x, {.mask = call.mask, .lengths = call.lengths, .state = call.state}, call.traces);
  const Tensor y = h.state;
  if (call.halted) *call.halted = std::move(h);
  return y;
}

Tensor BlockStack::two_streams(const Tensor& x, const StackCall& call, StateList* state) const {
  std::vector<ReversibleLayer> layers;
  for (size_t i = 0; i < blocks.size(); ++i) {
    TransformerBlock* const block = blocks[i].get();
    const MixerCall own{.mask = call.mask,
                        .lengths = call.lengths,
                        .state = member(state, i),
                        .trace = call.traces ? &(*call.traces)[i] : nullptr};
    const Modes modes = modes_of(*block);
    const std::string name = "blocks." + std::to_string(i);
    const auto in_scope = [=](const auto& part) {
      return [=](const Tensor& h) {
        const ModeScope same(modes);
        const ModuleScope scope(name);
        return part(h);
      };
    };
    layers.push_back({in_scope([=](const Tensor& h) { return block->mixer_part(h, own); }),
                      in_scope([=](const Tensor& h) { return block->feed_forward_part(h, own); })});
  }
  const auto y = state || call.traces ? residual_layers(layers, x, x) : reversible(layers, x, x);
  return (y.first + y.second) * 0.5;
}

std::unique_ptr<StateList> BlockStack::make_state(int64_t batch, int64_t capacity) const {
  if (universal) return universal->make_state(batch, capacity);
  auto all = std::make_unique<StateList>();
  for (const auto& block : blocks) all->states.push_back(block->make_state(batch, capacity));
  return all;
}

void BlockStack::fields(Fields& f) {
  for (size_t i = 0; i < blocks.size(); ++i) f("blocks." + std::to_string(i), *blocks[i]);
  if (universal) {
    f("blocks.0", universal->block);
    f("halting", universal->halting);
  }
  if (options_.block.residual == Residual::pre) f("final_norm", final_norm);
}

Encoder::Encoder(StackOptions options) : BlockStack(with_direction(std::move(options), false)) {
  check(!options_.block.cross, "Encoder: the blocks have a cross-attention, and an encoder has no source");
}

Encoder Encoder::clone() {
  return clone_into([this] { return Encoder(options_); });
}

Decoder::Decoder(StackOptions options) : BlockStack(with_direction(std::move(options), true)) {}

Decoder Decoder::clone() {
  return clone_into([this] { return Decoder(options_); });
}

Tensor auxiliary_loss(const std::vector<Routing>& routing, const Halted& halted) {
  Tensor sum = halted.auxiliary;
  for (const Routing& r : routing)
    if (r.auxiliary.defined()) sum = sum.defined() ? sum + r.auxiliary : r.auxiliary;
  return sum;
}

void initialize_admin(BlockStack& stack, const std::function<void()>& run) {
  const Tape::Pause pause;
  const ModeScope evaluation(stack, false);
  std::vector<Shortcut*> shortcuts;
  for (const auto& block : stack.blocks)
    for (Shortcut* const shortcut : block->shortcuts()) shortcuts.push_back(shortcut);
  for (Shortcut* const shortcut : shortcuts) {
    check(shortcut->omega.defined(), "initialize_admin: the blocks are not of Residual::admin");
    shortcut->omega.assign(ones(shortcut->omega.shape()));
  }
  std::vector<double> variances;
  for (const auto& block : stack.blocks)
    block->on_part = [&](const Tensor& f) { variances.push_back(var(cast(f, DType::float32)).item()); };
  const auto remove_hooks = [&] {
    for (const auto& block : stack.blocks) block->on_part = nullptr;
  };
  try {
    run();
  } catch (...) {
    remove_hooks();
    throw;
  }
  remove_hooks();
  check(variances.size() == shortcuts.size(),
        "initialize_admin: {} parts have run, wanted each of the {} parts of the stack once",
        variances.size(), shortcuts.size());
  double sum = 1;
  for (size_t i = 0; i < shortcuts.size(); ++i) {
    Parameter& omega = shortcuts[i]->omega;
    omega.assign(full(omega.shape(), std::sqrt(sum)));
    sum += variances[i];
  }
}

}  // namespace vitrine::nn
