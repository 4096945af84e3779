#include "core/tensor.h"

#include "core/capture.h"
#include "core/creation.h"
#include "core/kernels.h"

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

Tensor::Tensor(std::shared_ptr<Storage> storage, Shape shape, Strides strides, int64_t offset, DType dtype)
    : impl_(std::make_shared<Impl>()) {
  impl_->storage = std::move(storage);
  impl_->numel = vitrine::numel(shape);
  impl_->contiguous = vitrine::is_contiguous(shape, strides);
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
  // Through Dual, so that a dual64 gives its values; every other dtype converts to it exactly as to double.
  const Tensor wide =
      device().is_cpu() ? copy_as(*this, DType::dual64) : copy_as(copy_to(*this, Device::cpu), DType::dual64);
  const Dual* data = wide.data<Dual>();
  std::vector<double> result(static_cast<size_t>(numel()));
  for (size_t i = 0; i < result.size(); ++i) result[i] = data[i].value;
  return result;
}

Tensor Tensor::alias(const Shape& shape, const Strides& strides, int64_t offset) const {
  __int128 lowest = static_cast<__int128>(impl().offset) + offset,
           highest = lowest;  // of 8 axes at most: no overflow
  const bool empty = vitrine::numel(shape) == 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const __int128 reach = static_cast<__int128>(shape[i] - 1) * strides[i];
    (reach < 0 ? lowest : highest) += reach;
  }
  const auto capacity = static_cast<int64_t>(storage().bytes()) / element_size();
  check(empty || (lowest >= 0 && highest < capacity),
        "alias: shape {} with strides {} at {} + offset {} reaches outside the storage of {} elements", shape,
        strides, impl().offset, offset, capacity);
  return Tensor(impl().storage, shape, strides, impl().offset + offset, impl().dtype);
}

Tensor& Tensor::requires_grad(bool on) {
  check(!on || is_floating(dtype()), "requires_grad: a gradient needs a floating dtype, got {}",
        describe(*this));
  if (!on) {
    impl().leaf = nullptr;
  } else if (!impl().leaf) {
    impl().leaf = std::make_shared<Leaf>();
    impl().leaf->grad_dtype = wide(dtype());
  }
  return *this;
}

Tensor Tensor::grad() const { return impl().leaf ? impl().leaf->grad : Tensor(); }

void Tensor::set_grad(Tensor grad) const {
  check(requires_grad(), "set_grad: {} does not require a gradient", describe(*this));
  check(!grad.defined() || (grad.shape() == shape() && grad.device() == device() &&
                            (grad.dtype() == dtype() || grad.dtype() == wide(dtype()))),
        "set_grad: the gradient is {} and the tensor {}", describe(grad), describe(*this));
  impl().leaf->grad = std::move(grad);
}

void Tensor::zero_grad() const {
  if (!impl().leaf) return;
  impl().leaf->grad = Tensor();
  impl().leaf->stale = false;
}

void Tensor::share_leaf(const Tensor& other, DType grad_dtype) {
  check(other.requires_grad(), "share_leaf: {} does not require a gradient", describe(other));
  impl().leaf = other.leaf();
  impl().leaf->grad_dtype = grad_dtype;
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
