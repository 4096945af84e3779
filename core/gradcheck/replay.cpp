#include "core/gradcheck/replay.h"

#include <algorithm>
#include <map>

#include "core/creation.h"
#include "core/tensor_kernels.h"

namespace vitrine::gradients {
namespace {

/// The offsets of x's elements in its storage, in row-major order.
std::vector<int64_t> offsets(const Tensor& x) {
  std::vector<int64_t> result = {x.offset()};
  for (int axis = 0; axis < x.rank(); ++axis) {
    std::vector<int64_t> next;
    for (const int64_t offset : result)
      for (int64_t i = 0; i < x.shape()[axis]; ++i) next.push_back(offset + i * x.strides()[axis]);
    result = std::move(next);
  }
  return result;
}

bool shows_an_element_twice(const Tensor& x) {
  std::vector<int64_t> all = offsets(x);
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) != all.end();
}

/// All elements of x's storage.
Tensor whole_memory(const Tensor& x) {
  const auto count = static_cast<int64_t>(x.storage().bytes()) / x.element_size();
  return Tensor(x.shared_storage(), {count}, {1}, 0, x.dtype());
}

/// Calls f with each tensor of a program except its inputs.
template <class F>
void each_tensor(const KernelProgram& program, F&& f) {
  for (const Tensor& y : program.outputs) f(y);
  for (const auto& call : program.calls) {
    for (const Tensor& x : call->reads) f(x);
    for (const Tensor& y : call->writes) f(y);
  }
}

bool writes(const KernelProgram& program, const Storage& storage) {
  return std::any_of(program.calls.begin(), program.calls.end(), [&](const auto& call) {
    return std::any_of(call->writes.begin(), call->writes.end(),
                       [&](const Tensor& y) { return &y.storage() == &storage; });
  });
}

}  // namespace

Replay::Replay(const NodeForward& forward, const std::vector<bool>& tracked) : forward_(forward) {
  find_variables(tracked);
}

bool Replay::read_directly(const Tensor& x) const {
  const auto& inputs = forward_.op.inputs;
  bool direct = true;
  const auto look = [&](const Tensor& t) {
    if (&t.storage() != &x.storage()) return;
    direct &= std::any_of(inputs.begin(), inputs.end(),
                          [&](const Tensor& input) { return input.defined() && input.is_same(t); });
  };
  each_tensor(forward_.op, look);
  each_tensor(forward_.definition, look);
  return direct;
}

void Replay::find_variables(const std::vector<bool>& tracked) {
  const auto& inputs = forward_.op.inputs;
  std::map<const Storage*, std::vector<size_t>> shared;
  std::map<const Storage*, bool> has_constants;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& x = inputs[i];
    if (!x.defined()) continue;
    if (!read_directly(x)) {
      if (tracked[i])
        shared[&x.storage()].push_back(i);
      else
        has_constants[&x.storage()] = true;
    } else if (tracked[i]) {
      const auto [known, fresh] = direct_.emplace(x.identity(), variables_.size());
      if (fresh)
        variables_.push_back({fmt::format("input {}", i), {i}, copy_as(x, DType::float64), true, false});
      else
        variables_[known->second].inputs.push_back(i);
    }
  }
  for (const auto& [storage, of] : shared) add_shared(of, has_constants.contains(storage));
  for (Variable& v : variables_)
    if (v.inputs.size() > 1) v.name = fmt::format("inputs {}", fmt::join(v.inputs, ", "));
}

void Replay::add_shared(const std::vector<size_t>& inputs, bool has_constants) {
  const Tensor& x = forward_.op.inputs[inputs[0]];
  if (has_constants)
    shared_constant_ = fmt::format("input {} shares memory with an input that is a constant", inputs[0]);
  const bool one =
      std::all_of(inputs.begin(), inputs.end(), [&](size_t i) { return forward_.op.inputs[i].is_same(x); });
  const bool whole = !one || shows_an_element_twice(x);
  variables_.push_back({fmt::format("input {}", inputs[0]), inputs,
                        copy_as(whole ? whole_memory(x) : x, DType::float64), false, whole});
}

