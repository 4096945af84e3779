// The backward pass: one loop from the end of the tape. Gradients are added up in
// core/accumulate.cpp; hooks and listeners are called in core/observers.cpp.
#include <algorithm>
#include <exception>
#include <utility>

#include "core/adjoint.h"
#include "core/backward_pass.h"
#include "core/creation.h"

namespace vitrine {

void Tape::run_nodes(Pass& pass) {
  for (pass.node = nodes_.size(); pass.node-- > 0;) {
    Backward call = take_output_gradients(pass);
    check(!dead_, "{}", death_);  // a pass inside a hook or a listener has failed
    if (call.has_work()) {
      const detail::BackwardScope scope(nodes_[pass.node].op, nodes_[pass.node].module);
      Grads grads = call_backward(pass, call);
      observe(pass, call, grads);
      for (size_t i = 0; i < grads.size(); ++i)
        if (call.needs(i) && grads[i].defined()) add_gradient(pass, i, std::move(grads[i]));
    }
    if (!pass.keep) nodes_[pass.node].backward = nullptr;
  }
}

namespace {

std::string place(const std::string& module) { return module.empty() ? "" : ", in " + module; }

/// The message of the exception that is being handled.
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

Backward Tape::take_output_gradients(Pass& pass) const {
  // A hook of a recorded pass may append nodes and so move this node, so no reference to it is
  // kept.
  const auto node = [&]() -> const Node& { return nodes_[pass.node]; };
  Backward call;
  call.recorded_ = pass.recorded;
  if (node().cut || !node().backward) return call;
  for (size_t i = 0; i < node().outputs.size(); ++i) {
    const int32_t slot = node().outputs[i];
    Tensor& gradient = pass.gradients[static_cast<size_t>(slot)];
    if (gradient.defined()) gradient = apply_hooks(pass, slot, std::move(gradient));
    call.dy_.push_back(pass.wanted[static_cast<size_t>(slot)] ? gradient : std::move(gradient));
  }
  for (int32_t slot : node().inputs)
    call.needs_.push_back(slot >= 0 && pass.needed[static_cast<size_t>(slot)]);
  return call;
}

Grads Tape::call_backward(Pass& pass, Backward& call) {
  const Node& node = nodes_[pass.node];
  const char* const op = node.op;
  const size_t inputs = node.inputs.size();
  const auto take_sum = [&](size_t i) {
    const bool seen = listener_ || filter_;  // they have to see this backward's contribution alone
    return seen ? Tensor() : std::exchange(sum_of(pass, nodes_[pass.node].inputs[i]), Tensor());
  };
  call.take_sum_ = std::ref(take_sum);
  // A recorded backward may append nodes and so move the running function, so a copy runs.
  Grads grads = pass.recorded ? BackwardFunction(node.backward)(call) : node.backward(call);
  call.take_sum_ = nullptr;
  check(grads.size() == inputs, "the backward of {} returned {} gradients for {} inputs", op, grads.size(),
        inputs);
  return grads;
}

void Tape::mark_needed(Pass& pass) const {
  for (const Node& node : nodes_) {
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(), [&](int32_t slot) {
      return slot >= 0 && pass.needed[static_cast<size_t>(slot)];
    });
    if (any && !node.cut)
      for (int32_t slot : node.outputs) pass.needed[static_cast<size_t>(slot)] = true;
  }
}

void Tape::run(Pass& pass) {
  mark_needed(pass);
  const Pass* const outer = std::exchange(running_, &pass);
  try {
    const Pause pause;  // restores the recording tape, even after an exception
    const KernelTrace::Stop stop(!pass.recorded);
    if (pass.recorded) resume_recording();  // the ops of the backwards are appended to the tape
    run_nodes(pass);
    finish_sums(pass);
  } catch (...) {
    running_ = outer;
    fail_pass(pass);
  }
  running_ = outer;
  for (const auto& [leaf, was_stale] : pass.changed) leaf->stale = was_stale;
  if (!pass.keep) consume();
}

void Tape::fail_pass(const Pass& pass) {
  dead_ = true;
  const std::string where = pass.node < nodes_.size()
                                ? fmt::format("backward of {} (op {}{})", nodes_[pass.node].op, pass.node,
                                              place(*nodes_[pass.node].module))
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

void Tape::backward(const Tensor& loss, Keep keep) {
  check(loss.numel() == 1,
        "backward: the loss has the shape {}, wanted one element (or give a seed of that shape)",
        loss.shape());
  const Pause pause;
  backward(loss, ones_like(loss), keep);
}

/// A pass that consumes the tape frees nodes as it goes, and another one would take them as cut.
void Tape::check_not_running(const char* what, bool keep) const {
  check(
      running_ == nullptr || (running_->keep && keep),
      "{}: a {} of this tape is running, which called this one in a hook or a listener; wanted Keep::yes for "
      "both, or a tape of its own",
      what, running_ ? running_->name : "");
}

void Tape::backward(const Tensor& loss, const Tensor& seed, Keep keep) {
  check_usable("backward");
  check_not_running("backward", keep == Keep::yes);
  check(slot_of(loss) >= 0, "backward: the loss, {}, was not recorded on this tape; {}", describe(loss),
        was_on_dead_tape(loss) ? "it was on one that has ended" : "no leaf or watched tensor leads to it");
  Pass pass{"backward", true, false, keep == Keep::yes, {}, {}, {}, {}, 0};
  seed_pass(pass, {loss}, {seed});
  for (size_t i = 0; i < slots_.size(); ++i) {
    pass.needed[i] = slots_[i].leaf != nullptr || !slots_[i].hooks.empty();
    pass.wanted[i] = slots_[i].leaf == nullptr && !slots_[i].hooks.empty() && slots_[i].producer < 0;
  }
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
  check_not_running("gradient", keep == Keep::yes || options_.order > 1);
  check(ys.size() == seeds.size(), "gradient: {} outputs and {} seeds were given", ys.size(), seeds.size());
  check(xs.size() == sums.size(), "gradient: {} tensors and {} sums were given", xs.size(), sums.size());
  int8_t depth = 1;
  for (const Tensor& y : ys) {
    const int32_t slot = slot_of(y);
    const int32_t producer = slot < 0 ? -1 : slots_[static_cast<size_t>(slot)].producer;
    if (producer >= 0) depth = std::max(depth, nodes_[static_cast<size_t>(producer)].depth);
  }
  const bool recorded = depth < options_.order;
  Pass pass{"gradient", false, recorded, keep == Keep::yes || options_.order > 1, {}, {}, {}, {}, 0};
  for (const Tensor& x : xs)
    check(find_or_add_slot(x) >= 0, "gradient: {} is not tracked by this tape; {}", describe(x),
          x.defined() && !is_floating(x.dtype()) ? "only floating tensors have gradients"
                                                 : "watch() it before it is used");
  pass.gradients.resize(slots_.size());
  for (size_t i = 0; i < xs.size(); ++i) {
    if (!sums[i].defined()) continue;
    const auto slot = static_cast<size_t>(slot_of(xs[i]));
    const DType dtype = slots_[slot].dtype;  // of a parameter in 16 bits: float32
    Tensor& sum = pass.gradients[slot];
    check(!sum.defined(), "gradient: {} is given twice, with a sum each", describe(xs[i]));
    check(sums[i].shape() == xs[i].shape() && is_floating(sums[i].dtype()),
          "gradient: the sum is {} for {}, wanted the same shape and a floating dtype", describe(sums[i]),
          describe(xs[i]));
    sum = sums[i].dtype() == dtype ? std::move(sums[i]) : adjoint::cast(sums[i], dtype);
  }
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
  // The sum of tracked seeds was itself recorded, which may have added slots.
  pass.gradients.resize(slots_.size());
  pass.needed.resize(slots_.size());
  pass.wanted.resize(slots_.size());
}

void Tape::forbid_derivatives(std::vector<Tensor> xs, const std::vector<Tensor>& ys,
                              std::vector<Tensor>& gradients, int depth) {
  xs.insert(xs.end(), ys.begin(), ys.end());  // gradients depend on all that ys depend on
  push("gradient", xs, gradients, [depth](const Backward&) -> Grads {
    fail(
        "this is a derivative of order {0} from a tape of order {0}, and was not recorded: use "
        "Tape({{.order = {1}}}), or detach() it if it is meant as a constant",
        depth, depth + 1);
  });
  nodes_.back().forward = nullptr;  // no op, so check_tape has nothing to check
}

void Tape::consume() {
  consumed_ = true;
  for (Node& node : nodes_) node.backward = nullptr;
  if (kernels_) kernels_->end();
  stop_recording();
}

}  // namespace vitrine
