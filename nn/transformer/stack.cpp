#include "nn/transformer/stack.h"

#include <string>
#include <utility>

#include "core/creation.h"
#include "core/print.h"
#include "core/record.h"
#include "ops/elementwise.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

StackOptions with_direction(StackOptions o, bool causal) {
  o.block.mixer.causal = causal;
  return o;
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

DecodingState* member(StateList* list, size_t i) { return list ? list->states[i].get() : nullptr; }

}  // namespace

BlockStack::BlockStack(const StackOptions& options)
    : final_norm(options.block.mixer.width, options.block.norm), options_(options) {
  for (int64_t i = 0; i < options.layers; ++i)
    blocks.push_back(std::make_unique<TransformerBlock>(options.block));
}

Tensor BlockStack::forward(const Tensor& x0, const StackCall& call) const {
  auto* const state = dynamic_cast<StateList*>(call.state);
  check(call.state == nullptr || (state != nullptr && state->states.size() == blocks.size()),
        "BlockStack: the state is not one of {} blocks; wanted what make_state gave", blocks.size());
  if (call.traces) call.traces->resize(blocks.size());
  AttentionMask mask =
      after_padding(call.mask, call.padding, x0.size(0), (state ? state->length() : 0) + x0.size(1));
  mask.causal = options_.block.mixer.causal;
  Tensor x = x0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    TransformerBlock& block = *blocks[i];
    const ModuleScope scope("blocks." + std::to_string(i));
    MixerCall own{.mask = mask, .lengths = call.lengths},
        cross{.source = call.source, .lengths = call.source_lengths};
    if (options_.recompute_blocks && !state && !call.traces) {
      x = recompute(block, [&block, x, own, cross] { return block.forward(x, own, cross); });
      continue;
    }
    // The state of a block with cross-attention has two members.
    auto* const pair = block.cross ? static_cast<StateList*>(member(state, i)) : nullptr;
    own.state = block.cross ? member(pair, 0) : member(state, i);
    cross.state = member(pair, 1);
    own.trace = call.traces ? &(*call.traces)[i] : nullptr;
    x = block.forward(x, own, cross);
  }
  const ModuleScope scope("final_norm");
  return options_.block.pre_norm ? final_norm.forward(x) : x;
}

std::unique_ptr<StateList> BlockStack::make_state(int64_t batch, int64_t capacity) const {
  auto all = std::make_unique<StateList>();
  for (const auto& block : blocks) {
    auto own = block->mixer->make_state(batch, capacity);
    if (block->cross) {
      auto pair = std::make_unique<StateList>();
      pair->states.push_back(std::move(own));
      pair->states.push_back(block->cross->make_source_state());
      own = std::move(pair);
    }
    all->states.push_back(std::move(own));
  }
  return all;
}

void BlockStack::fields(Fields& f) {
  for (size_t i = 0; i < blocks.size(); ++i) f("blocks." + std::to_string(i), *blocks[i]);
  if (options_.block.pre_norm) f("final_norm", final_norm);
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

}  // namespace vitrine::nn
