// The options of an encoder's stack by name, for programs.
#pragma once

#include "nn/options.h"
#include "nn/transformer/stack.h"

namespace vitrine::nn {

/// Lists the sizes and parts of a stack without cross-attention and experts (nn/options.h). The
/// names are those of GptOptions.
void list_stack(StackOptions& stack, OptionList& o);

}  // namespace vitrine::nn
