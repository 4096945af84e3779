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
  state_->master = std::move(master);
  state_->master.requires_grad();
}

Parameter::State& Parameter::state() const {
  check(state_ != nullptr, "an undefined parameter was used");
  return *state_;
}

const Tensor& Parameter::value() const {
  const State& s = state();
  return s.copy.defined() ? s.copy : s.master;
}

const Tensor& Parameter::master() const { return state().master; }

void Parameter::refresh() {
  State& s = state();
  if (!s.copy.defined()) return;
  const Tape::Pause pause;
  VITRINE_RUN(copy, s.copy, s.master);
}

void Parameter::replace_master(Tensor master) {
  State& s = state();
  const bool tracked = requires_grad();
  s.master = std::move(master);
  s.copy = Tensor();
  requires_grad(tracked);
}

void Parameter::requires_grad(bool on) {
  State& s = state();
  s.master.requires_grad(on);
  if (s.copy.defined() && on) s.copy.share_leaf(s.master, accumulation_dtype(s.copy.dtype()));
  if (s.copy.defined() && !on) s.copy.requires_grad(false);
  name_leaf();
}

void Parameter::name_leaf() {
  if (requires_grad()) state().master.leaf()->name = state().name;
}

void Parameter::to(DType dtype) {
  check(is_floating(dtype), "Parameter: wanted a floating dtype, got {}", vitrine::name(dtype));
  State& s = state();
  if (s.master.dtype() != accumulation_dtype(dtype))
    replace_master(copy_as(s.master, accumulation_dtype(dtype)));
  s.copy = Tensor();
  if (!is_low_precision(dtype)) return;
  s.copy = copy_as(s.master, dtype);
  if (requires_grad()) s.copy.share_leaf(s.master, accumulation_dtype(dtype));
}

void Parameter::to(Device device) {
  State& s = state();
  if (s.master.device() == device) return;
  const DType dtype = value().dtype();
  replace_master(copy_to(s.master, device));
  to(dtype);
}

void Parameter::assign(const Tensor& values) {
  check(values.shape() == shape(), "{}: wanted values of shape {}, got {}",
        name().empty() ? "assign" : name(), shape(), describe(values));
  const Tape::Pause pause;
  Tensor& master = state().master;
  if (values.shared_storage() ==
      master.shared_storage())  // for example another view, which would change while it is read
    VITRINE_RUN(copy, master, copy_as(values, values.dtype()));
  else
    VITRINE_RUN(copy, master, values.device() == master.device() ? values : copy_to(values, master.device()));
  refresh();
}

Parameter::Substitute::Substitute(const Parameter& parameter, Tensor value) : state_(parameter.state_) {
  check(value.shape() == parameter.shape(), "Parameter: {} cannot replace {}, whose shape is {}",
        describe(value), parameter.name().empty() ? "a parameter" : parameter.name(), parameter.shape());
  master_ = std::exchange(state_->master, std::move(value));
  copy_ = std::exchange(state_->copy, Tensor());
}

Parameter::Substitute::~Substitute() {
  if (!state_) return;  // moved from
  state_->master = std::move(master_);
  state_->copy = std::move(copy_);
}

void Parameter::set_name(const std::string& name) {
  state().name = name;
  name_leaf();
}
const std::string& Parameter::name() const { return state().name; }

Parameter Parameter::clone() const {
  Parameter result(copy_as(master(), master().dtype()));
  result.set_name(name());
  result.requires_grad(requires_grad());
  result.to(dtype());
  return result;
}

}  // namespace vitrine
