// The base of optimizers: groups of parameters with their settings, and a state of named tensors per parameter.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/capture.h"
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

/// An update rule with its state. Parameters are handles, so it changes the model's own; masters of float32 or float64 are
/// updated, low-precision copies follow. Rules derive from it and write update() and slots().
///
///   optim::Adam adam(model.parameters(), {.lr = 1e-3});
///   adam.zero_grad();  …  tape.backward(loss);  adam.step();
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update of every parameter that has a gradient; a step that throws does not count. After a backward that failed
  /// halfway it refuses until zero_grad().
  void step();
  /// Drops the gradients of all parameters.
  void zero_grad();
  /// A parameter that is in a group already is an error.
  void add_group(Group group);
  std::vector<Group>& groups() { return groups_; }
  /// The same learning rate for all groups, for schedules.
  void set_lr(double lr);
  /// Every group steps at its own rate times this, 1 at first: a schedule for groups of different rates.
  void set_lr_factor(double factor);
  int64_t steps() const { return steps_; }  ///< made so far; a resumed run goes on counting

  /// Everything that a resumed run needs: "step" and per parameter "NAME/moment1" and so on. Parameters without a name, or
  /// with one that another has, are told apart by their number.
  std::map<std::string, Tensor> state_dict() const;
  /// Entries that are missing, unexpected, or of a wrong shape or dtype are one error that lists them; nothing changes then.
  void load_state_dict(const std::map<std::string, Tensor>& state);
  /// Throws what load_state_dict would, and changes nothing.
  void check_state_dict(const std::map<std::string, Tensor>& state) const;

 protected:
  Optimizer(std::vector<Parameter> parameters, GroupOptions options);

  using State = std::map<std::string, Tensor>;
  /// The parameters of one group that have a gradient: masters x and gradients g, contiguous, of one dtype each, float32 or
  /// float64, and their states.
  struct Batch {
    std::vector<Tensor> x, g;
    /// The 16-bit copies of x; undefined where a parameter has none.
    std::vector<Tensor> copies;
    std::vector<State*> states;
    size_t group = 0;
    /// Which parameters take their first step, so that their states are 0; of a rule without states always.
    std::vector<bool> first;
    /// The state tensors of this name; undefined where a parameter has none.
    std::vector<Tensor> slots(const std::string& name) const;
  };
  /// True if update() writes batch.copies in the same pass as x; else they follow afterwards, one by one.
  virtual bool writes_copies() const { return false; }
  /// True if all that update() makes of its options and t comes from numbers(), so that a graph can be captured.
  virtual bool is_capturable() const { return false; }
  /// Updates x by g; `t` counts from 1.
  virtual void update(Batch& batch, const GroupOptions& options, int64_t t) = 0;

  /// f(options, t) of the batch's group, for a kernel that is given Live numbers; in a graph (core/graph.h) those of each
  /// replay.
  template <class F>
  auto numbers(const Batch& batch, F f) const {
    return live([this, group = batch.group, f] { return f(options_now(group), steps_ + 1); });
  }

  /// A state tensor by its name, the same for every parameter.
  struct Slot {
    std::string name;
    Shape shape;
  };
  /// The state of a parameter of this shape.
  virtual std::vector<Slot> slots(const Shape& shape) const = 0;

 private:
  void fill(Batch& batch, size_t group);
  std::vector<Batch> batches();
  static void forget(std::span<const Batch> batches);
  State zero_state(const Parameter& p) const;
  GroupOptions options_now(size_t group) const;
  std::vector<std::pair<std::string, Parameter>> keys() const;

  std::vector<Group> groups_;
  std::map<const void*, State> state_;
  int64_t steps_ = 0;
  double lr_factor_ = 1;
};

/// Betas outside [0, 1) and a negative eps are errors that name the optimizer.
void check_betas(const char* optimizer, double beta1, double beta2, double eps = 0);
/// eps as it is added to a denominator: 0 counts as 1e-37, so that an element that never had a gradient stays, and is not 0/0.
double in_denominator(double eps);

}  // namespace vitrine::optim
