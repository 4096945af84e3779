// The gradients that a backward returns for its inputs: dense, or as an addition to a part of the
// gradient.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/tensor.h"

namespace vitrine {

namespace detail {

/// An input of an op that the tape does not track. Only drawings of the tape use it.
struct Constant {
  explicit Constant(const Tensor& x) : storage(x.shared_storage()), shape(x.shape()), dtype(x.dtype()) {}
  std::weak_ptr<Storage> storage;  ///< weak, to detect memory that was freed and reused
  Shape shape;
  DType dtype;
};

}  // namespace detail

/// A part of a contiguous tensor: shape, strides and offset, all in elements.
struct Region {
  Shape shape;
  Strides strides;
  int64_t offset = 0;
};

/// The gradient of one input. The tape adds gradients up. Adding a part costs time in proportion to
/// that part, not to the whole tensor.
class Grad {
 public:
  /// No gradient: for an input that needs none.
  Grad() = default;
  /// A gradient with the input's shape. It is moved, not copied, if it is the only handle on its
  /// memory.
  // Implicit, so that backwards read `return {dx, dy};`
  Grad(Tensor dense) : value_(std::move(dense)) {}

  /// `value` is added into a region of the gradient; everywhere else the gradient is 0. For slices
  /// and other views.
  static Grad region(Tensor value, Region region);
  /// Row i of `value` is added to row rows[i]. For embeddings.
  static Grad rows(Tensor value, Tensor rows);
  /// For products that can accumulate: `add(dx, fresh)` adds into dx. If `fresh` is true, dx is
  /// uninitialized and `add` overwrites it. A backward that is itself recorded must not return
  /// this: check Backward::recorded().
  static Grad into(std::function<void(Tensor& dx, bool fresh)> add);

  bool defined() const { return value_.defined() || add_ != nullptr; }
  const Tensor& value() const { return value_; }
  /// The same gradient times a number, for every kind of gradient.
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

/// A tensor kept for the backward. Reading it checks that the tensor has not been overwritten
/// since; the error names the op that saved it and the op that overwrote it.
class Saved {
 public:
  Saved() = default;
  Saved(const Tensor& x);  // implicit, so that a lambda captures `[x = Saved(x)]` and uses `x`
  operator const Tensor&() const { return get(); }
  const Tensor& get() const;
  const Tensor* operator->() const { return &get(); }

 private:
  Tensor tensor_;
  uint32_t version_ = 0;
};

/// The argument with which the tape calls a backward.
class Backward {
 public:
  /// The gradient of output i; undefined where nothing depends on that output.
  const Tensor& dy(size_t i = 0) const { return dy_[i]; }
  /// Whether the gradient of input i is needed.
  bool needs(size_t i) const { return needs_[i]; }
  /// True where this backward is itself recorded, for higher derivatives. It must then use recorded
  /// ops only.
  bool recorded() const { return recorded_; }
  /// Removes and returns the sum of gradients accumulated so far for input i, in the dtype of its
  /// gradient. The backward must then return the total: that sum plus its own contribution, added
  /// in the order in which the tape would add them. Undefined if nothing has been accumulated, or
  /// if a listener or a filter has to see the contribution of this backward alone.
  Tensor take_sum(size_t i) const { return take_sum_(i); }

 private:
  friend class Tape;
  /// Whether any output has a gradient and any input needs one.
  bool has_work() const;
  std::vector<Tensor> dy_;
  std::vector<bool> needs_;
  bool recorded_ = false;
  std::function<Tensor(size_t)> take_sum_;
};

}  // namespace vitrine
