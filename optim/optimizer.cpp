#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "core/creation.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/view.h"
#include "optim/gradients.h"

namespace vitrine::optim {

namespace {

void check_lr(double lr) {
  check(lr >= 0 && std::isfinite(lr),
        "Optimizer: the learning rate is {}, wanted a finite number of at least 0", lr);
}

void check_options(const GroupOptions& options) {
  check_lr(options.lr);
  check(options.weight_decay >= 0 && std::isfinite(options.weight_decay),
        "Optimizer: the weight decay is {}, wanted a finite number of at least 0", options.weight_decay);
}

}  // namespace

std::string Optimizer::called(const Parameter& p) {
  return p.name().empty() ? fmt::format("{}", describe(p.value())) : p.name();
}

Optimizer::Optimizer(std::vector<Parameter> parameters, GroupOptions options) {
  add_group({std::move(parameters), options});
}

void Optimizer::add_group(Group group) {
  check(!group.parameters.empty(), "Optimizer: a group without parameters");
  check_options(group.options);
  std::set<const void*> known;
  for (const Group& other : groups_)
    for (const Parameter& p : other.parameters) known.insert(p.identity());
  for (const Parameter& p : group.parameters)
    check(known.insert(p.identity()).second, "Optimizer: the parameter {} is given twice", called(p));
  std::vector<Parameter> all = group.parameters;
  for (const Group& other : groups_) all.insert(all.end(), other.parameters.begin(), other.parameters.end());
  std::vector<Tensor> memory;
  for (const Parameter& p : all)
    memory.push_back(p.stored().whole.defined() ? p.stored().whole : p.stored().copy);
  const std::vector<bool> shared = share_memory(memory);
  for (size_t i = 0; i < all.size(); ++i)
    check(
        !shared[i],
        "Optimizer: the parameter {} shares memory with another or with itself, and would be updated twice; "
        "tied parameters are copies of one Parameter",
        called(all[i]));
  groups_.push_back(std::move(group));
}

void Optimizer::add_estimates(const std::vector<Parameter>&, const std::vector<Tensor>&) {
  fail("add_estimates: the rule has no place for estimates of the Hessian; Sophia has");
}

void Optimizer::set_lr(double lr) {
  check_lr(lr);
  for (Group& group : groups_) group.options.lr = lr;
}

void Optimizer::set_lr_factor(double factor) {
  check(factor >= 0 && std::isfinite(factor),
        "Optimizer: the factor of the learning rates is {}, wanted a finite number of at least 0", factor);
  lr_factor_ = factor;
}

void Optimizer::set_moments(DType dtype) {
  check(dtype == DType::float32 || dtype == DType::bfloat16,
        "set_moments: moments can be float32 or bfloat16, got {}", name(dtype));
  for (const auto& [id, state] : state_)
    check(state.slots.empty() && state.steps == 0,
          "set_moments: the states exist already: call it before the first step, set_state and "
          "load_state_dict");
  std::vector<StateSlot> all;
  for (const Group& group : groups_)
    for (const Parameter& p : group.parameters) std::ranges::copy(slots(p), std::back_inserter(all));
  check(dtype == DType::float32 || std::ranges::any_of(all, &StateSlot::is_moment),
        "set_moments: this rule has no moments that can be {}", name(dtype));
  moments_ = dtype;
}

DType Optimizer::dtype_of(const StateSlot& slot, const Parameter& p) const {
  return slot.is_moment && p.master_dtype() == DType::float32 ? moments_ : p.master_dtype();
}

void Optimizer::zero_grad() {
  for (Group& group : groups_)
    for (Parameter& p : group.parameters) p.zero_grad();
}

GroupOptions Optimizer::options_now(size_t group) const {
  GroupOptions now = groups_[group].options;
  now.lr *= lr_factor_;
  check_options(now);  // callers can write any value through groups()
  return now;
}

int64_t Optimizer::steps(const Parameter& parameter) const {
  const auto found = state_.find(parameter.identity());
  return found == state_.end() ? 0 : found->second.steps;
}

bool Optimizer::has_states(const Parameter& parameter) const {
  const auto found = state_.find(parameter.identity());
  return found != state_.end() && !found->second.slots.empty();
}

/// Replays of a graph can follow eager steps and loaded states. These may have given the parameters
/// of one launch different step counts.
int64_t Optimizer::common_steps(const std::vector<Parameter>& parameters) const {
  for (const Parameter& p : parameters)
    check(state_.count(p.identity()) > 0 && steps(p) == steps(parameters[0]),
          "step: {} has taken {} steps and {} has taken {}, but the graph was captured when both had taken "
          "the same number: capture it again",
          called(parameters[0]), steps(parameters[0]), called(p), steps(p));
  return steps(parameters[0]);
}

/// Adds the parameter, without a gradient.
void Optimizer::add(ParameterBatch& batch, const Parameter& p) {
  const Parameter::Stored& stored = p.stored();
  const bool split = stored.rest.defined();
  batch.parameters.push_back(p);
  batch.x.push_back(split && writes_partners() ? stored.copy : p.master());
  batch.partners.push_back(split ? stored.rest : stored.copy);
  State& state = state_[p.identity()];
  batch.states.push_back(&state);
  state.owner = p;
  if (state.slots.empty()) state.slots = initial_states(p);
  const DType moments = p.master_dtype() == DType::float32 ? moments_ : p.master_dtype();
  for (const auto& [slot, x] : state.slots)
    if ((x.dtype() != p.master_dtype() && x.dtype() != moments) || x.device() != p.device())
      fail(
          "step: {} is {} on {} now, and its state {} {} on {}: convert the model before the optimizer's first step",
          called(p), vitrine::name(p.master_dtype()), to_string(p.device()), slot, vitrine::name(x.dtype()),
          to_string(x.device()));
}

void Optimizer::add_gradient(ParameterBatch& batch, const Parameter& p) const {
  const Tensor g = is_capturable() ? gradient_of(p) : p.grad();
  const bool fits = g.is_contiguous() &&
                    (g.dtype() == p.master_dtype() ||
                     (writes_partners() && g.dtype() == DType::bfloat16 && p.dtype() == DType::bfloat16));
  batch.g.push_back(fits ? g : copy_as(g, p.master_dtype()));
}

/// Removes states that were created for a step that did not happen for these batches.
void Optimizer::forget(std::span<const ParameterBatch> batches) {
  for (const ParameterBatch& batch : batches)
    if (batch.first)
      for (State* state : batch.states) state->slots.clear();
}

/// The batches of all groups. An error in any of them is thrown before any parameter changes.
std::vector<Optimizer::ParameterBatch> Optimizer::batches() {
  std::vector<ParameterBatch> all;
  std::set<const void*> met;
  try {
    for (size_t group = 0; group < groups_.size(); ++group) {
      options_now(group);
      std::map<std::pair<int64_t, bool>, size_t> by_steps;
      for (const Parameter& p : groups_[group].parameters) {
        if (!gradient_of(p).defined()) continue;
        check(met.insert(p.identity()).second, "step: the parameter {} is in the groups twice", called(p));
        const bool first = !has_states(p);
        const auto [found, is_new] = by_steps.try_emplace({steps(p), first}, all.size());
        if (is_new) {
          all.emplace_back();
          all.back().group = group, all.back().steps = steps(p), all.back().first = first;
        }
        add_gradient(all[found->second], p);
        add(all[found->second], p);
      }
    }
    check_gradients(all);
    for (const ParameterBatch& batch : all) check_ready(batch);
    forget_removed();
  } catch (...) {
    forget(all);
    throw;
  }
  return all;
}

/// Frees the states of parameters that are in no group any more.
void Optimizer::forget_removed() {
  std::set<const void*> ours;
  for (const Group& group : groups_)
    for (const Parameter& p : group.parameters) ours.insert(p.identity());
  std::erase_if(state_, [&](const auto& entry) { return !ours.count(entry.first); });
}

/// A step that moves nothing is an error, unless all parameters are frozen on purpose.
void Optimizer::check_gradients(std::span<const ParameterBatch> batches) const {
  if (!batches.empty()) return;
  for (const Group& group : groups_)
    for (const Parameter& p : group.parameters)
      check(!p.requires_grad(),
            "step: no parameter has a gradient: call backward() of the tape that recorded the loss between "
            "zero_grad() and step(); Tape::explain({}, loss) says why a backward gives none",
            p.name().empty() ? "parameter" : p.name());
}

std::map<std::string, Tensor> Optimizer::initial_states(const Parameter& p) const {
  std::map<std::string, Tensor> result;
  for (const StateSlot& slot : slots(p)) {
    detail::refuse_in_capture("step (the first one, which makes the optimizer's state)");
    result[slot.name] = slot.from_parameter ? copy_as(p.master(), p.master_dtype())
                                            : full(slot.shape, slot.initial, dtype_of(slot, p), p.device());
  }
  return result;
}

void Optimizer::move_to(Point point) {
  if (point == point_) return;
  if (averages()) write_points(point);
  point_ = point;
}

/// Parameters without states have not moved: both points are the same.
void Optimizer::write_points(Point point) {
  detail::refuse_in_capture("move_to");
  const Tape::Pause pause;
  for (size_t group = 0; group < groups_.size(); ++group) {
    ParameterBatch batch;
    batch.group = group;
    for (const Parameter& p : groups_[group].parameters)
      if (has_states(p)) add(batch, p);
    if (batch.parameters.empty()) continue;
    batch.g = batch.x;
    write_point(batch, point);
    for (size_t i = 0; i < batch.x.size() && !writes_partners(); ++i) batch.parameters[i].assign(batch.x[i]);
  }
}

void Optimizer::step(const ClipFactor& clip) {
  check(point_ == Point::training,
        "step: the parameters are at the evaluation point; call move_to(Optimizer::Point::training) first");
  for (const Group& group : groups_)
    for (const Parameter& p : group.parameters)
      if (p.requires_grad() && p.value().leaf()->stale)
        fail(
            "step: the gradient of {} is incomplete, as a backward failed; call zero_grad() and run the step "
            "again",
            called(p));
  check(is_capturable() || !detail::capturing(),
        "step: a graph is being captured, and this rule works out its rates on the CPU, so that each replay "
        "would repeat those of the capture; a kernel that is given numbers() does not");
  const Tape::Pause pause;
  std::vector<ParameterBatch> all = batches();
  std::vector<const void*> moved;
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].factor = clip.factor;
    try {
      if (clip.factor.defined() && !writes_partners())
        for (Tensor& g : all[i].g) g = g * cast(clip.factor, g.dtype());
      update(all[i], options_now(all[i].group), all[i].steps + 1);
      for (size_t k = 0; k < all[i].parameters.size(); ++k) {
        Parameter& p = all[i].parameters[k];
        moved.push_back(p.identity());
        if (!writes_partners()) p.assign(all[i].x[k]);
      }
    } catch (...) {
      forget(std::span(all).subspan(i));
      throw;
    }
  }
  each_time([this, moved] {
    for (const void* id : moved) ++state_[id].steps;
    ++steps_;
  });
}

std::vector<Tensor> Optimizer::ParameterBatch::slots(std::span<const char* const> names) const {
  std::vector<Tensor> result;
  for (const State* state : states)
    for (const char* name : names) {
      const auto found = state->slots.find(name);
      result.push_back(found == state->slots.end() ? Tensor() : found->second);
    }
  return result;
}

void check_betas(const char* optimizer, double beta1, double beta2, double eps) {
  check(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1, "{}: the betas are {} and {}, wanted [0, 1)",
        optimizer, beta1, beta2);
  check(eps >= 0 && std::isfinite(eps), "{}: eps is {}, wanted a finite number of at least 0", optimizer,
        eps);
}

}  // namespace vitrine::optim
