#include "core/written_rows.h"

#include <utility>

#include "core/creation.h"
#include "core/tensor_kernels.h"

namespace vitrine {
namespace {

/// Below this size clearing all rows is fast, and memory that is kept would not pay.
constexpr int64_t kLeastBytes = 1 << 20;

}  // namespace

Tensor WrittenRows::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor grad = std::exchange(kept_, Tensor());
  if (grad.defined() && grad.shape() == shape && grad.dtype() == dtype && grad.device() == device) {
    for (const Tensor& rows : rows_) VITRINE_RUN(clear_rows, grad, rows);
  } else {
    grad = vitrine::zeros(shape, dtype, device);
  }
  drop();
  if (!device.is_cpu() || grad.numel() * grad.element_size() < kLeastBytes) return grad;
  storage_ = grad.shared_storage();
  confirm(grad);
  handed_out_ = false;
  return grad;
}

bool WrittenRows::describe(const Tensor& grad) const {
  return !handed_out_ && grad.defined() && storage_.lock() == grad.shared_storage() &&
         version_ == grad.storage().version();
}

void WrittenRows::note(const Tensor& grad, const Tensor& rows) {
  count_ += rows.numel();
  if (2 * count_ > grad.size(0)) return drop();  // then clearing everything is no slower
  rows_.push_back(copy_as(rows, DType::int64));
  confirm(grad);
}

void WrittenRows::confirm(const Tensor& grad) { version_ = grad.storage().version(); }

void WrittenRows::keep(Tensor grad) {
  if (!grad.defined()) return;
  const bool known = describe(grad) && grad.is_exclusive() && !grad.leaf();
  if (known)
    kept_ = std::move(grad);
  else
    drop();
}

void WrittenRows::drop() {
  kept_ = Tensor();
  rows_.clear();
  count_ = 0;
  storage_.reset();
}

}  // namespace vitrine
