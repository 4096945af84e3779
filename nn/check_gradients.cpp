#include "nn/check_gradients.h"

namespace vitrine::nn {

GradientReport check_gradients(Module& module, const std::function<Tensor(const std::vector<Tensor>&)>& f,
                               const std::vector<Tensor>& inputs, const GradientCheckOptions& options) {
  std::vector<Tensor> floating;
  for (const Tensor& x : inputs)
    if (is_floating(x.dtype())) floating.push_back(x);
  const auto of_floating = [&](const std::vector<Tensor>& xs) {
    std::vector<Tensor> all = inputs;
    size_t next = 0;
    for (Tensor& x : all)
      if (is_floating(x.dtype())) x = xs[next++];
    return f(all);
  };
  GradientCheckOptions with_parameters = options;
  with_parameters.parameters = module.parameters();
  return vitrine::check_gradients(of_floating, floating, with_parameters);
}

}  // namespace vitrine::nn
