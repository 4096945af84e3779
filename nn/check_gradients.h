// Gradient checks of a module: the gradients of its inputs and of each parameter, by name.
//
//   std::cout << nn::check_gradients(block, {x});
#pragma once

#include <functional>
#include <type_traits>
#include <vector>

#include "core/gradcheck/check_gradients.h"
#include "nn/module.h"

namespace vitrine::nn {

/// Checks the gradients of y = f(inputs) with respect to the floating-point inputs and to each
/// parameter of the module that requires a gradient. `f` runs the module. The method is that of
/// core/gradcheck/check_gradients.h. Integer inputs, such as token ids, are constants. Parameters
/// should be float64: module.to(DType::float64).
GradientReport check_gradients(Module& module, const std::function<Tensor(const std::vector<Tensor>&)>& f,
                               const std::vector<Tensor>& inputs, const GradientCheckOptions& options = {});

/// The same check for y = module.forward(x), or y = module.forward(x, y) if there are two inputs.
template <class M>
requires std::is_base_of_v<Module, M> GradientReport
check_gradients(M& module, const std::vector<Tensor>& inputs, const GradientCheckOptions& options = {}) {
  return check_gradients(
      module,
      [&module](const std::vector<Tensor>& x) -> Tensor {
        if constexpr (requires { Tensor(module.forward(x[0], x[1])); })
          if (x.size() == 2) return module.forward(x[0], x[1]);
        if constexpr (requires { Tensor(module.forward(x[0])); })
          if (x.size() == 1) return module.forward(x[0]);
        fail("check_gradients: the module has no forward of {} tensors; give a function that runs it",
             x.size());
      },
      inputs, options);
}

}  // namespace vitrine::nn
