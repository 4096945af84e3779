// The backward pass: one loop from the end of the tape.
#include <algorithm>
#include <exception>
#include <utility>

#include "core/adjoint.h"
#include "core/creation.h"
#include "core/profiler.h"
#include "core/record.h"
#include "core/state.h"
#include "core/tensor_kernels.h"

namespace vitrine {

/// One backward pass over the tape.
struct Tape::Pass {
  const char* name;
  bool to_leaves;  ///< add into leaves (backward), or return gradients (gradient)
  bool recorded;   ///< the pass is itself recorded
  bool keep;
  std::vector<Tensor> gradients;  ///< by slot
  std::vector<bool> needed;       ///< by slot
  std::vector<bool> wanted;       ///< by slot: asked for by gradient()
  struct Change {
    Leaf* leaf;
    bool was_stale;
  };
  std::vector<Change>
      changed;  ///< leaves added to so far, marked as stale until the pass has come to its end

  void will_change(Leaf& leaf) {
    // A leaf that is not stale has not been changed by this pass: only a second use has to be looked for.
    if (leaf.stale &&
        std::any_of(changed.begin(), changed.end(), [&](const Change& c) { return c.leaf == &leaf; }))
      return;
    changed.push_back({&leaf, std::exchange(leaf.stale, true)});
  }
};

namespace {

/// An owned, contiguous copy unless it is one already: the sum may then be written in place.
void make_writable(Tensor& sum, DType dtype) {
  if (!sum.is_exclusive() || !sum.is_contiguous() || sum.dtype() != dtype) sum = copy_as(sum, dtype);
}

/// Whether a gradient may be handed out: no other handle sees its memory, and no two of its elements share theirs.
bool is_owned(const Tensor& gradient) {
  if (!gradient.is_exclusive()) return false;
  for (int i = 0; i < gradient.rank(); ++i)
    if (gradient.strides()[i] == 0 && gradient.shape()[i] > 1) return false;
  return true;
}

std::string place(const std::string& module) { return module.empty() ? "" : ", in " + module; }

/// Of the exception that is being handled.
std::string message() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace

void Tape::backward(const Tensor& loss, Keep keep) {
  check(loss.numel() == 1,
        "backward: the loss has the shape {}, wanted one element (or give a seed of that shape)",
        loss.shape());
  const Pause pause;
  backward(loss, ones_like(loss), keep);
}

void Tape::backward(const Tensor& loss, const Tensor& seed, Keep keep) {
  check_usable("backward");
  check(slot_of(loss) >= 0, "backward: the loss, {}, was not recorded on this tape; {}", describe(loss),
        was_on_dead_tape(loss) ? "it was on one that has ended" : "no leaf or watched tensor leads to it");
  Pass pass{"backward", true, false, keep == Keep::yes, {}, {}, {}, {}};
  seed_pass(pass, {loss}, {seed});
  for (size_t i = 0; i < slots_.size(); ++i) pass.needed[i] = slots_[i].leaf != nullptr;
  run(pass);
}

std::vector<Tensor> Tape::gradient(const Tensor& y, const std::vector<Tensor>& xs, Keep keep) {
  check(y.numel() == 1, "gradient: y has the shape {}, wanted one element (or give seeds)", y.shape());
  Tensor seed;
  {
    const Pause pause;
    seed = ones_like(y);
  }
  return gradient(std::vector<Tensor>{y}, xs, {seed}, keep);
}

std::vector<Tensor> Tape::gradient(const std::vector<Tensor>& ys, const std::vector<Tensor>& xs,
                                   const std::vector<Tensor>& seeds, Keep keep) {
  return gradient(ys, xs, seeds, std::vector<Tensor>(xs.size()), keep);
}

std::vector<Tensor> Tape::gradient(const std::vector<Tensor>& ys, const std::vector<Tensor>& xs,
                                   const std::vector<Tensor>& seeds, std::vector<Tensor> sums, Keep keep) {
  check_usable("gradient");
  check(ys.size() == seeds.size(), "gradient: {} outputs and {} seeds were given", ys.size(), seeds.size());
  check(xs.size() == sums.size(), "gradient: {} tensors and {} sums were given", xs.size(), sums.size());
  int8_t depth = 1;
  for (const Tensor& y : ys) {
    const int32_t slot = slot_of(y);
    const int32_t producer = slot < 0 ? -1 : slots_[static_cast<size_t>(slot)].producer;
    if (producer >= 0) depth = std::max(depth, nodes_[static_cast<size_t>(producer)].depth);
  }
  const bool recorded = depth < options_.order;
  Pass pass{"gradient", false, recorded, keep == Keep::yes || options_.order > 1, {}, {}, {}, {}};
  for (const Tensor& x : xs)
    check(find_or_add_slot(x) >= 0, "gradient: {} is not tracked by this tape; {}", describe(x),
          x.defined() && !is_floating(x.dtype()) ? "only floating tensors have gradients"
                                                 : "watch() it before it is used");
  pass.gradients.resize(slots_.size());
  for (size_t i = 0; i < xs.size(); ++i)
    if (sums[i].defined()) pass.gradients[static_cast<size_t>(slot_of(xs[i]))] = std::move(sums[i]);
  seed_pass(pass, ys, seeds);
  for (const Tensor& x : xs)
    pass.needed[static_cast<size_t>(slot_of(x))] = pass.wanted[static_cast<size_t>(slot_of(x))] = true;
  const int8_t outer_depth = std::exchange(depth_, static_cast<int8_t>(depth + 1));
  run(pass);
  std::vector<Tensor> result = take_results(pass, xs);
  depth_ = outer_depth;
  if (!recorded && recording() == this) forbid_derivatives(xs, ys, result, depth);
  return result;
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
    if (!is_owned(gradient)) gradient = adjoint::cast(gradient, gradient.dtype());
  return result;
}

void Tape::forbid_derivatives(std::vector<Tensor> xs, const std::vector<Tensor>& ys,
                              std::vector<Tensor>& gradients, int depth) {
  xs.insert(xs.end(), ys.begin(), ys.end());  // they depend on whatever ys does
  push("gradient", xs, gradients, [depth](const Backward&) -> Grads {
    fail(
        "this is a derivative of order {0} from a tape of order {0}, and was not recorded: use "
        "Tape({{.order = {1}}}), or detach() it if it is meant as a constant",
        depth, depth + 1);
  });
  nodes_.back().forward = nullptr;  // no op, so check_tape has nothing to check
}

void Tape::seed_pass(Pass& pass, const std::vector<Tensor>& ys, const std::vector<Tensor>& seeds) {
  pass.gradients.resize(slots_.size());
  pass.needed.assign(slots_.size(), false);
  pass.wanted.assign(slots_.size(), false);
  for (size_t i = 0; i < ys.size(); ++i) {
    check(seeds[i].shape() == ys[i].shape() && seeds[i].dtype() == ys[i].dtype(),
          "{}: the seed is {} and the output {}, wanted the same shape and dtype", pass.name,
          describe(seeds[i]), describe(ys[i]));
    const int32_t slot = slot_of(ys[i]);
    if (slot < 0) continue;  // a constant: nothing depends on it
    Tensor& gradient = pass.gradients[static_cast<size_t>(slot)];
    gradient = gradient.defined() ? adjoint::add(gradient, seeds[i]) : seeds[i];
  }
  // A sum of seeds that are tracked was itself recorded.
  pass.gradients.resize(slots_.size());
  pass.needed.resize(slots_.size());
  pass.wanted.resize(slots_.size());
}

void Tape::run(Pass& pass) {
  const size_t count = nodes_.size();
  for (size_t i = 0; i < count; ++i) {
    const Node& node = nodes_[i];
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(), [&](int32_t slot) {
      return slot >= 0 && pass.needed[static_cast<size_t>(slot)];
    });
    if (any && !node.cut)
      for (int32_t slot : node.outputs) pass.needed[static_cast<size_t>(slot)] = true;
  }
  size_t index = count;
  try {
    const Pause pause;  // restores the recording tape, whatever happens
    const KernelTrace::Stop stop(!pass.recorded);
    if (pass.recorded) {
      // The tape goes on recording: what the backwards run is appended after `count`.
      resume_recording();
    }
    while (index-- > 0) {
      run_node(pass, index);
      if (!pass.keep) nodes_[index].backward = nullptr;
    }
    if (pass.to_leaves) add_to_leaves(pass);
    for (size_t slot = 0; slot < pass.wanted.size(); ++slot)
      if (pass.wanted[slot] && pass.gradients[slot].defined() && slots_[slot].producer < 0)
        pass.gradients[slot] = apply_hooks(pass, static_cast<int32_t>(slot), std::move(pass.gradients[slot]));
  } catch (...) {
    detail::set_backward_op("");
    dead_ = true;
    std::string where = index < count ? fmt::format("backward of {} (op {}{})", nodes_[index].op, index,
                                                    place(*nodes_[index].module))
                                      : std::string(pass.name);
    death_ = fmt::format("{} failed: {}", where, message());
    consume();
    std::vector<std::string> names;
    for (const auto& [leaf, was_stale] : pass.changed)
      names.push_back(leaf->name.empty() ? "(unnamed)" : leaf->name);
    if (names.empty()) throw Error(death_);
    throw Error(
        fmt::format("{}; already changed are the gradients of {}: call zero_grad() before the next step",
                    death_, fmt::join(names, ", ")));
  }
  for (const auto& [leaf, was_stale] : pass.changed) leaf->stale = was_stale;
  if (!pass.keep) consume();
}

void Tape::run_node(Pass& pass, size_t index) {
  Node& node = nodes_[index];
  if (node.cut || !node.backward) return;
  Backward call;
  call.recorded_ = pass.recorded;
  bool any = false;
  for (int32_t slot : node.outputs) {
    Tensor& gradient = pass.gradients[static_cast<size_t>(slot)];
    if (gradient.defined()) gradient = apply_hooks(pass, slot, std::move(gradient));
    any |= gradient.defined();
    call.dy_.push_back(pass.wanted[static_cast<size_t>(slot)] ? gradient : std::move(gradient));
  }
  bool anyone_needs = false;
  for (int32_t slot : node.inputs) {
    call.needs_.push_back(slot >= 0 && pass.needed[static_cast<size_t>(slot)]);
    anyone_needs |= call.needs_.back();
  }
  if (!any || !anyone_needs) return;

  const int64_t start = Profiler::active() ? detail::now_nanoseconds() : 0;
  const ModuleScope scope(node.module);
  detail::set_backward_op(node.op);
  // A recorded pass may append nodes and so move this one: keep what is used after the call.
  const char* const op = node.op;
  const std::vector<int32_t> inputs = node.inputs;
  const BackwardFunction backward = pass.keep ? node.backward : std::exchange(node.backward, nullptr);
  const auto take_sum = [&](size_t i) {
    const bool seen = listener_ || filter_;  // they want what this backward adds, alone
    return seen ? Tensor() : std::exchange(sum_of(pass, inputs[i]), Tensor());
  };
  call.take_sum_ = std::ref(take_sum);
  Grads grads = backward(call);
  check(grads.size() == inputs.size(), "the backward of {} returned {} gradients for {} inputs", op,
        grads.size(), inputs.size());
  if (filter_) filter_(op, grads);
  if (listener_) show_step(index, call, grads);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!call.needs_[i] || !grads[i].defined()) continue;
    const Tensor& sum = add_gradient(pass, inputs[i], std::move(grads[i]), op);
    if (options_.anomaly) check_finite(sum, "gradient", nodes_[index], index);
  }
  detail::set_backward_op("");
  if (start != 0) Profiler::note(op, "backward", start, detail::now_nanoseconds());
}

