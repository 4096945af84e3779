#include "core/grad.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/creation.h"
#include "core/state.h"
#include "core/tensor_kernels.h"

namespace vitrine {
namespace detail {
namespace {

thread_local size_t saved_bytes = 0;
thread_local std::vector<Constant> saved_constants;
thread_local const char* running_backward = "";

}  // namespace

size_t take_saved_bytes() { return std::exchange(saved_bytes, 0); }
std::vector<Constant> take_saved_constants() { return std::exchange(saved_constants, {}); }
void discard_saved() {
  saved_bytes = 0;
  saved_constants.clear();
}
const char* backward_op() { return running_backward; }
void set_backward_op(const char* op) { running_backward = op; }

int64_t now_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace detail

Grad Grad::region(Tensor value, Region region) {
  Grad grad(std::move(value));
  grad.kind_ = Kind::region;
  grad.region_ = region;
  return grad;
}

Grad Grad::rows(Tensor value, Tensor rows) {
  Grad grad(std::move(value));
  grad.kind_ = Kind::rows;
  grad.rows_ = std::move(rows);
  return grad;
}

Grad Grad::into(std::function<void(Tensor&, bool)> add) {
  Grad grad;
  grad.kind_ = Kind::into;
  grad.add_ = std::move(add);
  return grad;
}

Grad Grad::scaled(double factor) const {
  const auto times = [factor](const Tensor& x) {
    std::vector<double> values = x.values();
    for (double& v : values) v *= factor;
    return tensor(values, x.shape(), x.dtype(), x.device());
  };
  Grad result = *this;
  if (value_.defined()) result.value_ = times(value_);
  if (add_)
    result.add_ = [add = add_, times](Tensor& dx, bool fresh) {
      Tensor alone = zeros(dx.shape(), dx.dtype(), dx.device());
      add(alone, true);
      alone = times(alone);
      if (fresh) {
        VITRINE_RUN(copy, dx, alone);
      } else {
        VITRINE_RUN(accumulate, dx, alone);
      }
    };
  return result;
}

Saved::Saved(const Tensor& x) : tensor_(x) {
  if (!x.defined()) return;
  version_ = x.storage().version();
  detail::saved_bytes += static_cast<size_t>(x.numel() * x.element_size());
  if (!is_floating(x.dtype())) detail::saved_constants.emplace_back(x);
}

const Tensor& Saved::get() const {
  if (tensor_.defined() && tensor_.storage().version() != version_) [[unlikely]]
    fail("{}: {}, which it saved for its backward, has been overwritten since by {}", detail::backward_op(),
         describe(tensor_), tensor_.storage().last_writer());
  return tensor_;
}

bool Backward::has_work() const {
  return std::any_of(dy_.begin(), dy_.end(), [](const Tensor& dy) { return dy.defined(); }) &&
         std::find(needs_.begin(), needs_.end(), true) != needs_.end();
}

}  // namespace vitrine
