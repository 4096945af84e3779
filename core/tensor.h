// A tensor: a cheap handle on shared storage, with an offset, a shape, strides, a dtype and a
// device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/shape.h"
#include "core/storage.h"

namespace vitrine {

class Tensor;
class Tape;

class WrittenRows;

/// The data that a leaf (a tensor that requires a gradient) has in addition to its values.
struct Leaf;

/// Copying a Tensor copies the handle; views (ops/view.h) share the storage. As with a pointer, a
/// const Tensor may be written through: `const` means that the handle does not change. Kernels take
/// outputs as `Tensor&` to show that they write them.
class Tensor {
 public:
  /// Undefined: no storage. Only defined(), assignment and destruction are allowed.
  Tensor() = default;
  /// `offset` and `strides` are counted in elements. Errors, whose messages begin with `op`: a null
  /// storage, different numbers of strides and sizes, or an element outside the storage.
  Tensor(std::shared_ptr<Storage> storage, Shape shape, Strides strides, int64_t offset, DType dtype,
         const char* op = "Tensor");
  /// A scalar of rank 0.
  explicit Tensor(double value, DType dtype = DType::float32);

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const { return impl().shape; }
  const Strides& strides() const { return impl().strides; }
  int rank() const { return impl().shape.rank(); }
  /// The size of an axis; negative axes count from the end.
  int64_t size(int64_t axis) const;
  int64_t numel() const { return impl().numel; }
  DType dtype() const { return impl().dtype; }
  Device device() const { return impl().storage->device(); }
  bool is_contiguous() const { return impl().contiguous; }
  int64_t offset() const { return impl().offset; }
  Storage& storage() const { return *impl().storage; }
  const std::shared_ptr<Storage>& shared_storage() const { return impl().storage; }
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  const void* identity() const { return impl_.get(); }
  /// True if no other handle or view can see these elements, so that they may be written in place.
  bool is_exclusive() const { return impl_.use_count() == 1 && impl().storage.use_count() == 1; }

  /// A pointer to the first element. The type must match the dtype.
  template <class T>
  T* data() const {
    if (impl().dtype != dtype_v<T>) [[unlikely]]
      wrong_type(dtype_v<T>);
    return static_cast<T*>(raw());
  }
  void* raw() const { return static_cast<char*>(impl().storage->data()) + impl().offset * element_size(); }
  int64_t element_size() const { return static_cast<int64_t>(size_of(impl().dtype)); }

  /// The only element as a double (see values()). Another number of elements is an error. Copies
  /// from a GPU.
  double item() const;
  /// All elements in row-major order, as doubles. A dual64 gives its values; int64 beyond ±2^53 is
  /// rounded. Copies from a GPU.
  std::vector<double> values() const;

  /// The same storage with another shape, strides and offset (in elements, from this tensor's first
  /// element). Not recorded on the tape; recorded views are built from it. A view outside the
  /// storage is an error.
  Tensor alias(const Shape& shape, const Strides& strides, int64_t offset = 0) const;

  /// Marks a floating leaf: backward() adds its gradient to grad(). Marking an op's output does not
  /// create a leaf: the gradient still flows on to the op's inputs (Tape::gradient and on_gradient
  /// show it).
  Tensor& requires_grad(bool on = true);
  bool requires_grad() const { return impl_ && impl_->leaf != nullptr; }
  /// The accumulated gradient (not a copy); undefined if there is none. It is float32 for bfloat16
  /// and float16 leaves. No two leaves share the memory of their gradients, so a gradient may be
  /// scaled in place.
  Tensor grad() const;
  /// Replaces the gradient; `grad` has this tensor's shape. It is moved in if it is the only handle
  /// on its memory (is_exclusive), else copied. An error if no gradient is required.
  void set_grad(Tensor grad) const;
  /// Drops the gradient (and the mark that a failed backward left). The next gradient is then moved
  /// in, not added. The memory of a large table's gradient is kept for the next one
  /// (core/written_rows.h).
  void zero_grad() const;
  /// The same as Tape::recording()->backward(*this).
  void backward() const;
  const std::shared_ptr<Leaf>& leaf() const { return impl().leaf; }
  /// Shares the gradient of `other`. Used for the 16-bit copy of a parameter.
  void share_leaf(const Tensor& other);

  /// The slot in which a tape keeps this tensor's gradient. `paused`: the tape of order 2 or more
  /// that was paused while the tensor was computed from tensors that it tracks. Maintained by Tape.
  struct TapeMark {
    uint64_t tape = 0, paused = 0;
    int32_t slot = -1;
  };
  TapeMark& tape_mark() const { return impl().mark; }

 private:
  struct Impl {
    std::shared_ptr<Storage> storage;
    Shape shape;
    Strides strides;
    int64_t offset = 0;
    int64_t numel = 0;
    DType dtype = DType::float32;
    bool contiguous = true;
    std::shared_ptr<Leaf> leaf;
    TapeMark mark;
  };
  Impl& impl() const {
    if (!impl_) [[unlikely]]
      undefined();
    return *impl_;
  }
  friend struct Leaf;
  [[noreturn]] static void undefined();
  [[noreturn]] void wrong_type(DType wanted) const;

  std::shared_ptr<Impl> impl_;
};

/// Shared by all handles of a leaf and by its low-precision copy. A chain of leaves, each of which
/// is the gradient of another, is freed without recursion.
struct Leaf {
  Leaf();
  ~Leaf();
  Leaf(const Leaf&) = delete;
  Leaf& operator=(const Leaf&) = delete;

  Tensor grad;                        ///< undefined if there is none
  DType grad_dtype = DType::float32;  ///< the dtype in which gradients are added up
  /// The parameter's name in its model, for messages; may be empty
  std::string name;
  /// A backward failed after it had changed grad; cleared by zero_grad.
  bool stale = false;
  std::unique_ptr<WrittenRows> written_rows;  ///< null unless an embedding has written grad
};

/// Describes a tensor, as in "float32[2, 3] on cpu". The text is created only when it is printed,
/// so checks that pass do not pay for their message.
struct Description {
  const Tensor& tensor;
  std::string text() const;
};

/// For messages: check(…, "… got {}", describe(x)).
inline Description describe(const Tensor& x) { return {x}; }

/// True if row-major order visits the elements in memory order without gaps.
bool is_contiguous(const Shape& shape, const Strides& strides);

}  // namespace vitrine

template <>
struct fmt::formatter<vitrine::Description> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const vitrine::Description& x, Context& context) const {
    return fmt::formatter<std::string>::format(x.text(), context);
  }
};
