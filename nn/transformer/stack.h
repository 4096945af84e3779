// Stacks of blocks: the encoder and the decoder of a Transformer.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "nn/transformer/block.h"
#include "nn/transformer/universal.h"

namespace vitrine::nn {

struct StackOptions {
  BlockOptions block = {};
  int64_t layers = 4;  ///< number of blocks
  /// The number of blocks of the other stack of an encoder-decoder model, for Residual::deepnet; 0:
  /// the stack is alone
  int64_t other_layers = 0;
  /// Saves memory in training: a block stores only its input and is computed again in the backward
  /// pass.
  bool recompute_blocks = false;
  /// The blocks change two streams in turn: y1 = x1 + f(x2), y2 = x2 + g(y1), where f is the mixer
  /// and g the feed-forward part, each with its norm and dropout. Both streams start as x, and the
  /// result is their mean. The memory of training then does not depend on the number of blocks
  /// (nn/transformer/reversible.h). Gomez et al. 2017; Kitaev, Kaiser, Levskaya 2020.
  bool reversible = false;
  /// A universal Transformer (nn/transformer/universal.h): one block, which each position takes up
  /// to `layers` times. The fields after this one belong to it.
  bool universal = false;
  HaltingKind halting = HaltingKind::universal;
  double ponder = 0.01;  ///< factor of the mean ponder cost in its auxiliary loss

  /// Throws an error that explains the problem if the options contradict each other.
  void validate() const;
};

/// The arguments of a stack besides its input.
struct StackCall {
  AttentionMask mask = {};  ///< in addition to causality
  /// int64 [B]: row b has lengths[b] valid positions; undefined: all are valid
  Tensor lengths = {};
  /// int64 [B]: row b begins with padding[b] positions that no query sees, and its own positions
  /// count from there; undefined: none does
  Tensor padding = {};
  Tensor source = {};          ///< [B, S, C]; an error without cross-attention
  Tensor source_lengths = {};  ///< int64 [B]
  /// int64 [B, S]: the tokens of the source, which a model may copy; blocks do not read them
  Tensor source_ids = {};
  DecodingState* state = nullptr;  ///< from make_state: x continues its positions
  /// If not null: receives one trace per block, of its cross-attention if it has one. A universal
  /// stack gives one per step.
  std::vector<MixerTrace>* traces = nullptr;
  /// If not null: receives the routing of each block that has experts, with its auxiliary loss
  std::vector<Routing>* routing = nullptr;
  /// If not null: receives what the positions of a universal stack took, with its auxiliary loss
  Halted* halted = nullptr;
};

/// x [B, T, C] → [B, T, C]: the blocks in order, and for pre-norm a final norm. With a state or
/// traces, a reversible stack runs in ordinary ops, which store every activation.
class BlockStack : public Module {
 public:
  Tensor forward(const Tensor& x, const StackCall& call = {}) const;
  /// The state of all blocks before the first position.
  std::unique_ptr<StateList> make_state(int64_t batch, int64_t capacity) const;
  void fields(Fields& f) override;

  std::vector<std::unique_ptr<TransformerBlock>> blocks;  ///< empty if the stack is universal
  /// Null unless the stack is universal; its block has the path blocks.0
  std::unique_ptr<UniversalTransformer> universal;
  Norm final_norm;

 protected:
  explicit BlockStack(const StackOptions& options);
  StackOptions options_;

 private:
  Tensor one_stream(Tensor x, const StackCall& call, StateList* state) const;
  Tensor one_block(const Tensor& x, const StackCall& call) const;
  Tensor two_streams(const Tensor& x, const StackCall& call, StateList* state) const;
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

/// The sum of the auxiliary losses of the blocks with experts, and of a universal stack; undefined
/// if there are none.
Tensor auxiliary_loss(const std::vector<Routing>& routing, const Halted& halted = {});

/// The initialization of Residual::admin. `run` computes a forward pass of the stack on a typical
/// batch, with all ω = 1. Then ω_i² becomes 1 + Σ Var[f_j] over the parts j before part i, where
/// the 1 is the variance of the normalized input. Errors: another kind of residual connection;
/// `run` does not run each block once. Liu et al. 2020, section 5.2.
void initialize_admin(BlockStack& stack, const std::function<void()>& run);

}  // namespace vitrine::nn
