#include "core/parameter.h"

#include <utility>

#include "core/creation.h"
#include "core/tape.h"
#include "core/tensor_kernels.h"

namespace vitrine {

Parameter::Parameter(Tensor master) : state_(std::make_shared<State>()) {
  check(
      master.dtype() == DType::float32 || master.dtype() == DType::float64 || master.dtype() == DType::dual64,
      "Parameter: the master is {}, wanted float32 or float64", describe(master));
  // Kernels of optimizers walk through its memory.
  state_->whole = master.is_contiguous() ? std::move(master) : copy_as(master, master.dtype());
  state_->whole.requires_grad();
}

Parameter::State& Parameter::state() const {
  check(state_ != nullptr, "an undefined parameter was used");
  return *state_;
}

const Parameter::Stored& Parameter::stored() const { return state(); }

const Tensor& Parameter::value() const {
  const State& s = state();
  return s.copy.defined() ? s.copy : s.whole;
}

Tensor Parameter::master() const {
  const State& s = state();
  if (s.whole.defined()) return s.whole;
  const Tape::Pause pause;
  Tensor joined = empty(s.copy.shape(), DType::float32, s.copy.device());
  VITRINE_RUN(join_halves, joined, s.copy, s.rest);
  if (s.copy.requires_grad()) joined.share_leaf(s.copy);
  return joined;
}

/// Stores a master as a parameter of this dtype. The leaf of the master becomes the parameter's.
void Parameter::store(const Tensor& master, DType dtype) {
  State& s = state();
  Stored now;
  if (dtype == DType::bfloat16) {
    now.copy = empty(master.shape(), dtype, master.device());
    now.rest = empty({master.numel(), 2}, DType::uint8, master.device());
    VITRINE_RUN(split_halves, now.copy, now.rest,
                master.is_contiguous() ? master : copy_as(master, master.dtype()));
  } else if (is_low_precision(dtype)) {
    now.copy = copy_as(master, dtype);
  }
  if (now.copy.defined() && master.requires_grad()) now.copy.share_leaf(master);
  if (!now.rest.defined()) now.whole = master;
  static_cast<Stored&>(s) = std::move(now);
  describe_leaf();
}

void Parameter::requires_grad(bool on) {
  State& s = state();
  for (Tensor* x : {&s.whole, &s.copy})
    if (x->defined() && !on) x->requires_grad(false);
  if (!on || requires_grad()) return;
  (s.whole.defined() ? s.whole : s.copy).requires_grad();
  if (s.whole.defined() && s.copy.defined()) s.copy.share_leaf(s.whole);
  describe_leaf();
}

void Parameter::describe_leaf() {
  if (!requires_grad()) return;
  value().leaf()->name = state().name;
  value().leaf()->grad_dtype = gradient_dtype();
}

DType Parameter::gradient_dtype() const {
  return state().narrow_gradients && dtype() == DType::bfloat16 ? DType::bfloat16 : master_dtype();
}

void Parameter::gradients_in(DType dtype) {
  check(dtype == master_dtype() || (dtype == DType::bfloat16 && this->dtype() == DType::bfloat16),
        "Parameter: gradients in {} of a parameter in {}, wanted {}", vitrine::name(dtype),
        vitrine::name(this->dtype()), vitrine::name(master_dtype()));
  zero_grad();
  state().narrow_gradients = dtype == DType::bfloat16;
  describe_leaf();
}

void Parameter::to(DType dtype) {
  check(is_floating(dtype), "Parameter: wanted a floating dtype, got {}", vitrine::name(dtype));
  if (dtype == this->dtype()) return;
  Tensor x = master();
  if (x.dtype() != accumulation_dtype(dtype)) {  // another leaf, whose gradient has another dtype
    x = copy_as(x, accumulation_dtype(dtype));
    x.requires_grad(requires_grad());
  }
  store(x, dtype);
}

void Parameter::to(Device device) {
  if (this->device() == device) return;
  Tensor x = copy_to(master(), device);
  x.requires_grad(requires_grad());
  store(x, dtype());
}

void Parameter::assign(const Tensor& values) {
  check(values.shape() == shape(), "{}: wanted values of shape {}, got {}",
        name().empty() ? "assign" : name(), shape(), describe(values));
  const Tape::Pause pause;
  State& s = state();
  const Tensor here = values.device() == device() ? values : copy_to(values, device());
  if (s.rest.defined()) {
    const bool fits = here.dtype() == DType::float32 && here.is_contiguous();
    VITRINE_RUN(split_halves, s.copy, s.rest, fits ? here : copy_as(here, DType::float32));
    return;
  }
  // Another view of the master would change while it is read.
  if (here.shared_storage() == s.whole.shared_storage() && !here.is_same(s.whole))
    VITRINE_RUN(copy, s.whole, copy_as(here, here.dtype()));
  else if (!here.is_same(s.whole))
    VITRINE_RUN(copy, s.whole, here);
  if (s.copy.defined()) VITRINE_RUN(copy, s.copy, s.whole);
}

Parameter::Substitute::Substitute(const Parameter& parameter, Tensor value) : state_(parameter.state_) {
  check(value.shape() == parameter.shape(), "Parameter: {} cannot replace {}, whose shape is {}",
        describe(value), parameter.name().empty() ? "a parameter" : parameter.name(), parameter.shape());
  stored_ = std::exchange(static_cast<Stored&>(*state_), {.whole = std::move(value), .copy = {}, .rest = {}});
}

Parameter::Substitute::~Substitute() {
  if (!state_) return;  // moved from
  static_cast<Stored&>(*state_) = std::move(stored_);
}

void Parameter::set_name(const std::string& name) {
  state().name = name;
  describe_leaf();
}
const std::string& Parameter::name() const { return state().name; }

Parameter Parameter::clone() const {
  Parameter result(copy_as(master(), master().dtype()));
  result.set_name(name());
  result.requires_grad(requires_grad());
  result.to(dtype());
  result.state().narrow_gradients = state().narrow_gradients;
  result.describe_leaf();
  return result;
}

}  // namespace vitrine
