// An attention mechanism from outside the library: squared ReLU of the scores in place of softmax
// (So et al. 2021).
#pragma once

namespace outside {

/// Makes "relu2" an attention part, to be named as any other: "relu2+qk_norm". Call it once.
void register_relu2();

}  // namespace outside
