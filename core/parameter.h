// A parameter of a model: a float32 (or float64) master, its gradient and, under mixed precision,
// the 16-bit copy that kernels read. In bfloat16 the copy is the upper half of the master, and only
// the lower half is stored besides (core/halves.h).
#pragma once

#include <memory>
#include <string>

#include "core/tensor.h"

namespace vitrine {

/// A handle: copies refer to the same parameter (tied weights), and clone() creates a separate one.
/// A default-constructed parameter is undefined.
class Parameter {
 public:
  /// The memory of a parameter, for kernels that update it.
  struct Stored {
    Tensor whole;  ///< the master; undefined if it is stored as two halves
    Tensor copy;   ///< what kernels read in 16 bits; in bfloat16 the upper half of the master
    Tensor rest;   ///< the lower half of the master: uint8 [numel, 2]
  };

  Parameter() = default;
  /// `master`, float32 or float64, becomes a leaf.
  explicit Parameter(Tensor master);

  bool defined() const { return state_ != nullptr; }
  bool is_same(const Parameter& other) const { return state_ == other.state_; }
  const void* identity() const { return state_.get(); }

  /// The tensor that the forward pass reads: the master, or its 16-bit copy. Both have the same
  /// gradient.
  const Tensor& value() const;
  operator const Tensor&() const { return value(); }
  /// The tensor that checkpoints save. In bfloat16 it is a new tensor, joined from the halves;
  /// assign() writes it back.
  Tensor master() const;
  DType master_dtype() const { return accumulation_dtype(dtype()); }
  const Stored& stored() const;

  const Shape& shape() const { return value().shape(); }
  int64_t numel() const { return value().numel(); }
  DType dtype() const { return value().dtype(); }
  Device device() const { return value().device(); }
  /// false freezes the parameter: the tape does not track it, it has no gradient, and optimizers
  /// skip it.
  void requires_grad(bool on);
  bool requires_grad() const { return value().requires_grad(); }
  /// In the master's dtype, or see gradients_in(); undefined if there is no gradient.
  Tensor grad() const { return value().grad(); }
  void zero_grad() const { value().zero_grad(); }

  /// The dtype in which gradients are added up: the master's or, only in bfloat16, bfloat16. Then a
  /// gradient takes half of the memory, and each sum is rounded to 8 bits: over micro-batches, and
  /// over the uses of a tied parameter. A gradient that is there is dropped. Frozen parameters and
  /// conversions keep the choice.
  void gradients_in(DType dtype);
  DType gradient_dtype() const;
  /// float16 keeps the float32 master and adds a copy. bfloat16 splits the master into halves.
  /// float32 and float64 convert the master itself.
  void to(DType dtype);
  void to(Device device);
  /// Copies values into the master (and the 16-bit copy); another shape is an error.
  void assign(const Tensor& values);

  class Substitute;
  /// The parameter's name in the model, such as "blocks.0.attention.query.weight", for messages.
  void set_name(const std::string& name);
  const std::string& name() const;

  Parameter clone() const;

 private:
  struct State : Stored {
    std::string name;
    bool narrow_gradients = false;
  };
  State& state() const;
  void store(const Tensor& master, DType dtype);
  void describe_leaf();  ///< its name, for the tape's messages, and its dtype

  std::shared_ptr<State> state_;
};

/// While this object lives, every handle of a parameter reads another tensor, without copying it.
/// A function of a model thus becomes a function of its parameters (see check_gradients).
/// Afterwards the parameter, including its gradient, is as before.
class Parameter::Substitute {
 public:
  Substitute(const Parameter& parameter, Tensor value);  ///< another shape is an error
  ~Substitute();
  Substitute(Substitute&&) = default;
  Substitute& operator=(Substitute&&) = delete;

 private:
  std::shared_ptr<State> state_;
  Stored stored_;
};

}  // namespace vitrine
