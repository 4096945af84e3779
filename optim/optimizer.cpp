#include "optim/optimizer.h"

#include <cmath>
#include <set>

#include "core/creation.h"
#include "core/stream.h"
#include "core/tape.h"
#include "optim/kernels.h"

namespace vitrine::optim {
namespace {

void check_lr(double lr) {
  check(lr >= 0 && std::isfinite(lr),
        "Optimizer: the learning rate is {}, wanted a finite number of at least 0", lr);
}

/// The name of p, or what it looks like.
std::string called(const Parameter& p) {
  return p.name().empty() ? fmt::format("{}", describe(p.master())) : p.name();
}

bool is_step(const Tensor& x) { return x.dtype() == DType::int64 && x.numel() == 1 && x.item() >= 0; }

}  // namespace

Optimizer::Optimizer(std::vector<Parameter> parameters, GroupOptions options) {
  add_group({std::move(parameters), options});
}

void Optimizer::add_group(Group group) {
  check(!group.parameters.empty(), "Optimizer: a group without parameters");
  check_lr(group.options.lr);
  check(group.options.weight_decay >= 0 && std::isfinite(group.options.weight_decay),
        "Optimizer: the weight decay is {}, wanted a finite number of at least 0",
        group.options.weight_decay);
  std::set<const void*> known;
  for (const Group& other : groups_)
    for (const Parameter& p : other.parameters) known.insert(p.identity());
  for (const Parameter& p : group.parameters)
    check(known.insert(p.identity()).second, "Optimizer: the parameter {} is given twice", called(p));
  groups_.push_back(std::move(group));
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

void Optimizer::zero_grad() {
  for (Group& group : groups_)
    for (Parameter& p : group.parameters) p.zero_grad();
}

GroupOptions Optimizer::options_now(size_t group) const {
  GroupOptions now = groups_[group].options;
  now.lr *= lr_factor_;
  return now;
}

void Optimizer::fill(Batch& batch, size_t group) {
  batch.group = group;
  for (const Parameter& p : groups_[group].parameters) {
    const Tensor g = p.grad();
    if (!g.defined()) continue;
    const bool fits = g.is_contiguous() && g.dtype() == p.master().dtype();
    batch.x.push_back(p.master());
    batch.g.push_back(fits ? g : copy_as(g, p.master().dtype()));
    State& state = state_[p.identity()];
    batch.states.push_back(&state);
    batch.first.push_back(state.empty());
    if (state.empty()) state = zero_state(p);
    for (const auto& [slot, x] : state)
      if (x.dtype() != p.master().dtype() || x.device() != p.master().device())
        fail(
            "step: {} is {} on {} now, and its state {} {} on {}: convert the model before the optimizer's first step",
            called(p), vitrine::name(p.master().dtype()), to_string(p.master().device()), slot,
            vitrine::name(x.dtype()), to_string(x.device()));
    batch.copies.push_back(is_low_precision(p.dtype()) ? p.value() : Tensor());
  }
}

/// Takes back the states that were made for a step which has not come to these groups.
void Optimizer::forget(std::span<const Batch> batches) {
  for (const Batch& batch : batches)
    for (size_t i = 0; i < batch.states.size(); ++i)
      if (batch.first[i]) batch.states[i]->clear();
}

/// The batches of all groups: what is wrong with one is told before any has moved.
std::vector<Optimizer::Batch> Optimizer::batches() {
  std::vector<Batch> all(groups_.size());
  try {
    for (size_t i = 0; i < all.size(); ++i) fill(all[i], i);
  } catch (...) {
    forget(all);
    throw;
  }
  return all;
}

Optimizer::State Optimizer::zero_state(const Parameter& p) const {
  State result;
  for (const Slot& slot : slots(p.shape())) {
    detail::refuse_in_capture("step (the first one, which makes the optimizer's state)");
    result[slot.name] = zeros(slot.shape, p.master().dtype(), p.master().device());
  }
  return result;
}

void Optimizer::step() {
  for (const Group& group : groups_)
    for (const Parameter& p : group.parameters)
      if (p.requires_grad() && p.master().leaf()->stale)
        fail(
            "step: the gradient of {} is incomplete, as a backward failed; call zero_grad() and run the step "
            "again",
            called(p));
  check(is_capturable() || !detail::capturing(),
        "step: a graph is being captured, and this rule works out its rates on the CPU, so that each replay "
        "would repeat those of the capture; a kernel that is given numbers() does not");
  const Tape::Pause pause;
  std::vector<Batch> all = batches();
  for (size_t i = 0; i < all.size(); ++i) {
    try {
      if (!all[i].x.empty()) update(all[i], options_now(i), steps_ + 1);
      if (!writes_copies())
        for (Parameter& p : groups_[i].parameters)
          if (p.grad().defined()) p.refresh();
    } catch (...) {
      forget(std::span(all).subspan(i + 1));
      throw;
    }
  }
  each_time([this] { ++steps_; });
}

std::vector<Tensor> Optimizer::Batch::slots(const std::string& name) const {
  std::vector<Tensor> result;
  for (const State* state : states) {
    const auto found = state->find(name);
    result.push_back(found == state->end() ? Tensor() : found->second);
  }
  return result;
}

std::vector<std::pair<std::string, Parameter>> Optimizer::keys() const {
  std::vector<std::pair<std::string, Parameter>> result;
  std::set<std::string> taken;
  for (const Group& group : groups_)
    for (const Parameter& p : group.parameters) {
      const std::string number = std::to_string(result.size());
      std::string key = p.name().empty() ? number : p.name();
      if (!taken.insert(key).second) taken.insert(key += "#" + number);
      result.emplace_back(key, p);
    }
  return result;
}

std::map<std::string, Tensor> Optimizer::state_dict() const {
  std::map<std::string, Tensor> result = {{"step", tensor({static_cast<double>(steps_)}, DType::int64)}};
  for (const auto& [key, p] : keys())
    if (const auto found = state_.find(p.identity()); found != state_.end())
      for (const auto& [name, value] : found->second) result[key + "/" + name] = value;
  return result;
}

void Optimizer::check_state_dict(const std::map<std::string, Tensor>& state) const {
  std::vector<std::string> problems;
  std::set<std::string> expected = {"step"};
  if (const auto step = state.find("step"); step == state.end() || !step->second.defined()) {
    problems.emplace_back("missing step");
  } else if (!is_step(step->second)) {
    problems.push_back(fmt::format("step is {}, wanted one int64 of at least 0", describe(step->second)));
  }
  for (const auto& [key, p] : keys()) {
    const auto first = state.lower_bound(key + "/");
    if (first == state.end() || !first->first.starts_with(key + "/")) continue;  // it never had a gradient
    for (const Slot& slot : slots(p.shape())) {
      const std::string path = key + "/" + slot.name;
      expected.insert(path);
      const auto found = state.find(path);
      if (found == state.end() || !found->second.defined()) {
        problems.push_back("missing " + path);
      } else if (const Tensor& x = found->second;
                 x.shape() != slot.shape || x.dtype() != p.master().dtype()) {
        problems.push_back(
            fmt::format("{} is {}, wanted {}{}", path, describe(x), name(p.master().dtype()), slot.shape));
      }
    }
  }
  for (const auto& [path, x] : state)
    if (!expected.count(path)) problems.push_back("unexpected " + path);
  check(problems.empty(), "Optimizer: load_state_dict: {}", fmt::join(problems, "; "));
}

void Optimizer::load_state_dict(const std::map<std::string, Tensor>& state) {
  check_state_dict(state);
  std::map<const void*, State> loaded;  // what can fail for want of memory comes first
  for (const auto& [key, p] : keys())
    for (const Slot& slot : slots(p.shape()))
      if (const auto found = state.find(key + "/" + slot.name); found != state.end())
        loaded[p.identity()][slot.name] = copy_to(found->second, p.master().device());
  for (auto& [id, slots] : loaded)
    for (auto& [slot, x] : slots) {
      const State& old = state_[id];
      const auto mine = old.find(slot);
      if (mine == old.end() || mine->second.device() != x.device() || mine->second.dtype() != x.dtype())
        continue;
      Tensor there = mine->second;  // a graph knows where it lies
      copy_async(there, x);
      x = there;
    }
  steps_ = static_cast<int64_t>(state.at("step").item());
  state_ = std::move(loaded);
}

void check_betas(const char* optimizer, double beta1, double beta2, double eps) {
  check(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1, "{}: the betas are {} and {}, wanted [0, 1)",
        optimizer, beta1, beta2);
  check(eps >= 0 && std::isfinite(eps), "{}: eps is {}, wanted a finite number of at least 0", optimizer,
        eps);
}

double in_denominator(double eps) { return std::max(eps, 1e-37); }

}  // namespace vitrine::optim
