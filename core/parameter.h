// A parameter of a model: a float32 (or float64) master, its gradient and, under mixed precision,
// the low-precision copy that kernels read.
#pragma once

#include <memory>
#include <string>

#include "core/tensor.h"

namespace vitrine {

/// A handle: copies refer to the same parameter (tied weights), and clone() creates a separate one.
/// A default-constructed parameter is undefined.
class Parameter {
  struct State {
    Tensor master;
    Tensor copy;  ///< undefined unless low precision
    std::string name;
  };

 public:
  Parameter() = default;
  /// `master`, float32 or float64, becomes a leaf.
  explicit Parameter(Tensor master);

  bool defined() const { return state_ != nullptr; }
  bool is_same(const Parameter& other) const { return state_ == other.state_; }
  const void* identity() const { return state_.get(); }

  /// The tensor that the forward pass reads: the master, or its low-precision copy. Both have the
  /// same gradient.
  const Tensor& value() const;
  operator const Tensor&() const { return value(); }
  /// The tensor that optimizers write and checkpoints save. Call refresh() after writing it.
  const Tensor& master() const;
  /// Rewrites the low-precision copy from the master.
  void refresh();

  const Shape& shape() const { return master().shape(); }
  int64_t numel() const { return master().numel(); }
  DType dtype() const { return value().dtype(); }
  /// false freezes the parameter: the tape does not track it, it has no gradient, and optimizers
  /// skip it.
  void requires_grad(bool on);
  bool requires_grad() const { return master().requires_grad(); }
  /// In the master's dtype; undefined if there is no gradient.
  Tensor grad() const { return master().grad(); }
  void zero_grad() const { master().zero_grad(); }

  /// bfloat16 and float16 keep the float32 master and add a copy. float32 and float64 convert the
  /// master itself.
  void to(DType dtype);
  void to(Device device);
  /// Copies values into the master (and the low-precision copy); another shape is an error.
  void assign(const Tensor& values);

  /// While this object lives, every handle of a parameter reads another tensor, without copying it.
  /// A function of a model thus becomes a function of its parameters (see check_gradients).
  /// Afterwards the parameter, including its gradient, is as before.
  class Substitute {
   public:
    Substitute(const Parameter& parameter, Tensor value);  ///< another shape is an error
    ~Substitute();
    Substitute(Substitute&&) = default;
    Substitute& operator=(Substitute&&) = delete;

   private:
    std::shared_ptr<State> state_;
    Tensor master_, copy_;
  };
  /// The parameter's name in the model, such as "blocks.0.attention.query.weight", for messages.
  void set_name(const std::string& name);
  const std::string& name() const;

  Parameter clone() const;

 private:
  State& state() const;
  void replace_master(Tensor master);
  void name_leaf();  ///< for the tape's messages

  std::shared_ptr<State> state_;
};

}  // namespace vitrine
