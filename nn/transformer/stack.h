// Stacks of blocks: the encoder and the decoder of a Transformer.
#pragma once

#include <memory>
#include <vector>

#include "nn/transformer/block.h"

namespace vitrine::nn {

struct StackOptions {
  BlockOptions block = {};
  int64_t layers = 4;  ///< number of blocks
  /// Saves memory in training: a block stores only its input and is computed again in the backward
  /// pass.
  bool recompute_blocks = false;
};

/// The arguments of a stack besides its input.
struct StackCall {
  AttentionMask mask = {};  ///< in addition to causality
  /// int64 [B]: row b has lengths[b] valid positions; undefined: all are valid
  Tensor lengths = {};
  /// int64 [B]: row b begins with padding[b] positions that no query sees, and its own positions
  /// count from there; undefined: none does
  Tensor padding = {};
  Tensor source = {};                         ///< [B, S, C], for blocks with cross-attention
  Tensor source_lengths = {};                 ///< int64 [B]
  DecodingState* state = nullptr;             ///< from make_state: x continues its positions
  std::vector<MixerTrace>* traces = nullptr;  ///< if not null: receives one trace per block
};

/// x [B, T, C] → [B, T, C]: the blocks in order, and for pre-norm a final norm.
class BlockStack : public Module {
 public:
  Tensor forward(const Tensor& x, const StackCall& call = {}) const;
  /// The state of all blocks before the first position.
  std::unique_ptr<StateList> make_state(int64_t batch, int64_t capacity) const;
  void fields(Fields& f) override;

  std::vector<std::unique_ptr<TransformerBlock>> blocks;
  Norm final_norm;

 protected:
  explicit BlockStack(const StackOptions& options);
  StackOptions options_;
};

/// Every position sees all positions. The blocks have no cross-attention.
class Encoder : public BlockStack {
 public:
  explicit Encoder(StackOptions options);
  Encoder clone();
};

/// A position sees itself and the positions before it, and the source if blocks have a
/// cross-attention.
class Decoder : public BlockStack {
 public:
  explicit Decoder(StackOptions options);
  Decoder clone();
};

}  // namespace vitrine::nn
