#include "nn/module.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "core/creation.h"
#include "core/kernels.h"
#include "core/tape.h"

namespace vitrine::nn {
namespace {

/// Fields as three functions.
class Visitor : public Fields {
 public:
  std::function<void(const std::string&, Parameter&)> parameter = [](const std::string&, Parameter&) {};
  std::function<void(const std::string&, Tensor&)> buffer = [](const std::string&, Tensor&) {};
  std::function<void(const std::string&, Module&)> module = [](const std::string&, Module&) {};

 protected:
  void on_parameter(const std::string& path, Parameter& p) override { parameter(path, p); }
  void on_buffer(const std::string& path, Tensor& b) override { buffer(path, b); }
  void on_module(const std::string& path, Module& m) override { module(path, m); }
};

}  // namespace

void Fields::operator()(const std::string& name, Parameter& parameter) {
  if (parameter.defined()) on_parameter(path_of(name), parameter);
}

void Fields::operator()(const std::string& name, Tensor& buffer) {
  if (buffer.defined()) on_buffer(path_of(name), buffer);
}

void Fields::operator()(const std::string& name, Module& module) {
  const std::string outer = std::exchange(prefix_, path_of(name));
  on_module(prefix_, module);
  module.fields(*this);
  prefix_ = outer;
}

std::vector<std::pair<std::string, Parameter>> Module::named_parameters() {
  std::vector<std::pair<std::string, Parameter>> result;
  std::set<const void*> seen;
  Visitor visitor;
  visitor.parameter = [&](const std::string& path, Parameter& p) {
    if (!seen.insert(p.identity()).second) return;
    p.set_name(path);
    result.emplace_back(path, p);
  };
  fields(visitor);
  return result;
}

std::vector<Parameter> Module::parameters() {
  std::vector<Parameter> result;
  for (auto& [path, parameter] : named_parameters()) result.push_back(parameter);
  return result;
}

std::vector<std::pair<std::string, Tensor>> Module::named_buffers() {
  std::vector<std::pair<std::string, Tensor>> result;
  Visitor visitor;
  visitor.buffer = [&](const std::string& path, Tensor& b) { result.emplace_back(path, b); };
  fields(visitor);
  return result;
}

int64_t Module::parameter_count() {
  int64_t count = 0;
  for (const auto& [path, parameter] : named_parameters()) count += parameter.numel();
  return count;
}

std::map<std::string, Tensor> Module::state_dict() {
  std::map<std::string, Tensor> state;
  for (const auto& [path, parameter] : named_parameters()) state.emplace(path, parameter.master());
  for (const auto& [path, buffer] : named_buffers()) state.emplace(path, buffer);
  return state;
}

void Module::load_state_dict(const std::map<std::string, Tensor>& state) {
  std::vector<std::string> problems;
  const auto own = state_dict();
  for (const auto& [path, tensor] : own) {
    const auto found = state.find(path);
    if (found == state.end()) {
      problems.push_back("missing " + path);
    } else if (found->second.shape() != tensor.shape()) {
      problems.push_back(fmt::format("{} is {}, wanted {}", path, found->second.shape(), tensor.shape()));
    }
  }
  for (const auto& [path, tensor] : state)
    if (!own.count(path)) problems.push_back("unexpected " + path);
  check(problems.empty(), "load_state_dict: {}", fmt::join(problems, "; "));
  for (auto& [path, parameter] : named_parameters()) parameter.assign(state.at(path));
  const Tape::Pause pause;
  for (auto& [path, buffer] : named_buffers()) VITRINE_RUN(copy, buffer, state.at(path));
}

void Module::zero_grad() {
  for (const Parameter& parameter : parameters()) parameter.zero_grad();
}

void Module::to(DType dtype) {
  for (Parameter& parameter : parameters()) parameter.to(dtype);
}

void Module::to(Device device) {
  for (Parameter& parameter : parameters()) parameter.to(device);
}

void Module::train(bool on) {
  training_ = on;
  Visitor visitor;
  visitor.module = [on](const std::string&, Module& m) { m.training_ = on; };
  fields(visitor);
}

std::string Module::summary() {
  std::string table = fmt::format("{:<48} {:<18} {:>12}\n", "parameter", "shape", "elements");
  for (const auto& [path, parameter] : named_parameters())
    table += fmt::format("{:<48} {:<18} {:>12}\n", path, to_string(parameter.shape()), parameter.numel());
  return table + fmt::format("{:<48} {:<18} {:>12}\n", "all", "", parameter_count());
}

}  // namespace vitrine::nn