std::string Replay::refusal(Way way) const {
  const KernelProgram& p = program(way);
  if (way == Way::definition && !forward_.definition_note.empty()) return forward_.definition_note;
  if (p.outputs.empty()) return "the op has no definition";
  if (!shared_constant_.empty()) return shared_constant_;
  if (variables_.empty()) return "no input has a gradient";
  std::string reason;
  const auto look = [&](const Tensor& x) {
    if (!x.device().is_cpu())
      reason =
          fmt::format("a tensor is on {}, and only kernels on the CPU can run again", to_string(x.device()));
    else if (x.dtype() == DType::dual64)
      reason = "it was computed in dual64";
  };
  each_tensor(p, look);
  for (const auto& [x, version] : p.memory) {
    look(x);
    if (reason.empty() && x.storage().version() != version)
      reason = fmt::format("{}, which it used, was overwritten since, by {}", describe(x).text(),
                           x.storage().last_writer());
  }
  for (const Tensor& y : p.outputs) {
    const bool is_view = std::any_of(p.inputs.begin(), p.inputs.end(), [&](const Tensor& x) {
      return x.defined() && &x.storage() == &y.storage();
    });
    if (reason.empty() && !is_view && !writes(p, y.storage()))
      reason = "no kernel computes its output: was it written by a loop on the CPU?";
  }
  return reason;
}

Tensor Replay::substitute(const Tensor& x, DType dtype, const std::vector<Tensor>& xs, Memory& memory) const {
  const auto variable = direct_.find(x.identity());
  if (variable != direct_.end()) return xs[variable->second];
  const DType own = is_floating(x.dtype()) ? dtype : x.dtype();
  std::shared_ptr<Storage>& storage = memory[&x.storage()];
  if (!storage) storage = copy_as(whole_memory(x), own).shared_storage();
  return Tensor(storage, x.shape(), x.strides(), x.offset(), own);
}

Tensor Replay::run(Way way, const std::vector<Tensor>& xs) {
  const KernelProgram& p = program(way);
  const DType dtype = xs[0].dtype();
  Memory& memory = memories_[2 * static_cast<size_t>(way) + (dtype == DType::dual64)];
  const TensorMap map = [&](const Tensor& x) { return substitute(x, dtype, xs, memory); };
  for (size_t k = 0; k < xs.size(); ++k) {
    const Variable& v = variables_[k];
    if (v.direct) continue;
    const Tensor& input = p.inputs[v.inputs[0]];
    Tensor to = map(v.whole ? whole_memory(input) : input);
    VITRINE_RUN(copy, to, xs[k]);
  }
  for (const auto& call : p.calls) call->run(map);
  int64_t size = 0, done = 0;
  for (const Tensor& y : p.outputs) size += is_floating(y.dtype()) ? y.numel() : 0;
  Tensor all = empty({size}, dtype);
  for (const Tensor& y : p.outputs) {
    if (!is_floating(y.dtype())) continue;
    Tensor part = all.alias(y.shape(), contiguous_strides(y.shape()), done);
    VITRINE_RUN(copy, part, map(y));
    done += y.numel();
  }
  return all;
}

std::vector<double> Replay::recorded() const {
  std::vector<double> all;
  for (const Tensor& y : forward_.op.outputs) {
    if (!is_floating(y.dtype())) continue;
    const auto values = y.values();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::vector<double> Replay::gradient(const Variable& variable, const std::vector<Tensor>& dx) const {
  std::vector<double> sum(static_cast<size_t>(variable.point.numel()), 0);
  for (const size_t i : variable.inputs) {
    const auto values = dx[i].values();
    const auto at = variable.whole ? offsets(forward_.op.inputs[i]) : std::vector<int64_t>();
    for (size_t n = 0; n < values.size(); ++n)
      sum[variable.whole ? static_cast<size_t>(at[n]) : n] += values[n];
  }
  return sum;
}

}  // namespace vitrine::gradients
