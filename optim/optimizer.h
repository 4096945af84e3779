// The base class of optimizers: groups of parameters with their settings, and a state of named
// tensors per parameter.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/gpu/capture.h"
#include "core/parameter.h"
#include "optim/clip.h"

namespace vitrine::optim {

/// The settings that can differ between groups of parameters. Other settings belong to the
/// optimizer.
struct GroupOptions {
  double lr = 1e-3;         ///< ≥ 0, finite
  double weight_decay = 0;  ///< ≥ 0; its effect depends on the rule
};

/// Parameters that share settings. A group has at least one parameter, and a parameter is in only
/// one group of an optimizer.
struct Group {
  std::vector<Parameter> parameters;
  GroupOptions options;
};

/// An update rule with its state. Parameters are handles, so the optimizer changes the model's own
/// parameters. It updates masters of float32 or float64, together with their 16-bit copies. Rules
/// derive from this class and implement update() and slots().
///
///   optim::Adam adam(model.parameters(), {.lr = 1e-3});
///   adam.zero_grad();  …  tape.backward(loss);  adam.step();
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient, once. A step that throws does not count.
  /// Parameters that are frozen (requires_grad(false)) or have no gradient do not change. It is an
  /// error if some parameters are not frozen and none of these has a gradient. After a backward
  /// that failed halfway, step() is an error until zero_grad().
  /// Gradients are multiplied by clip_factor's factor while the update reads them, so that clipping
  /// needs no pass of its own, and gradients keep their values.
  void step(const ClipFactor& clip = {});
  /// Drops the gradients of all parameters.
  void zero_grad();
  /// Adds a group. A parameter that is already in a group is an error.
  void add_group(Group group);
  /// A parameter that is in no group at a step loses its states.
  std::vector<Group>& groups() { return groups_; }
  /// Sets the same learning rate for all groups, for schedules.
  void set_lr(double lr);
  /// Multiplies the rate of every group by this factor, initially 1. For schedules of groups with
  /// different rates.
  void set_lr_factor(double factor);
  /// Where the parameters are. A rule that averages its iterates trains at one point, and its
  /// average is the point to evaluate and to keep. For the other rules both are the same.
  enum class Point { training, evaluation };
  /// Writes this point into the parameters, unless they are there. The training point has the bits
  /// that the last step gave it. step() at the evaluation point is an error.
  void move_to(Point point);
  Point point() const { return point_; }

  /// True if the next step needs an estimate of the Hessian's diagonal first (optim/hessian.h
  /// computes them). False for rules that read only gradients.
  virtual bool needs_estimate() const { return false; }
  /// Gives the estimates to the rule, one for each parameter and of its shape. Errors: a rule that
  /// needs none; lists of different lengths; another shape.
  virtual void add_estimates(const std::vector<Parameter>& parameters, const std::vector<Tensor>& estimates);

  /// Keeps the moments, which are means that decay, in this dtype: float32, or bfloat16, which
  /// takes half the memory. bfloat16 is rounded stochastically (core/stochastic_rounding.h), so
  /// that small changes add up to the right mean. Other states have the dtype of the parameter, and
  /// so have the moments of float64 parameters. Errors: another dtype; a rule without moments;
  /// states that exist already, from a step, set_state or load_state_dict.
  void set_moments(DType dtype);
  DType moments() const { return moments_; }

  int64_t steps() const { return steps_; }  ///< so far; a resumed run continues the count
  /// The number of steps in which this parameter had a gradient, and so was updated. Bias
  /// corrections and rates that depend on the step use this number.
  int64_t steps(const Parameter& parameter) const;

  /// The settings that a resumed run must share, besides the states: the rule's name and options.
  /// make_optimizer sets them; a rule created in code has none unless set_setting() is called.
  const std::map<std::string, std::string>& setting() const { return setting_; }
  void set_setting(std::map<std::string, std::string> setting) { setting_ = std::move(setting); }

  /// The names of a parameter's state tensors, such as "moment1". The header of each rule lists
  /// them.
  std::vector<std::string> state_names(const Parameter& parameter) const;
  /// The state tensor with this name. Before the parameter's first step, the values with which the
  /// first step begins.
  Tensor state(const Parameter& parameter, const std::string& name) const;
  /// Copies `values`, of the state's shape, into the state with this name. A bfloat16 state gets
  /// them rounded to nearest. Also allowed before the first step.
  void set_state(const Parameter& parameter, const std::string& name, const Tensor& values);

  /// Everything that a resumed run needs: "step" and, for each parameter that has been updated, its
  /// step count "NAME/step" and its states "NAME/moment1" and so on. The key of a parameter without
  /// a name, or with the same name as another, also contains its number.
  /// The tensors are the optimizer's own, which later steps change: a copy that is kept in memory
  /// has to clone them.
  std::map<std::string, Tensor> state_dict() const;
  /// Missing or unexpected entries, and wrong shapes or dtypes, are one error that lists them all;
  /// nothing changes then. If no parameter has a step count, as in older checkpoints, each one gets
  /// the optimizer's. Afterwards the parameters are at the training point, whichever point the
  /// model of the checkpoint was at.
  void load_state_dict(const std::map<std::string, Tensor>& state);
  /// Throws the errors of load_state_dict, and changes nothing.
  void check_state_dict(const std::map<std::string, Tensor>& state) const;

