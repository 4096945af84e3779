#include "nn/layers/xavier.h"

#include "nn/init.h"
#include "nn/layers/linear.h"

namespace vitrine::nn {

void xavier_linear_layers(Module& module) {
  module.apply([](const std::string&, Module& part) {
    if (auto* const layer = dynamic_cast<Linear*>(&part))
      layer->weight.assign(xavier_uniform(layer->weight.shape()).value());
  });
}

}  // namespace vitrine::nn
