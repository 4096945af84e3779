// Modules: parts of a model that own parameters. A module lists its members once, in fields(); names, parameters, state
// dictionaries, conversions and printing all come from that list.
//
//   class Linear : public Module {
//    public:
//     Tensor forward(const Tensor& x) const { return linear(x, weight, bias); }
//     void fields(Fields& f) override { f("weight", weight); f("bias", bias); }
//     Parameter weight, bias;
//   };
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/parameter.h"

namespace vitrine::nn {

class Module;

/// What fields() talks to: it is told of each member by name.
class Fields {
 public:
  virtual ~Fields() = default;

  /// Undefined parameters and buffers (a layer without bias, say) are passed over.
  void operator()(const std::string& name, Parameter& parameter);
  void operator()(const std::string& name, Tensor& buffer);
  void operator()(const std::string& name, Module& module);
  template <class M>
  void operator()(const std::string& name, std::vector<M>& modules) {
    for (size_t i = 0; i < modules.size(); ++i) (*this)(name + "." + std::to_string(i), modules[i]);
  }
  template <class M>
  void operator()(const std::string& name, std::unique_ptr<M>& module) {
    if (module) (*this)(name, *module);
  }

 protected:
  virtual void on_parameter(const std::string& path, Parameter& parameter) = 0;
  virtual void on_buffer(const std::string&, Tensor&) {}
  virtual void on_module(const std::string&, Module&) {}

 private:
  std::string path_of(const std::string& name) const { return prefix_.empty() ? name : prefix_ + "." + name; }
  std::string prefix_;
};

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Tells `f` of every parameter, buffer and submodule, each once.
  virtual void fields(Fields& f) = 0;

  /// Parameters with their paths, as "blocks.0.attention.query.weight"; a tied one under its first name only.
  std::vector<std::pair<std::string, Parameter>> named_parameters();
  std::vector<Parameter> parameters();
  std::vector<std::pair<std::string, Tensor>> named_buffers();
  int64_t parameter_count();

  /// Masters and buffers by path.
  std::map<std::string, Tensor> state_dict();
  /// Copies values in. Missing, unexpected and mis-shaped entries are one error that lists them; then nothing is changed.
  void load_state_dict(const std::map<std::string, Tensor>& state);

  void zero_grad();
  /// Conversion of all parameters (core/parameter.h).
  void to(DType dtype);
  void to(Device device);
  /// Training mode (dropout acts) or evaluation mode, for this module and all below. Modules start in training mode.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  /// A table: path, shape, number of elements.
  std::string summary();

 private:
  bool training_ = true;
};

}  // namespace vitrine::nn