 protected:
  Optimizer(std::vector<Parameter> parameters, GroupOptions options);

  /// The optimizer's data for one parameter.
  struct State {
    Parameter owner;  ///< lives as long as its state, so that no other parameter gets its identity
    std::map<std::string, Tensor> slots = {};
    int64_t steps = 0;
  };
  /// Parameters of one group that have a gradient and have taken the same number of steps; all or
  /// none have states from earlier steps. Masters x and gradients g are contiguous and each have
  /// one dtype, float32 or float64. Usually a group is one batch. A rule that also writes partners
  /// gets the upper half of a split master as x, in bfloat16 (Parameter::Stored), and bfloat16
  /// gradients as they are.
  struct ParameterBatch {
    size_t group = 0;
    int64_t steps = 0;   ///< taken so far by each of the parameters
    bool first = false;  ///< this step has created the states; true for rules without states
    std::vector<Parameter> parameters;
    std::vector<Tensor> x, g;
    /// What is written together with x: the 16-bit copy of a whole master, or the lower half of a
    /// split one; undefined if a parameter has neither.
    std::vector<Tensor> partners;
    /// [] in float64, by which g is multiplied; undefined if it is 1
    Tensor factor;
    std::vector<State*> states;
    /// The state tensors with these names, parameter by parameter; undefined if a parameter has
    /// none.
    std::vector<Tensor> slots(std::span<const char* const> names) const;
    std::vector<Tensor> slots(const char* name) const { return slots({&name, 1}); }
  };
  /// True if update() also writes batch.partners and applies batch.factor. Otherwise g is
  /// multiplied by the factor before, and x are whole masters, joined from halves where needed,
  /// which are assigned to the parameters afterwards, one by one.
  virtual bool writes_partners() const { return false; }
  /// True if update() uses its options and t only through numbers(), and writes only by kernels, so
  /// that a graph can capture it.
  virtual bool is_capturable() const { return false; }
  /// True if the rule averages its iterates and implements write_point().
  virtual bool averages() const { return false; }
  /// Writes the point into x, from the states. The batch has no gradients: g are x.
  virtual void write_point(ParameterBatch&, Point) {}
  /// Updates x from g. This is step number `t` of these parameters; the first is 1.
  virtual void update(ParameterBatch& batch, const GroupOptions& options, int64_t t) = 0;

  /// f(options, t) of the batch, as a Live argument for a kernel. In a graph
  /// (core/gpu/step_graph.h) each replay computes it again.
  template <class F>
  auto numbers(const ParameterBatch& batch, F f) const {
    return live([this, group = batch.group, parameters = batch.parameters, f] {
      return f(options_now(group), common_steps(parameters) + 1);
    });
  }

  /// The name and shape of a state tensor, and the value of its elements before the first step.
  struct StateSlot {
    std::string name;
    Shape shape;
    double initial = 0;
    bool from_parameter = false;  ///< begins with the parameter's value instead
    bool is_moment = false;       ///< a mean that decays, which set_moments() can keep in 16 bits
  };
  /// The state tensors that the rule keeps for a parameter.
  virtual std::vector<StateSlot> slots(const Parameter& p) const = 0;
  /// Throws if the rule cannot update the batch. Called for all batches before any is updated.
  virtual void check_ready(const ParameterBatch& /*batch*/) const {}

 private:
  static std::string called(const Parameter& p);
  DType dtype_of(const StateSlot& slot, const Parameter& p) const;
  void add(ParameterBatch& batch, const Parameter& p);
  void add_gradient(ParameterBatch& batch, const Parameter& p) const;
  void write_points(Point point);
  std::vector<ParameterBatch> batches();
  static void forget(std::span<const ParameterBatch> batches);
  void forget_removed();
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
  Point point_ = Point::training;
  DType moments_ = DType::float32;
  std::map<std::string, std::string> setting_;
};

/// Moves the parameters to a point while it lives, and then back.
class PointScope {
 public:
  PointScope(Optimizer& optimizer, Optimizer::Point point)
      : optimizer_(optimizer), before_(optimizer.point()) {
    optimizer.move_to(point);
  }
  ~PointScope() { optimizer_.move_to(before_); }
  PointScope(const PointScope&) = delete;
  PointScope& operator=(const PointScope&) = delete;

 private:
  Optimizer& optimizer_;
  Optimizer::Point before_;
};

/// Betas outside [0, 1) and a negative eps are errors that name the optimizer.
void check_betas(const char* optimizer, double beta1, double beta2, double eps = 0);
}  // namespace vitrine::optim
