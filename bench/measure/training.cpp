#include "bench/measure/training.h"

#include "bench/measure/clock.h"
#include "bench/measure/process.h"
#include "core/tape.h"
#include "ops/loss.h"
#include "optim/optimizers.h"

namespace vitrine::bench {

nlohmann::json train(const Size& s, const Precision& precision, double clip) {
  nn::Gpt model(s.model);
  model.to(precision.dtype);
  model.gradients_in(precision.gradients);
  optim::AdamOptions options;
  options.beta2 = 0.95;
  options.weight_decay = 0.1;
  options.decay = optim::Decay::decoupled;
  optim::Adam optimizer(model.parameters(), options);
  optimizer.set_moments(precision.moments);
  optimizer.set_lr(3e-4);
  nlohmann::json result;
  for (int step = -2; step < s.steps; ++step) {
    const double start = seconds();
    const Tensor x = random_tokens(s), y = random_tokens(s);
    optimizer.zero_grad();
    Tape tape;
    const Tensor loss = cross_entropy(model.forward(x), y);
    tape.backward(loss);
    optimizer.step(clip > 0 ? optim::clip_factor(model.parameters(), clip) : optim::ClipFactor());
    result["loss"] = loss.item();
    if (step >= 0) result["seconds"].push_back(seconds() - start);
  }
  result["peak_mib"] = peak_mib();
  return result;
}

}  // namespace vitrine::bench
