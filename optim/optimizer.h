// The base of optimizers: groups of parameters with their settings, and a state of named tensors
// per parameter.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/gpu/capture.h"
#include "core/parameter.h"

namespace vitrine::optim {

/// What differs between groups of parameters; the rest is the optimizer's.
struct GroupOptions {
  double lr = 1e-3;         ///< ≥ 0, finite
  double weight_decay = 0;  ///< ≥ 0; what it does is the rule's
};

/// Parameters that share settings; at least one, each in one group of an optimizer.
struct Group {
  std::vector<Parameter> parameters;
  GroupOptions options;
};

/// An update rule with its state. Parameters are handles, so it changes the model's own; masters of
/// float32 or float64 are updated, low-precision copies follow. Rules derive from it and write
/// update() and slots().
///
///   optim::Adam adam(model.parameters(), {.lr = 1e-3});
///   adam.zero_grad();  …  tape.backward(loss);  adam.step();
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update of every parameter that has a gradient; a step that throws does not count.
  /// Parameters that are frozen (requires_grad(false)) or have no gradient stay. If some are not
  /// frozen and none of them has a gradient, that is an error. After a backward that failed halfway
  /// it refuses until zero_grad().
  void step();
  /// Drops the gradients of all parameters.
  void zero_grad();
  /// A parameter that is in a group already is an error.
  void add_group(Group group);
  std::vector<Group>& groups() { return groups_; }
  /// The same learning rate for all groups, for schedules.
  void set_lr(double lr);
  /// Every group steps at its own rate times this, 1 at first: a schedule for groups of different
  /// rates.
  void set_lr_factor(double factor);
  int64_t steps() const { return steps_; }  ///< made so far; a resumed run goes on counting
  /// The steps in which this parameter has moved: those in which it had a gradient. Bias
  /// corrections and rates that depend on the step count them.
  int64_t steps(const Parameter& parameter) const;

  /// What a resumed run must share, besides the states: the rule's name and options. make_optimizer
  /// writes it; a rule that is made in code has none unless it is given one.
  const std::map<std::string, std::string>& setting() const { return setting_; }
  void set_setting(std::map<std::string, std::string> setting) { setting_ = std::move(setting); }

  /// The names of a parameter's state tensors, as "moment1"; the header of each rule lists them.
  std::vector<std::string> state_names(const Parameter& parameter) const;
  /// A state tensor of this name. Before the parameter's first step, the values that the first step
  /// begins with.
  Tensor state(const Parameter& parameter, const std::string& name) const;
  /// Copies `values`, of the state's shape, into the state of this name; also before the first
  /// step.
  void set_state(const Parameter& parameter, const std::string& name, const Tensor& values);

  /// Everything that a resumed run needs: "step" and, for each parameter that has moved, its count
  /// "NAME/step" and its states "NAME/moment1" and so on. A parameter without a name, or with the
  /// name of another, gets its number in addition.
  std::map<std::string, Tensor> state_dict() const;
  /// Entries that are missing, unexpected, or of a wrong shape or dtype are one error that lists
  /// them; nothing changes then. If no parameter has a count, as in older checkpoints, each takes
  /// the optimizer's.
  void load_state_dict(const std::map<std::string, Tensor>& state);
  /// Throws what load_state_dict would, and changes nothing.
  void check_state_dict(const std::map<std::string, Tensor>& state) const;

 protected:
  Optimizer(std::vector<Parameter> parameters, GroupOptions options);

  /// What the optimizer keeps of a parameter.
  struct State {
    std::map<std::string, Tensor> slots;
    int64_t steps = 0;
  };
  /// Parameters of one group that have a gradient and have taken the same number of steps, of which
  /// all or none have states from before: masters x and gradients g, contiguous, of one dtype each,
  /// float32 or float64, and their states. As a rule a group is one batch.
  struct ParameterBatch {
    size_t group = 0;
    int64_t steps = 0;   ///< that each of the parameters has taken so far
    bool first = false;  ///< this step has made the states; always true for a rule without states
    std::vector<Parameter> parameters;
    std::vector<Tensor> x, g;
    /// The 16-bit copies of x; undefined where a parameter has none.
    std::vector<Tensor> copies;
    std::vector<State*> states;
    /// The state tensors of these names, parameter by parameter; undefined where a parameter has
    /// none.
    std::vector<Tensor> slots(std::span<const char* const> names) const;
    std::vector<Tensor> slots(const char* name) const { return slots({&name, 1}); }
  };
  /// True if update() writes batch.copies in the same pass as x; else they follow afterwards, one
  /// by one.
  virtual bool writes_copies() const { return false; }
  /// True if all that update() makes of its options and t comes from numbers(), so that a graph can
  /// be captured.
  virtual bool is_capturable() const { return false; }
  /// Updates x by g. This is the parameters' step number `t`; the first is 1.
  virtual void update(ParameterBatch& batch, const GroupOptions& options, int64_t t) = 0;

  /// f(options, t) of the batch, for a kernel that is given Live numbers; in a graph
  /// (core/gpu/step_graph.h) those of each replay.
  template <class F>
  auto numbers(const ParameterBatch& batch, F f) const {
    return live([this, group = batch.group, parameters = batch.parameters, f] {
      return f(options_now(group), common_steps(parameters) + 1);
    });
  }

  /// A state tensor by its name, and the value of its elements before the first step.
  struct StateSlot {
    std::string name;
    Shape shape;
    double initial = 0;
  };
  /// The state of a parameter.
  virtual std::vector<StateSlot> slots(const Parameter& p) const = 0;

 private:
  static std::string called(const Parameter& p);
  void add(ParameterBatch& batch, const Parameter& p);
  std::vector<ParameterBatch> batches();
  static void forget(std::span<const ParameterBatch> batches);
  void check_gradients(std::span<const ParameterBatch> batches) const;
  std::map<std::string, Tensor> initial_states(const Parameter& p) const;
  StateSlot slot_of(const char* caller, const Parameter& p, const std::string& name) const;
  bool has_states(const Parameter& parameter) const;
  GroupOptions options_now(size_t group) const;
  int64_t common_steps(const std::vector<Parameter>& parameters) const;
  std::vector<std::pair<std::string, Parameter>> keys() const;
  bool has_counts(const std::map<std::string, Tensor>& state) const;

  std::vector<Group> groups_;
  std::map<const void*, State> state_;
  int64_t steps_ = 0;
  double lr_factor_ = 1;
  std::map<std::string, std::string> setting_;
};

/// Betas outside [0, 1) and a negative eps are errors that name the optimizer.
void check_betas(const char* optimizer, double beta1, double beta2, double eps = 0);
}  // namespace vitrine::optim
