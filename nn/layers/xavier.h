// The initial weights of models that do not choose deviations layer by layer.
#pragma once

#include "nn/module.h"

namespace vitrine::nn {

/// Draws the weights of all linear layers of the module again, as xavier_uniform. Biases stay.
void xavier_linear_layers(Module& module);

}  // namespace vitrine::nn
