// The base of optimizers: groups of parameters with their settings, and a state of named tensors per parameter.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/parameter.h"

namespace vitrine::optim {

/// What differs between groups of parameters; the rest is the optimizer's.
struct GroupOptions {
  double lr = 1e-3;
  double weight_decay = 0;
};

struct Group {
  std::vector<Parameter> parameters;
  GroupOptions options;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update of every parameter that has a gradient. After a backward that failed halfway it refuses until zero_grad().
  void step();
  void zero_grad();
  void add_group(Group group);
  std::vector<Group>& groups() { return groups_; }
  /// The same learning rate for all groups, for schedules.
  void set_lr(double lr);
  int64_t steps() const { return steps_; }

  /// Everything that a resumed run needs: "step" and per parameter "NAME/moment1" and so on.
  std::map<std::string, Tensor> state_dict() const;
  void load_state_dict(const std::map<std::string, Tensor>& state);

 protected:
  Optimizer(std::vector<Parameter> parameters, GroupOptions options);

  using State = std::map<std::string, Tensor>;
  /// Updates x by its gradient g; `t` counts from 1. Both are contiguous, of one dtype, float32 or float64.
  virtual void update(Tensor& x, const Tensor& g, State& state, const GroupOptions& options, int64_t t) = 0;

  /// A state tensor like x, zero at first.
  static Tensor& slot(State& state, const std::string& name, const Tensor& x);

 private:
  std::string key(const Parameter& parameter) const;

  std::vector<Group> groups_;
  std::map<const void*, State> state_;
  int64_t steps_ = 0;
};

}  // namespace vitrine::optim
