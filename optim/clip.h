#pragma once

#include <vector>

#include "core/parameter.h"

namespace vitrine::optim {

/// ‖g‖ over the gradients of all parameters together, in one pass; 0 if there are none. A parameter
/// that is listed twice counts once.
double gradient_norm(const std::vector<Parameter>& parameters);

/// Scales all gradients by min(1, max_norm/(norm + 1e-6)), and returns the norm before scaling, a
/// float64 []. A norm that is not finite is an error. In a graph the error is reported when the CPU
/// next waits, and all gradients are 0 until then. Gradients that share memory are first copied to
/// separate memory, so that none is scaled twice.
Tensor clip_gradients(const std::vector<Parameter>& parameters, double max_norm);

/// The norm of gradients and the factor that limits it, both [] in float64.
struct ClipFactor {
  Tensor norm, factor;
};
/// min(1, max_norm/(norm + 1e-6)), for Optimizer::step. The gradients do not change. Errors as in
/// clip_gradients.
///
///   optimizer.step(optim::clip_factor(model.parameters(), 1));
ClipFactor clip_factor(const std::vector<Parameter>& parameters, double max_norm);

}  // namespace vitrine::optim
