#include "nn/module.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "core/recompute.h"
#include "core/tensor_kernels.h"

namespace vitrine::nn {
namespace {

thread_local const ModeScope* innermost_scope = nullptr;

/// A visitor made of three functions.
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

/// Rejects a second member of the same name, which would silently replace the first in a state
/// dictionary.
class UniquePaths {
 public:
  void add(const std::string& path) {
    check(paths_.insert(path).second, "fields: two members are called {}", path);
  }

 private:
  std::set<std::string> paths_;
};

/// "blocks.3.out" as "blocks.*.out".
std::string without_numbers(const std::string& path) {
  std::string result;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool number = !part.empty() && std::all_of(part.begin(), part.end(),
                                                     [](unsigned char c) { return std::isdigit(c) != 0; });
    result += (result.empty() ? "" : ".") + (number ? "*" : part);
    begin = end + 1;
  }
  return result;
}

/// 1234567 as "1,234,567".
std::string grouped(int64_t n) {
  std::string digits = std::to_string(n);
  for (int64_t i = static_cast<int64_t>(digits.size()) - 3; i > 0; i -= 3)
    digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

/// All members of a module. Tied parameters appear under each of their names.
struct Members {
  explicit Members(Module& module) {
    Visitor visitor;
    visitor.parameter = [this](const std::string& path, Parameter& p) { parameters.emplace_back(path, &p); };
    visitor.buffer = [this](const std::string& path, Tensor& b) { buffers.emplace_back(path, &b); };
    module.fields(visitor);
    module.apply([this](const std::string& path, Module& m) { modules.emplace_back(path, &m); });
  }
  std::vector<std::pair<std::string, Parameter*>> parameters;
  std::vector<std::pair<std::string, Tensor*>> buffers;
  std::vector<std::pair<std::string, Module*>> modules;
};

template <class M>
void check_same_names(const std::vector<std::pair<std::string, M*>>& x,
                      const std::vector<std::pair<std::string, M*>>& y) {
  for (size_t i = 0; i < std::max(x.size(), y.size()); ++i) {
    const std::string a = i < x.size() ? x[i].first : "nothing", b = i < y.size() ? y[i].first : "nothing";
    check(a == b, "copy_from: the modules differ: this one has {}, the source has {}", a, b);
  }
}

/// The same names and shapes.
template <class M>
void check_same(const std::vector<std::pair<std::string, M*>>& x,
                const std::vector<std::pair<std::string, M*>>& y) {
  check_same_names(x, y);
  for (size_t i = 0; i < x.size(); ++i)
    check(x[i].second->shape() == y[i].second->shape(), "copy_from: {} is {}, in the source {}", x[i].first,
          x[i].second->shape(), y[i].second->shape());
}

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
  UniquePaths paths;
  Visitor visitor;
  visitor.buffer = [&](const std::string& path, Tensor&) { paths.add(path); };
  visitor.parameter = [&](const std::string& path, Parameter& p) {
    paths.add(path);
    if (!seen.insert(p.identity()).second) return;
    if (p.name() != path) p.set_name(path);  // so that threads may call this at the same time
    result.emplace_back(path, p);
  };
  fields(visitor);
  return result;
}

std::vector<std::string> Module::paths_of(const Parameter& parameter) {
  std::vector<std::string> paths;
  for (const auto& [path, member] : Members(*this).parameters)
    if (member->identity() == parameter.identity()) paths.push_back(path);
  return paths;
}

std::vector<Parameter> Module::parameters() {
  std::vector<Parameter> result;
  for (auto& [path, parameter] : named_parameters()) result.push_back(parameter);
  return result;
}

Device Module::device() {
  std::optional<Device> found;
  Visitor visitor;
  visitor.parameter = [&](const std::string&, Parameter& p) {
    if (!found) found = p.value().device();
  };
  fields(visitor);
  return found.value_or(Device::cpu);
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

void Module::apply(const std::function<void(const std::string&, Module&)>& f) {
  f("", *this);
  Visitor visitor;
  visitor.module = f;
  fields(visitor);
}

std::map<std::string, Tensor> Module::state_dict() {
  std::map<std::string, Tensor> state;
  for (const auto& [path, parameter] : named_parameters()) state.emplace(path, parameter.master());
  for (const auto& [path, buffer] : named_buffers()) state.emplace(path, buffer);
  return state;
}

void Module::check_state_dict(const std::map<std::string, Tensor>& state) {
  std::map<std::string, std::pair<Shape, DType>> own;
  for (const auto& [path, p] : named_parameters()) own.emplace(path, std::pair(p.shape(), p.master_dtype()));
  for (const auto& [path, buffer] : named_buffers())
    own.emplace(path, std::pair(buffer.shape(), buffer.dtype()));
  std::vector<std::string> problems;
  for (const auto& [path, wanted] : own) {
    const auto& [shape, dtype] = wanted;
    const auto found = state.find(path);
    if (found == state.end() || !found->second.defined()) {
      problems.push_back("missing " + path);
      continue;
    }
    const Tensor& given = found->second;
    if (given.shape() != shape)
      problems.push_back(fmt::format("{} is {}, wanted {}", path, given.shape(), shape));
    if (given.dtype() != dtype)
      problems.push_back(fmt::format("{} is {}, wanted {}", path, name(given.dtype()), name(dtype)));
  }
  for (const auto& [path, tensor] : state)
    if (!own.count(path)) problems.push_back("unexpected " + path);
  check(problems.empty(), "load_state_dict: {}", fmt::join(problems, "; "));
}

void Module::load_state_dict(const std::map<std::string, Tensor>& state) {
  check_state_dict(state);
  for (auto& [path, parameter] : named_parameters()) parameter.assign(state.at(path));
  const Tape::Pause pause;
  for (auto& [path, buffer] : named_buffers())
    VITRINE_RUN(copy, buffer, copy_to(state.at(path), buffer.device()));
}

void Module::copy_from(Module& source) {
  std::map<std::string, Module*> theirs;
  source.apply([&](const std::string& path, Module& m) { theirs[path] = &m; });
  std::vector<std::function<void()>> undo;
  apply([&](const std::string& path, Module& m) {
    if (const auto twin = theirs.find(path); twin != theirs.end())
      undo.insert(undo.begin(), m.adapt_to(*twin->second));
  });
  const Members from(source), to(*this);
  try {
    check_same(to.parameters, from.parameters);
    check_same(to.buffers, from.buffers);
    check_same_names(to.modules, from.modules);
  } catch (...) {
    for (const auto& step : undo) step();
    throw;
  }
  std::map<const void*, Parameter> copies;  // one per parameter, so that ties are kept
  for (size_t i = 0; i < from.parameters.size(); ++i) {
    const Parameter& p = *from.parameters[i].second;
    if (!copies.count(p.identity())) copies.emplace(p.identity(), p.clone());
    *to.parameters[i].second = copies.at(p.identity());
  }
  for (size_t i = 0; i < from.buffers.size(); ++i)
    *to.buffers[i].second = copy_as(*from.buffers[i].second, from.buffers[i].second->dtype());
  for (size_t i = 0; i < from.modules.size(); ++i)
    to.modules[i].second->training_ = from.modules[i].second->training_;
}

void Module::zero_grad() {
  for (const Parameter& parameter : parameters()) parameter.zero_grad();
}

void Module::to(DType dtype) {
  for (Parameter& parameter : parameters()) parameter.to(dtype);
  for (auto& [path, buffer] : Members(*this).buffers)
    if (is_floating(buffer->dtype()) && buffer->dtype() != accumulation_dtype(dtype))
      *buffer = copy_as(*buffer, accumulation_dtype(dtype));
}

void Module::gradients_in(DType dtype) {
  for (Parameter& parameter : parameters()) parameter.gradients_in(dtype);
}

void Module::to(Device device) {
  for (Parameter& parameter : parameters()) parameter.to(device);
  for (auto& [path, buffer] : Members(*this).buffers) {
    if (!(buffer->device() == device)) *buffer = copy_to(*buffer, device);
  }
}

void Module::train(bool on) {
  apply([on](const std::string&, Module& m) { m.training_ = on; });
}

std::string Module::summary() {
  struct Row {
    std::string path, shape, dtype;
    int64_t numel, count;
  };
  std::vector<Row> rows;
  size_t width = 9;
  int64_t bytes = 0;
  for (const auto& [path, p] : named_parameters()) {
    const Row row = {without_numbers(path), to_string(p.shape()), std::string(name(p.dtype())), p.numel(), 1};
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& r) {
      return r.path == row.path && r.shape == row.shape && r.dtype == row.dtype;
    });
    if (same == rows.end()) {
      rows.push_back(row);
    } else {
      ++same->count;
    }
    width = std::max(width, row.path.size());
    bytes += p.numel() * static_cast<int64_t>(size_of(p.master_dtype()));
  }
  std::string table = fmt::format("{:<{}}  {:<14} {:<9} {:>12} {:>7} {:>14}\n", "parameter", width, "shape",
                                  "dtype", "elements", "times", "together");
  for (const Row& r : rows)
    table += fmt::format("{:<{}}  {:<14} {:<9} {:>12} {:>7} {:>14}\n", r.path, width, r.shape, r.dtype,
                         grouped(r.numel), r.count, grouped(r.numel * r.count));
  return table + fmt::format("{} parameters, {:.1f} MiB\n", grouped(parameter_count()),
                             static_cast<double>(bytes) / (1 << 20));
}

