// Modules: parts of a model that own parameters. A module lists its members once, in fields();
// names, parameters, state dictionaries, conversions, copies and printing all come from that list.
//
//   class Linear : public Module {
//    public:
//     Tensor forward(const Tensor& x) const { return linear(x, weight, bias); }
//     void fields(Fields& f) override { f("weight", weight); f("bias", bias); }
//     Linear clone() {
//       return clone_into([&] { return Linear(weight.shape()[1], weight.shape()[0]); });
//     }
//     Parameter weight, bias;
//   };
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/creation.h"
#include "core/parameter.h"
#include "core/random.h"
#include "core/tape.h"

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
  /// One that is null is passed over.
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

/// Move-only: a copy would share its parameters unnoticed. Deep copies are made by clone(), which
/// each class gives.
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

  /// Parameters with their paths, as "blocks.0.attention.query.weight"; a tied one under its first
  /// name only.
  std::vector<std::pair<std::string, Parameter>> named_parameters();
  std::vector<Parameter> parameters();  ///< the same without paths: what an optimizer takes
  /// Tensors that are state but not learned
  std::vector<std::pair<std::string, Tensor>> named_buffers();
  /// Elements of all parameters, those of tied ones once.
  int64_t parameter_count();
  /// Calls f(path, module) for this module (its path is "") and all below, outer before inner.
  void apply(const std::function<void(const std::string& path, Module& module)>& f);

  /// Masters and buffers by path.
  std::map<std::string, Tensor> state_dict();
  /// Copies values in. Entries that are missing, unexpected, or of another shape or dtype are one
  /// error that lists them all; then nothing is changed.
  void load_state_dict(const std::map<std::string, Tensor>& state);
  /// Throws what load_state_dict would, and changes nothing.
  void check_state_dict(const std::map<std::string, Tensor>& state);
  /// Becomes a deep copy of a module of the same structure: its values, dtypes, ties, names and
  /// modes, without gradients.
  void copy_from(Module& source);

  void zero_grad();  ///< drops the gradients of all parameters
  /// Converts all parameters (core/parameter.h), and floating buffers to the dtype in which sums
  /// are kept.
  void to(DType dtype);
  void to(Device device);  ///< moves parameters and buffers
  /// Training mode (dropout acts) or evaluation mode, for this module and all below. Modules start
  /// in training mode.
  void train(bool on = true);
  void eval() { train(false); }
  /// The mode of this module on this thread: that of the innermost ModeScope with this module, else
  /// what train() has set.
  bool training() const;

  /// A table of the parameters; equal ones of numbered modules share a line, tied ones are counted
  /// once.
  std::string summary();

 protected:
  /// A deep copy, made of a module of the same structure that `make` builds. Takes no random
  /// numbers.
  template <class Make>
  auto clone_into(Make make) {
    const Generator before = default_generator();
    auto twin = make();
    default_generator() = before;
    twin.copy_from(*this);
    return twin;
  }

 private:
  bool training_ = true;
};

/// Modes by module.
using Modes = std::unordered_map<const Module*, bool>;
/// The modes of a module and all below, as they are now on this thread.
Modes modes_of(Module& module);

/// Until the end of the scope, a module and all below run in other modes on this thread. Nothing is
/// written into the modules: other threads may use them meanwhile, in other modes. Scopes nest.
class ModeScope {
 public:
  ModeScope(Module& module, bool training);
  explicit ModeScope(Modes modes);
  ~ModeScope();
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  friend class Module;
  Modes modes_;
  const ModeScope* outer_;
};

/// As in core/recompute.h; the second run has the modes that the module and all below had in the
/// first.
Tensor recompute(Module& module, const std::function<Tensor()>& f);

}  // namespace vitrine::nn
