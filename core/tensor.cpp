#include "core/tensor.h"

#include <algorithm>

#include "core/creation.h"
#include "core/gpu/capture.h"
#include "core/state.h"
#include "core/tensor_kernels.h"
#include "core/written_rows.h"

namespace vitrine {

bool is_contiguous(const Shape& shape, const Strides& strides) {
  int64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

namespace {

/// Whether all elements are inside a storage of `capacity` elements.
bool fits(const Shape& shape, const Strides& strides, int64_t numel, bool contiguous, int64_t offset,
          int64_t capacity) {
  if (contiguous) return offset >= 0 && offset <= capacity && numel <= capacity - offset;
  __int128 lowest = offset, highest = offset;  // the product of sizes fits an int64: no overflow
  for (int i = 0; i < shape.rank(); ++i) {
    const __int128 reach = static_cast<__int128>(shape[i] - 1) * strides[i];
    (reach < 0 ? lowest : highest) += reach;
  }
  return lowest >= 0 && highest < capacity;
}

}  // namespace

Tensor::Tensor(std::shared_ptr<Storage> storage, Shape shape, Strides strides, int64_t offset, DType dtype,
               const char* op)
    : impl_(std::make_shared<Impl>()) {
  check(storage != nullptr, "{}: the storage is null", op);
  check(shape.rank() == strides.rank(), "{}: shape {} and strides {} have different lengths", op, shape,
        strides);
  impl_->numel = vitrine::numel(shape);
  impl_->contiguous = vitrine::is_contiguous(shape, strides);
  const auto capacity = static_cast<int64_t>(storage->bytes() / size_of(dtype));
  // A tensor without elements may begin anywhere.
  if (impl_->numel == 0) offset = std::clamp<int64_t>(offset, 0, capacity);
  check(impl_->numel == 0 || fits(shape, strides, impl_->numel, impl_->contiguous, offset, capacity),
        "{}: shape {} with strides {} at offset {} reaches outside the storage of {} elements", op, shape,
        strides, offset, capacity);
  impl_->storage = std::move(storage);
  impl_->shape = shape;
  impl_->strides = strides;
  impl_->offset = offset;
  impl_->dtype = dtype;
}

Tensor::Tensor(double value, DType dtype) : Tensor(full({}, value, dtype)) {}

int64_t Tensor::size(int64_t axis) const { return shape()[check_axis("size", shape(), axis)]; }

double Tensor::item() const {
  if (!device().is_cpu()) detail::refuse_in_capture("item");
  check(numel() == 1, "item: wanted a tensor of one element, got {}", describe(*this));
  return values().front();
}

std::vector<double> Tensor::values() const {
  if (!device().is_cpu()) detail::refuse_in_capture("values");
  // The conversion goes through Dual, so that a dual64 gives its values. All other dtypes convert
  // to Dual exactly as to double.
  const Tensor wide =
      device().is_cpu() ? copy_as(*this, DType::dual64) : copy_as(copy_to(*this, Device::cpu), DType::dual64);
  const Dual* data = wide.data<Dual>();
  std::vector<double> result(static_cast<size_t>(numel()));
  for (size_t i = 0; i < result.size(); ++i) result[i] = data[i].value;
  return result;
}

Tensor Tensor::alias(const Shape& shape, const Strides& strides, int64_t offset) const {
  int64_t start = 0;
  check(!__builtin_add_overflow(impl().offset, offset, &start), "alias: offset {} + {} overflows",
        impl().offset, offset);
  Tensor same(impl().storage, shape, strides, start, impl().dtype, "alias");
  same.tape_mark().paused = tape_mark().paused;
  return same;
}

Tensor& Tensor::requires_grad(bool on) {
  check(!on || is_floating(dtype()), "requires_grad: a gradient needs a floating dtype, got {}",
        describe(*this));
  if (!on) {
    impl().leaf = nullptr;
  } else if (!impl().leaf) {
    impl().leaf = std::make_shared<Leaf>();
    impl().leaf->grad_dtype = accumulation_dtype(dtype());
  }
  return *this;
}

Tensor Tensor::grad() const {
  const auto& leaf = impl().leaf;
  if (!leaf) return Tensor();
  if (leaf->written_rows) leaf->written_rows->hand_out();
  return leaf->grad;
}

void Tensor::set_grad(Tensor grad) const {
  check(requires_grad(), "set_grad: {} does not require a gradient", describe(*this));
  check(!grad.defined() || (grad.shape() == shape() && grad.device() == device() &&
                            (grad.dtype() == dtype() || grad.dtype() == accumulation_dtype(dtype()))),
        "set_grad: the gradient is {} and the tensor {}", describe(grad), describe(*this));
  if (grad.defined()) {
    // Two leaves that shared the gradient would have it scaled twice by clipping.
    if (!grad.is_exclusive()) grad = copy_as(grad, grad.dtype());
    grad.requires_grad(false);
  }
  impl().leaf->grad = std::move(grad);
}

Leaf::Leaf() = default;
Leaf::~Leaf() { detail::release_in_turn(std::move(grad.impl_)); }

void Tensor::zero_grad() const {
  if (!impl().leaf) return;
  Leaf& leaf = *impl().leaf;
  if (leaf.written_rows) leaf.written_rows->keep(std::move(leaf.grad));
  leaf.grad = Tensor();
  leaf.stale = false;
}

void Tensor::share_leaf(const Tensor& other) {
  check(other.requires_grad(), "share_leaf: {} does not require a gradient", describe(other));
  impl().leaf = other.leaf();
}

void Tensor::undefined() {
  fail("an undefined tensor was used: it was never given a value, or is the grad() of one that has none");
}

void Tensor::wrong_type(DType wanted) const {
  fail("the elements of {} were asked for as {}", describe(*this), name(wanted));
}

std::string Description::text() const {
  if (!tensor.defined()) return "an undefined tensor";
  return fmt::format("{}{} on {}", name(tensor.dtype()), tensor.shape(), to_string(tensor.device()));
}

}  // namespace vitrine
