// Blocks on top of each other: the encoder and the decoder of a Transformer.
#pragma once

#include <memory>
#include <vector>

#include "nn/transformer/block.h"

namespace vitrine::nn {

struct StackOptions {
  BlockOptions block = {};
  int64_t layers = 4;  ///< number of blocks
  /// Saves memory in training: blocks keep their input only and are computed again in the backward.
  bool recompute_blocks = false;
};

/// What goes with the input of a stack.
struct StackCall {
  AttentionMask mask = {};  ///< besides causality
  /// int64 [B]: row b has lengths[b] positions; undefined: all
  Tensor lengths = {};
  Tensor source = {};                         ///< [B, S, C], for blocks with cross-attention
  Tensor source_lengths = {};                 ///< int64 [B]
  DecodingState* state = nullptr;             ///< of make_state: x continues what the state holds
  std::vector<MixerTrace>* traces = nullptr;  ///< takes one for each block
};

/// x [B, T, C] → [B, T, C]: the blocks in order, and in pre-norm a last norm.
class BlockStack : public Module {
 public:
  Tensor forward(const Tensor& x, const StackCall& call = {}) const;
  /// The state before the first position, of all blocks.
  std::unique_ptr<StateList> make_state(int64_t batch, int64_t capacity) const;
  void fields(Fields& f) override;

  std::vector<std::unique_ptr<TransformerBlock>> blocks;
  Norm final_norm;

 protected:
  explicit BlockStack(const StackOptions& options);
  StackOptions options_;
};

/// Every position sees all others. The blocks have no cross-attention.
class Encoder : public BlockStack {
 public:
  explicit Encoder(StackOptions options);
  Encoder clone();
};

/// A position sees itself and those before it, and the source where blocks have a cross-attention.
class Decoder : public BlockStack {
 public:
  explicit Decoder(StackOptions options);
  Decoder clone();
};

}  // namespace vitrine::nn
