// The states of an optimizer: access by name, and the contents of a checkpoint.
#include <algorithm>
#include <set>

#include "core/creation.h"
#include "core/gpu/stream.h"
#include "core/tape.h"
#include "core/tensor_kernels.h"
#include "optim/optimizer.h"

namespace vitrine::optim {

namespace {

constexpr double kMostSteps = 0x1p53;  // larger integers are not exact in a double

/// Whether x is a count of at most `most` steps.
bool is_count(const Tensor& x, double most) {
  return x.dtype() == DType::int64 && x.numel() == 1 && x.item() >= 0 && x.item() <= most;
}

Tensor tensor_of(int64_t count) { return tensor({static_cast<double>(count)}, DType::int64); }
int64_t count_of(const Tensor& x) { return static_cast<int64_t>(x.item()); }

}  // namespace

// States by name
// -------------------------------------------------------------------------------------------------

std::vector<std::string> Optimizer::state_names(const Parameter& parameter) const {
  std::vector<std::string> names;
  for (const StateSlot& slot : slots(parameter)) names.push_back(slot.name);
  return names;
}

Optimizer::StateSlot Optimizer::slot_of(const char* caller, const Parameter& p,
                                        const std::string& name) const {
  const bool is_ours = std::any_of(groups_.begin(), groups_.end(), [&](const Group& group) {
    return std::any_of(group.parameters.begin(), group.parameters.end(),
                       [&](const Parameter& other) { return other.is_same(p); });
  });
  check(is_ours, "{}: {} is no parameter of this optimizer", caller, called(p));
  for (const StateSlot& slot : slots(p))
    if (slot.name == name) return slot;
  const auto names = state_names(p);
  fail("{}: {} has no state \"{}\" under this rule, which has {}", caller, called(p), name,
       names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

Tensor Optimizer::state(const Parameter& parameter, const std::string& name) const {
  slot_of("state", parameter, name);
  return has_states(parameter) ? state_.at(parameter.identity()).slots.at(name)
                               : initial_states(parameter).at(name);
}

void Optimizer::set_state(const Parameter& parameter, const std::string& name, const Tensor& values) {
  const StateSlot wanted = slot_of("set_state", parameter, name);
  check(values.shape() == wanted.shape, "set_state: the {} of {} has the shape {}, got {}", name,
        called(parameter), wanted.shape, describe(values));
  detail::refuse_in_capture("set_state");
  const Tape::Pause pause;
  state_[parameter.identity()].owner = parameter;
  auto& states = state_[parameter.identity()].slots;
  if (states.empty()) states = initial_states(parameter);
  VITRINE_RUN(copy, states.at(name), copy_to(values, states.at(name).device()));
}

// Checkpoints
// -------------------------------------------------------------------------------------------------

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
  std::map<std::string, Tensor> result = {{"step", tensor_of(steps_)}};
  for (const auto& [key, p] : keys()) {
    const auto found = state_.find(p.identity());
    if (found == state_.end()) continue;
    const State& state = found->second;
    for (const auto& [name, value] : state.slots) result[key + "/" + name] = value;
    if (state.steps > 0 || !state.slots.empty()) result[key + "/step"] = tensor_of(state.steps);
  }
  return result;
}

void Optimizer::check_state_dict(const std::map<std::string, Tensor>& state) const {
  std::vector<std::string> problems;
  std::set<std::string> expected;
  const auto entry = [&](const std::string& path) {
    expected.insert(path);
    const auto found = state.find(path);
    if (found != state.end() && found->second.defined()) return found->second;
    problems.push_back("missing " + path);
    return Tensor();
  };
  const auto count = [&](const std::string& path, double most) {
    const Tensor x = entry(path);
    if (x.defined() && !is_count(x, most))
      problems.push_back(fmt::format("{} is {}, wanted one int64 of at least 0 and at most {:.0f}", path,
                                     describe(x), most));
    return x.defined() && is_count(x, most) ? x.item() : most;
  };
  const double steps = count("step", kMostSteps);
  const bool counted = has_counts(state);
  for (const auto& [key, p] : keys()) {
    const auto wanted = slots(p);
    const auto has = [&, &key = key](const std::string& entry) { return state.count(key + "/" + entry) > 0; };
    // The parameter never had a gradient.
    if (!has("step") &&
        std::none_of(wanted.begin(), wanted.end(), [&](auto& slot) { return has(slot.name); }))
      continue;
    if (counted) count(key + "/step", steps);
    for (const StateSlot& slot : wanted) {
      const std::string path = key + "/" + slot.name;
      const Tensor x = entry(path);
      const DType dtype = dtype_of(slot, p);
      if (x.defined() && (x.shape() != slot.shape || x.dtype() != dtype))
        problems.push_back(fmt::format("{} is {}, wanted {}{}", path, describe(x), name(dtype), slot.shape));
    }
  }
  for (const auto& [path, x] : state)
    if (!expected.count(path)) problems.push_back("unexpected " + path);
  check(problems.empty(), "Optimizer: load_state_dict: {}", fmt::join(problems, "; "));
}

bool Optimizer::has_counts(const std::map<std::string, Tensor>& state) const {
  const auto all = keys();
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& entry) { return state.count(entry.first + "/step") > 0; });
}

void Optimizer::load_state_dict(const std::map<std::string, Tensor>& state) {
  check_state_dict(state);
  const int64_t steps = count_of(state.at("step"));
  const bool counted = has_counts(state);
  std::map<const void*, State> loaded;  // allocations, which can fail, come first
  for (const auto& [key, p] : keys()) {
    State mine{.owner = p};
    const auto wanted = slots(p);
    for (const StateSlot& slot : wanted)
      if (const auto found = state.find(key + "/" + slot.name); found != state.end())
        mine.slots[slot.name] = copy_to(found->second, p.device());
    const bool has_all = mine.slots.size() == wanted.size();
    if (counted && state.count(key + "/step") > 0)
      mine.steps = count_of(state.at(key + "/step"));
    else if (!counted && has_all)
      mine.steps = steps;
    if (mine.steps > 0 || !mine.slots.empty()) loaded[p.identity()] = std::move(mine);
  }
  for (auto& [id, mine] : loaded)
    for (auto& [slot, x] : mine.slots) {
      const auto& old = state_[id].slots;
      const auto found = old.find(slot);
      if (found == old.end() || found->second.device() != x.device() || found->second.dtype() != x.dtype())
        continue;
      Tensor there = found->second;  // keeps the address that a graph has captured
      copy_async(there, x);
      x = there;
    }
  steps_ = steps;
  state_ = std::move(loaded);
  if (averages()) write_points(Point::training);
  point_ = Point::training;
}

}  // namespace vitrine::optim