void Tape::show_step(size_t index, const Backward& call, Grads& grads) {
  const Node& node = nodes_[index];
  std::vector<Tensor> dx;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].kind_ == Grad::Kind::into && call.needs(i)) {  // what would be added unseen is made visible
      const Slot& slot = slots_[static_cast<size_t>(node.inputs[i])];
      Tensor dense = empty(slot.shape, slot.dtype, slot.device);
      grads[i].add_(dense, true);
      grads[i] = dense;
    }
    dx.push_back(call.needs(i) ? grads[i].value() : Tensor());
  }
  listener_({index, node.op, call.dy_, dx});
}

Tensor& Tape::sum_of(Pass& pass, int32_t index) {
  const auto i = static_cast<size_t>(index);
  const Slot& slot = slots_[i];
  if (!pass.to_leaves || !slot.leaf || !slot.hooks.empty()) return pass.gradients[i];
  pass.will_change(*slot.leaf);
  return slot.leaf->grad;
}

const Tensor& Tape::add_gradient(Pass& pass, int32_t index, Grad grad, const char* op) {
  const Slot slot = slots_[static_cast<size_t>(index)];
  if (grad.kind_ == Grad::Kind::dense)
    check(grad.value_.shape() == slot.shape,
          "the backward of {} returned a gradient of shape {} for an input of {}", op, grad.value_.shape(),
          slot.shape);
  Tensor& sum = sum_of(pass, index);
  add_to(slot, sum, grad, pass.recorded);
  return sum;
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
  if (grad.kind_ == Grad::Kind::dense && first) {
    sum = std::move(grad.value_);
    // What a leaf keeps may later be scaled in place: it must not be shared, say with another leaf's gradient.
    const bool shared = slot.leaf && !(sum.is_contiguous() && sum.is_exclusive());
    if (sum.dtype() != slot.dtype || shared) sum = copy_as(sum, slot.dtype);
    return;
  }
  if (first) {
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
      VITRINE_RUN(accumulate_rows, sum, rows, grad.rows_);
      break;
    }
    case Grad::Kind::into: grad.add_(sum, first); break;
  }
}

Tensor Tape::apply_hooks(const Pass& pass, int32_t slot, Tensor gradient) const {
  for (const auto& hook : slots_[static_cast<size_t>(slot)].hooks) {
    // What the hook is shown is its own to write. In a recorded pass the tape refuses writes into what it tracks.
    if (!is_owned(gradient) && (!pass.recorded || !tracks(gradient)))
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

void Tape::add_to_leaves(Pass& pass) {
  for (size_t i = 0; i < pass.gradients.size(); ++i) {
    const Slot& slot = slots_[i];
    if (!slot.leaf || !pass.gradients[i].defined()) continue;
    Grad grad(apply_hooks(pass, static_cast<int32_t>(i), std::move(pass.gradients[i])));
    pass.will_change(*slot.leaf);
    add_to(slot, slot.leaf->grad, grad, false);
  }
}

void Tape::consume() {
  consumed_ = true;
  for (Node& node : nodes_) node.backward = nullptr;
  if (kernels_) kernels_->end();
  stop_recording();
}

}  // namespace vitrine
