// Adds gradients up during a backward pass: by slot, or directly into the leaves.
#include <utility>

#include "core/adjoint.h"
#include "core/backward_pass.h"
#include "core/creation.h"
#include "core/tensor_kernels.h"
#include "core/written_rows.h"

namespace vitrine {

bool detail::is_owned(const Tensor& gradient) {
  if (!gradient.is_exclusive()) return false;
  for (int i = 0; i < gradient.rank(); ++i)
    if (gradient.strides()[i] == 0 && gradient.shape()[i] > 1) return false;
  return true;
}

namespace {

/// Replaces the sum by an owned, contiguous copy unless it already is one, so that it may be
/// written in place.
void make_writable(Tensor& sum, DType dtype) {
  if (!sum.is_exclusive() || !sum.is_contiguous() || sum.dtype() != dtype) sum = copy_as(sum, dtype);
}

}  // namespace

Tensor& Tape::sum_of(Pass& pass, int32_t index) {
  const auto i = static_cast<size_t>(index);
  const Slot& slot = slots_[i];
  if (!pass.to_leaves || !slot.leaf || !slot.hooks.empty()) return pass.gradients[i];
  pass.will_change(*slot.leaf);
  return slot.leaf->grad;
}

void Tape::add_gradient(Pass& pass, size_t input, Grad grad) {
  const Node& node = nodes_[pass.node];
  const int32_t index = node.inputs[input];
  const Slot slot = slots_[static_cast<size_t>(index)];
  check_shape(node, slot, grad);
  Tensor& sum = sum_of(pass, index);
  add_to(slot, sum, grad, pass.recorded);
  if (options_.anomaly) check_finite(sum, "gradient", nodes_[pass.node], pass.node);
}

WrittenRows* Tape::written_rows(const Slot& slot, const Tensor& sum, bool rows) {
  if (!slot.leaf || &sum != &slot.leaf->grad) return nullptr;
  auto& written = slot.leaf->written_rows;
  if (!rows) written = nullptr;  // every row may be written now
  if (rows && !sum.defined() && !written) written = std::make_unique<WrittenRows>();
  return written.get();
}

void Tape::check_shape(const Node& node, const Slot& slot, const Grad& grad) {
  if (grad.kind_ == Grad::Kind::dense)
    check(grad.value_.shape() == slot.shape,
          "the backward of {} returned a gradient of shape {} for an input of {}", node.op,
          grad.value_.shape(), slot.shape);
}

void Tape::add_to(const Slot& slot, Tensor& sum, Grad& grad, bool recorded) {
  if (recorded) {
    check(grad.kind_ != Grad::Kind::into, "a recorded backward returned Grad::into");
    check_not_paused(grad.value_);
    Tensor dense = grad.kind_ == Grad::Kind::dense ? grad.value_
                   : grad.kind_ == Grad::Kind::region
                       ? adjoint::embed(grad.value_, grad.region_, slot.shape)
                       : adjoint::put_rows(grad.value_, grad.rows_, slot.shape);
    if (dense.dtype() != slot.dtype) dense = adjoint::cast(dense, slot.dtype);
    sum = sum.defined() ? adjoint::add(sum, dense) : dense;
    return;
  }
  const bool first = !sum.defined();
  WrittenRows* const written = written_rows(slot, sum, grad.kind_ == Grad::Kind::rows);
  if (grad.kind_ == Grad::Kind::dense && first) {
    sum = std::move(grad.value_);
    // The gradient of a leaf may later be scaled in place, so no other gradient may share its
    // memory.
    const bool shared = slot.leaf && !(sum.is_contiguous() && sum.is_exclusive());
    if (sum.dtype() != slot.dtype || shared) sum = copy_as(sum, slot.dtype);
    return;
  }
  if (first && written) {
    sum = written->zeros(slot.shape, slot.dtype, slot.device);
  } else if (first) {
    sum = grad.kind_ == Grad::Kind::into ? empty(slot.shape, slot.dtype, slot.device)
                                         : zeros(slot.shape, slot.dtype, slot.device);
  } else {
    make_writable(sum, slot.dtype);
  }
  switch (grad.kind_) {
    case Grad::Kind::dense: VITRINE_RUN(accumulate, sum, grad.value_); break;
    case Grad::Kind::region: {
      Tensor part = sum.alias(grad.region_.shape, grad.region_.strides, grad.region_.offset);
      VITRINE_RUN(accumulate, part, grad.value_);
      break;
    }
    case Grad::Kind::rows: {
      const Tensor rows =
          grad.value_.is_contiguous() ? grad.value_ : copy_as(grad.value_, grad.value_.dtype());
      const bool known = written && written->describe(sum);
      VITRINE_RUN(accumulate_rows, sum, rows, grad.rows_);
      if (known) written->note(sum, grad.rows_);
      break;
    }
    case Grad::Kind::into: grad.add_(sum, first); break;
  }
}

void Tape::finish_sums(Pass& pass) {
  if (pass.to_leaves) add_to_leaves(pass);
  for (size_t slot = 0; slot < pass.wanted.size(); ++slot)
    if (pass.wanted[slot] && pass.gradients[slot].defined() && slots_[slot].producer < 0)
      pass.gradients[slot] = apply_hooks(pass, static_cast<int32_t>(slot), std::move(pass.gradients[slot]));
}

void Tape::add_to_leaves(Pass& pass) {
  for (size_t i = 0; i < pass.gradients.size(); ++i) {
    const Slot slot = slots_[i];  // a copy, because a hook may add slots
    if (!slot.leaf || !pass.gradients[i].defined()) continue;
    Grad grad(apply_hooks(pass, static_cast<int32_t>(i), std::move(pass.gradients[i])));
    pass.will_change(*slot.leaf);
    add_to(slot, slot.leaf->grad, grad, false);
  }
}

std::vector<Tensor> Tape::take_results(Pass& pass, const std::vector<Tensor>& xs) {
  const Pause pause;
  if (pass.recorded) resume_recording();
  std::vector<Tensor> result;
  for (const Tensor& x : xs) {
    const auto i = static_cast<size_t>(slot_of(x));
    const Slot& slot = slots_[i];
    result.push_back(pass.gradients[i].defined() ? pass.gradients[i]
                                                 : zeros(slot.shape, slot.dtype, slot.device));
  }
  pass.gradients.clear();
  for (Tensor& gradient : result)
    if (!detail::is_owned(gradient)) gradient = adjoint::cast(gradient, gradient.dtype());
  return result;
}

}  // namespace vitrine
