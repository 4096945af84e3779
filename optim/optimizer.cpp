#include "optim/optimizer.h"

#include <algorithm>

#include "core/creation.h"
#include "core/tape.h"

namespace vitrine::optim {

Optimizer::Optimizer(std::vector<Parameter> parameters, GroupOptions options) {
  add_group({std::move(parameters), options});
}

void Optimizer::add_group(Group group) {
  check(!group.parameters.empty(), "Optimizer: a group without parameters");
  check(group.options.lr >= 0 && group.options.weight_decay >= 0,
        "Optimizer: the learning rate {} and the weight decay {} must not be negative", group.options.lr,
        group.options.weight_decay);
  for (const Parameter& p : group.parameters)
    for (const Group& other : groups_)
      for (const Parameter& known : other.parameters)
        check(!p.is_same(known), "Optimizer: the parameter {} is in two groups", p.name());
  groups_.push_back(std::move(group));
}

void Optimizer::set_lr(double lr) {
  for (Group& group : groups_) group.options.lr = lr;
}

void Optimizer::zero_grad() {
  for (Group& group : groups_)
    for (Parameter& p : group.parameters) p.zero_grad();
}

void Optimizer::step() {
  for (const Group& group : groups_)
    for (const Parameter& p : group.parameters)
      check(!p.master().leaf()->stale,
            "step: the gradient of {} is incomplete, as a backward failed; call zero_grad() and run the step "
            "again",
            p.name().empty() ? "a parameter" : p.name());
  const Tape::Pause pause;
  ++steps_;
  for (Group& group : groups_)
    for (Parameter& p : group.parameters) {
      if (!p.grad().defined()) continue;
      const Tensor gradient = p.grad().is_contiguous() && p.grad().dtype() == p.master().dtype()
                                  ? p.grad()
                                  : copy_as(p.grad(), p.master().dtype());
      Tensor master = p.master();
      update(master, gradient, state_[p.identity()], group.options, steps_);
      p.refresh();
    }
}

Tensor& Optimizer::slot(State& state, const std::string& name, const Tensor& x) {
  Tensor& found = state[name];
  if (!found.defined()) found = zeros_like(x);
  return found;
}

std::string Optimizer::key(const Parameter& parameter) const {
  int64_t index = 0;
  for (const Group& group : groups_)
    for (const Parameter& p : group.parameters) {
      if (p.is_same(parameter)) return p.name().empty() ? std::to_string(index) : p.name();
      ++index;
    }
  return "";
}

std::map<std::string, Tensor> Optimizer::state_dict() const {
  std::map<std::string, Tensor> result = {{"step", tensor({static_cast<double>(steps_)}, DType::int64)}};
  for (const Group& group : groups_)
    for (const Parameter& p : group.parameters)
      if (const auto found = state_.find(p.identity()); found != state_.end())
        for (const auto& [name, value] : found->second) result[key(p) + "/" + name] = value;
  return result;
}

void Optimizer::load_state_dict(const std::map<std::string, Tensor>& state) {
  check(state.count("step"), "Optimizer: the state has no entry \"step\"");
  std::map<const void*, State> loaded;
  size_t used = 1;
  for (const Group& group : groups_)
    for (const Parameter& p : group.parameters) {
      const std::string prefix = key(p) + "/";
      for (auto it = state.lower_bound(prefix); it != state.end() && it->first.starts_with(prefix);
           ++it, ++used) {
        check(it->second.shape() == p.shape(), "Optimizer: {} is {}, wanted {}", it->first,
              it->second.shape(), p.shape());
        loaded[p.identity()][it->first.substr(prefix.size())] = copy_as(it->second, it->second.dtype());
      }
    }
  check(used == state.size(), "Optimizer: {} entries of the state belong to no parameter here",
        state.size() - used);
  steps_ = static_cast<int64_t>(state.at("step").item());
  state_ = std::move(loaded);
}

}  // namespace vitrine::optim
