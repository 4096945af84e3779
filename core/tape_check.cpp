// The tape's functions for check_tape: evaluating nodes one at a time.
#include <algorithm>
#include <utility>

#include "core/backward_pass.h"
#include "core/creation.h"
#include "core/state.h"

namespace vitrine {

void Tape::keep_definition(std::span<const Tensor> inputs,
                           const std::function<std::vector<Tensor>()>& definition) {
  const int64_t start = detail::now_nanoseconds();
  const Pause pause;
  defined_ = {{inputs.begin(), inputs.end()}, {}, {}};
  // The ops inside a definition run through their definitions too, because those support dual
  // numbers.
  detail::run_definitions(true);
  try {
    defined_.outputs = definition();
  } catch (const std::exception& e) {
    defined_.error = e.what();
  }
  detail::run_definitions(false);
  detail::discard_saved();
  last_record_ += detail::now_nanoseconds() - start;
}

std::shared_ptr<NodeForward> Tape::keep_forward(std::span<const Tensor> inputs,
                                                std::span<const Tensor> outputs) {
  const auto given = [&](const Tensor& x) {
    return !x.defined() || std::any_of(defined_.inputs.begin(), defined_.inputs.end(),
                                       [&](const Tensor& y) { return y.defined() && y.is_same(x); });
  };
  auto forward = std::make_shared<NodeForward>();
  if (!defined_.inputs.empty() && std::all_of(inputs.begin(), inputs.end(), given)) {
    forward->definition_note = std::move(defined_.error);
    if (!defined_.outputs.empty())
      forward->definition = kernels_->program(inputs, std::move(defined_.outputs));
  }
  defined_ = {};
  forward->op = kernels_->program(inputs, {outputs.begin(), outputs.end()});
  kernels_->begin_op();
  return forward;
}

const NodeForward* Tape::forward_of(size_t node) const {
  check(node < nodes_.size(), "forward_of: node {} of a tape of {} nodes", node, nodes_.size());
  return nodes_[node].forward.get();
}

std::vector<Tensor> Tape::pull_back(size_t node, const std::vector<Tensor>& dy) {
  check_usable("pull_back");
  check(node < nodes_.size(), "pull_back: node {} of a tape of {} nodes", node, nodes_.size());
  const Node& n = nodes_[node];
  check(n.backward != nullptr, "pull_back: {} (op {}) has no backward", n.op, node);
  check(dy.size() == n.outputs.size(), "pull_back: {} gradients for the {} outputs of {} (op {})", dy.size(),
        n.outputs.size(), n.op, node);
  Backward call;
  for (size_t i = 0; i < dy.size(); ++i) {
    const Slot& slot = slots_[static_cast<size_t>(n.outputs[i])];
    check(!dy[i].defined() || (dy[i].shape() == slot.shape && dy[i].dtype() == slot.dtype),
          "pull_back: the gradient of output {} of {} (op {}) is {}, wanted {}{}", i, n.op, node,
          describe(dy[i]), name(slot.dtype), slot.shape);
    call.dy_.push_back(dy[i]);
  }
  for (int32_t slot : n.inputs) call.needs_.push_back(slot >= 0);
  const auto nothing = [](size_t) { return Tensor(); };
  call.take_sum_ = nothing;
  const Pause pause;
  const KernelTrace::Stop stop;
  const detail::BackwardScope scope(n.op, n.module);
  std::vector<Tensor> result(n.inputs.size());
  Grads grads = n.backward(call);
  check(grads.size() == n.inputs.size(), "the backward of {} returned {} gradients for {} inputs", n.op,
        grads.size(), n.inputs.size());
  for (size_t i = 0; i < grads.size(); ++i) {
    if (n.inputs[i] < 0) continue;
    const Slot& slot = slots_[static_cast<size_t>(n.inputs[i])];
    if (!grads[i].defined()) {
      result[i] = zeros(slot.shape, slot.dtype, slot.device);
      continue;
    }
    check_shape(n, slot, grads[i]);
    add_to(slot, result[i], grads[i], /*recorded=*/false);
  }
  return result;
}

void Tape::change_gradients(size_t node, std::function<void(Grads&)> change) {
  check_usable("change_gradients");
  check(node < nodes_.size() && nodes_[node].backward != nullptr,
        "change_gradients: node {} of a tape of {} nodes has no backward", node, nodes_.size());
  nodes_[node].backward = [inner = std::move(nodes_[node].backward),
                           change = std::move(change)](const Backward& b) {
    Grads grads = inner(b);
    change(grads);
    return grads;
  };
}

}  // namespace vitrine
