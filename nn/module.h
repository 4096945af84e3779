// Modules: parts of a model that own parameters. A module lists its members once, in fields().
// Names, parameters, state dictionaries, conversions, copies and printing are all derived from that
// list.
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

/// The visitor of fields(): it is called with the name of each member and the member.
class Fields {
 public:
  virtual ~Fields() = default;

  /// Skips undefined parameters and buffers, such as the bias of a layer without bias.
  void operator()(const std::string& name, Parameter& parameter);
  void operator()(const std::string& name, Tensor& buffer);
  void operator()(const std::string& name, Module& module);
  template <class M>
  void operator()(const std::string& name, std::vector<M>& modules) {
    for (size_t i = 0; i < modules.size(); ++i) (*this)(name + "." + std::to_string(i), modules[i]);
  }
  /// Skips null pointers.
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

/// Move-only, because a copy would share its parameters unnoticed. Deep copies are made by clone(),
/// which each class defines.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Calls `f` with every parameter, buffer and submodule, each once.
  virtual void fields(Fields& f) = 0;

  /// Parameters with their paths, such as "blocks.0.attention.query.weight". A tied parameter is
  /// listed once, under its first name.
  std::vector<std::pair<std::string, Parameter>> named_parameters();
  std::vector<Parameter> parameters();  ///< the same without paths, as an optimizer expects them
  /// All paths of a parameter: several if it is tied.
  std::vector<std::string> paths_of(const Parameter& parameter);
  /// The device of the first parameter; the CPU for a module without parameters. Writes nothing, so
  /// that several threads may call it.
  Device device();
  /// Tensors that belong to the state but are not learned
  std::vector<std::pair<std::string, Tensor>> named_buffers();
  /// The number of elements of all parameters; tied parameters count once.
  int64_t parameter_count();
  /// Calls f(path, module) for this module, whose path is "", and for all its submodules. A module
  /// comes before its submodules.
  void apply(const std::function<void(const std::string& path, Module& module)>& f);

  /// Master weights and buffers by path. Masters of bfloat16 parameters are new tensors.
  std::map<std::string, Tensor> state_dict();
  /// Copies values into the module. Entries that are missing, unexpected, or of another shape or
  /// dtype give one error that lists them all, and the module is unchanged.
  void load_state_dict(const std::map<std::string, Tensor>& state);
  /// Throws the error that load_state_dict would throw. The module is unchanged.
  void check_state_dict(const std::map<std::string, Tensor>& state);
  /// Makes this module a deep copy of `source`, which must have the same structure except for what
  /// adapt_to copies: values, dtypes, ties, names and modes are copied, gradients are not.
  void copy_from(Module& source);

  void zero_grad();  ///< drops the gradients of all parameters
  /// Converts all parameters (core/parameter.h). Floating-point buffers are converted to the
  /// accumulation dtype, which is float32 for 16-bit dtypes.
  void to(DType dtype);
  void gradients_in(DType dtype);  ///< of all parameters (core/parameter.h)
  void to(Device device);          ///< moves parameters and buffers
  /// Switches this module and all its submodules to training mode, in which dropout is active, or
  /// to evaluation mode. New modules are in training mode.
  void train(bool on = true);
  void eval() { train(false); }
  /// The mode of this module on this thread: the mode of the innermost ModeScope that contains this
  /// module, or else the mode that train() has set.
  bool training() const;

  /// A table of the parameters. Equal parameters of numbered modules share a line. Tied parameters
  /// are counted once.
  std::string summary();

 protected:
  /// Gives this module the parts that were added to `source` after its construction, such as the
  /// low-rank change of a linear layer. copy_from calls it for each pair of modules with one path.
  /// Returns what undoes this, for a copy that is refused.
  virtual std::function<void()> adapt_to(Module& /*source*/) {
    return [] {};
  }
  /// Returns a deep copy. `make` constructs a module of the same structure. The random generator is
  /// unchanged.
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
/// The current modes of a module and all its submodules on this thread.
Modes modes_of(const Module& module);

/// Sets the modes of a module and all its submodules on this thread until the end of the scope. The
/// modules themselves are not written, so other threads may use them in other modes at the same
/// time. Scopes nest.
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

/// Like recompute in core/recompute.h. The second run uses the modes that the module and its
/// submodules had in the first run.
Tensor recompute(const Module& module, const std::function<Tensor()>& f);
std::vector<Tensor> recompute_all(const Module& module, const std::function<std::vector<Tensor>()>& f);

}  // namespace vitrine::nn