bool Module::training() const {
  for (const ModeScope* scope = innermost_scope; scope != nullptr; scope = scope->outer_)
    if (const auto found = scope->modes_.find(this); found != scope->modes_.end()) return found->second;
  return training_;
}

Modes modes_of(const Module& module) {
  Modes modes;
  // fields() is not const, and nothing is changed here.
  const_cast<Module&>(module).apply([&](const std::string&, Module& m) { modes[&m] = m.training(); });
  return modes;
}

ModeScope::ModeScope(Modes modes) : modes_(std::move(modes)), outer_(std::exchange(innermost_scope, this)) {}

ModeScope::ModeScope(Module& module, bool training)
    : ModeScope([&] {
        Modes modes = modes_of(module);
        for (auto& [m, mode] : modes) mode = training;
        return modes;
      }()) {}

ModeScope::~ModeScope() { innermost_scope = outer_; }

std::vector<Tensor> recompute_all(const Module& module, const std::function<std::vector<Tensor>()>& f) {
  return vitrine::recompute_all([f, modes = modes_of(module)] {
    const ModeScope same(modes);
    return f();
  });
}

Tensor recompute(const Module& module, const std::function<Tensor()>& f) {
  return recompute_all(module, [f] { return std::vector<Tensor>{f()}; })[0];
}

}  // namespace vitrine::nn
