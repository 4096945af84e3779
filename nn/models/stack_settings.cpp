#include "nn/models/stack_settings.h"

#include "nn/transformer/mixers.h"

namespace vitrine::nn {

void list_stack(StackOptions& stack, OptionList& o) {
  BlockOptions& block = stack.block;
  o.group("Model");
  o("width", block.mixer.width, "number of channels").at_least(1);
  o("heads", block.mixer.heads, "number of heads").at_least(1);
  o("layers", stack.layers, "number of blocks").at_least(1);
  o("mixer", block.mixer.name, "one base and parts, joined by +:\n" + mixer_help());
  o("hidden", block.hidden, "size of the feed-forward layers; 0: four times the width").at_least(0);
  o("activation", block.activation, "activation function of the feed-forward layers");
  o("norm", block.norm, "kind of norm");
  o("residual", block.residual, "where the norms are");
  o("dropout", block.dropout, "dropout probability").at_least(0).below(1);
  o("drop-path", block.drop_path, "probability that a part of the last block is dropped for a whole item")
      .at_least(0)
      .below(1);
  list_checkpoint_blocks(stack.recompute_blocks, o);
}

void list_checkpoint_blocks(bool& recompute_blocks, OptionList& o) {
  o("checkpoint-blocks", recompute_blocks, "save memory: compute blocks again in the backward pass")
      .decides(Role::execution);
}

}  // namespace vitrine::nn
