// Code that looks at gradients or changes them while a backward pass runs: hooks, filter, listener,
// anomaly mode and the profiler.
#include <utility>

#include "core/backward_pass.h"
#include "core/creation.h"
#include "core/profiler.h"
#include "core/state.h"
#include "core/tensor_kernels.h"

namespace vitrine {

detail::BackwardScope::BackwardScope(const char* op, const std::string* module)
    : module_(module), op_(op), start_(Profiler::active() ? now_nanoseconds() : 0) {
  set_backward_op(op);
}

detail::BackwardScope::~BackwardScope() {
  set_backward_op("");
  if (start_ != 0) Profiler::note(op_, "backward", start_, now_nanoseconds());
}

void Tape::on_gradient(const Tensor& x, std::function<Tensor(const Tensor&)> hook) {
  check_usable("on_gradient");
  const int32_t slot = find_or_add_slot(x);
  check(slot >= 0, "on_gradient: {} is not tracked by this tape", describe(x));
  slots_[static_cast<size_t>(slot)].hooks.push_back(std::move(hook));
}

Tensor Tape::apply_hooks(const Pass& pass, int32_t slot, Tensor gradient) const {
  // A copy, because a hook may add others.
  const auto hooks = slots_[static_cast<size_t>(slot)].hooks;
  for (const auto& hook : hooks) {
    // A hook may write into the gradient. In a recorded pass the tape refuses such a write.
    if (!detail::is_owned(gradient) && (!pass.recorded || !tracks(gradient)))
      gradient = copy_as(gradient, gradient.dtype());
    Tensor changed = hook(gradient);
    if (!changed.defined()) continue;
    check(changed.shape() == gradient.shape() && changed.dtype() == gradient.dtype() &&
              changed.device() == gradient.device(),
          "on_gradient: the hook returned {} for a gradient of {}", describe(changed), describe(gradient));
    gradient = std::move(changed);
  }
  return gradient;
}

void Tape::filter_gradients(std::function<void(const char*, Grads&)> filter) { filter_ = std::move(filter); }

void Tape::on_step(std::function<void(const Step&)> listener) { listener_ = std::move(listener); }

void Tape::observe(const Pass& pass, const Backward& call, Grads& grads) {
  if (filter_) filter_(nodes_[pass.node].op, grads);
  if (listener_) show_step(pass.node, call, grads);
}

void Tape::show_step(size_t index, const Backward& call, Grads& grads) {
  const Node& node = nodes_[index];
  std::vector<Tensor> dx;
  for (size_t i = 0; i < grads.size(); ++i) {
    // A gradient that would only be added into the sum is computed separately, so that the listener
    // sees it.
    if (grads[i].kind_ == Grad::Kind::into && call.needs(i)) {
      const Slot& slot = slots_[static_cast<size_t>(node.inputs[i])];
      Tensor dense = empty(slot.shape, slot.dtype, slot.device);
      grads[i].add_(dense, true);
      grads[i] = dense;
    }
    dx.push_back(call.needs(i) ? grads[i].value() : Tensor());
  }
  listener_({index, node.op, call.dy_, dx});
}

void Tape::check_finite(const Tensor& x, const char* what, const Node& node, size_t index) const {
  if (!x.defined() || !is_floating(x.dtype())) return;
  const Pause pause;
  Tensor finite = empty({}, DType::boolean, x.device());
  VITRINE_RUN(all_finite, finite, x);
  check(finite.item() != 0,
        "anomaly: the {} of {} (op {}{}{}) is the first with an element that is not finite", what, node.op,
        index, node.module->empty() ? "" : ", in ", *node.module);
}

}  // namespace vitrine
