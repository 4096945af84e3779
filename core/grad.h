// What a backward returns: gradients of its inputs, dense or as "add into this part".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/tensor.h"

namespace vitrine {

namespace detail {

/// What an op reads that the tape does not track, for drawings.
struct Constant {
  explicit Constant(const Tensor& x) : storage(x.shared_storage()), shape(x.shape()), dtype(x.dtype()) {}
  std::weak_ptr<Storage> storage;  ///< which tells apart memory that was freed and used again
  Shape shape;
  DType dtype;
};

}  // namespace detail

/// A part of a contiguous tensor: shape and strides, from an offset on, all in elements.
struct Region {
  Shape shape;
  Strides strides;
  int64_t offset = 0;
};

/// The gradient of one input. The tape adds gradients up; a part costs what it touches, not the
/// whole.
class Grad {
 public:
  /// None: the input needs no gradient.
  Grad() = default;
  /// A gradient of the input's shape. If it is alone it is moved, not copied.
  // Implicit, so that backwards read `return {dx, dy};`
  Grad(Tensor dense) : value_(std::move(dense)) {}

  /// `value` is added into a region of the gradient; the rest is 0. For slices and other views.
  static Grad region(Tensor value, Region region);
  /// Row i of `value` is added to row rows[i]. For embeddings.
  static Grad rows(Tensor value, Tensor rows);
  /// `add(dx, fresh)` adds into dx itself, or writes it where `fresh` (dx is uninitialized then).
  /// For products that can accumulate. Not for a backward that is itself recorded: check
  /// Backward::recorded().
  static Grad into(std::function<void(Tensor& dx, bool fresh)> add);

  bool defined() const { return value_.defined() || add_ != nullptr; }
  const Tensor& value() const { return value_; }
  /// The same gradient times a number, of whatever kind it is.
  Grad scaled(double factor) const;

 private:
  friend class Tape;
  enum class Kind : uint8_t { dense, region, rows, into };
  Kind kind_ = Kind::dense;
  Tensor value_;
  Region region_;
  Tensor rows_;
  std::function<void(Tensor&, bool)> add_;
};

using Grads = std::vector<Grad>;

/// A tensor kept for the backward. Converting it back to a Tensor checks that nobody has
/// overwritten it meanwhile, and names the op that saved it and the op that overwrote it.
class Saved {
 public:
  Saved() = default;
  Saved(const Tensor& x);  // implicit, so that a capture reads `[x = Saved(x)]` and its use `x`
  operator const Tensor&() const { return get(); }
  const Tensor& get() const;
  const Tensor* operator->() const { return &get(); }

 private:
  Tensor tensor_;
  uint32_t version_ = 0;
};

/// What a backward is called with.
class Backward {
 public:
  /// The gradient of output i; undefined where nothing depends on that output.
  const Tensor& dy(size_t i = 0) const { return dy_[i]; }
  /// Whether the gradient of input i is wanted at all.
  bool needs(size_t i) const { return needs_[i]; }
  /// True where this backward is itself recorded, for higher derivatives: use recorded ops only.
  bool recorded() const { return recorded_; }
  /// Removes and returns the gradient accumulated so far for input i, in the dtype of its gradient.
  /// The backward must then return the total: that sum plus its own contribution, added in the
  /// order in which the tape would add them. Undefined: nothing has been accumulated, or a listener
  /// or a filter needs to see the contribution of this backward alone.
  Tensor take_sum(size_t i) const { return take_sum_(i); }

 private:
  friend class Tape;
  /// Whether a gradient came, and an input needs one.
  bool has_work() const;
  std::vector<Tensor> dy_;
  std::vector<bool> needs_;
  bool recorded_ = false;
  std::function<Tensor(size_t)> take_sum_;
};

}  // namespace vitrine
