// The options of an encoder's stack by name, for programs and models.
#pragma once

#include "nn/options.h"
#include "nn/transformer/stack.h"

namespace vitrine::nn {

/// Lists the sizes and parts of a stack without cross-attention and experts (nn/options.h). The
/// names are those of GptOptions.
void list_stack(StackOptions& stack, OptionList& o);

/// Lists checkpoint-blocks, the option recompute_blocks of a stack and of models.
void list_checkpoint_blocks(bool& recompute_blocks, OptionList& o);

}  // namespace vitrine::nn
