// The kernels that computed the outputs of a recorded op, kept so that they can run again on other
// values. A tape with TapeOptions::checkable keeps them, and core/gradcheck/check_tape.h runs them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace vitrine {

/// Returns the tensor that takes the place of x when a kernel runs again.
using TensorMap = std::function<Tensor(const Tensor& x)>;

/// A kernel that ran, with its arguments.
struct KernelCall {
  const char* name;
  std::vector<Tensor> reads, writes;
  std::function<void(const TensorMap&)> run;  ///< runs the CPU kernel on mapped tensors
};

/// How outputs were computed from inputs.
struct KernelProgram {
  /// A tensor that the program reads, and the version of its memory when the program was kept.
  struct Read {
    Tensor x;
    uint32_t version;
  };
  std::vector<Tensor> inputs, outputs;
  std::vector<std::shared_ptr<const KernelCall>> calls;  ///< in the order in which they ran
  std::vector<Read> memory;                              ///< inputs, outputs and constants
};

/// The programs of a node, which a checkable tape keeps so that the node can be evaluated again.
struct NodeForward {
  KernelProgram op;             ///< the kernels of the op itself
  KernelProgram definition;     ///< the kernels of its definition; no outputs if it has none
  std::string definition_note;  ///< the error of a definition that failed; otherwise empty
};

/// Collects the kernels that run on a thread. A kernel that another kernel calls is part of that
/// other kernel.
class KernelTrace {
 public:
  KernelTrace();
  ~KernelTrace();
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;

  void add(KernelCall call) {
    if (!ended_) calls_.push_back(std::make_shared<const KernelCall>(std::move(call)));
  }
  /// Stops collecting for good, and drops what was collected.
  void end() {
    ended_ = true;
    calls_.clear();
  }
  /// The kernels since begin_op(), reduced to those that compute the outputs from the inputs. If
  /// none of them writes one of the outputs, earlier kernels are searched as well.
  KernelProgram program(std::span<const Tensor> inputs, std::vector<Tensor> outputs) const;
  /// Kernels collected from now on belong to the next op.
  void begin_op() { begin_ = calls_.size(); }
  /// The trace that collects on this thread, or null.
  static KernelTrace* current() { return current_; }

  /// While this object lives, nothing is collected on this thread.
  class Stop {
   public:
    explicit Stop(bool on = true) : trace_(on ? std::exchange(current_, nullptr) : current_) {}
    ~Stop() { current_ = trace_; }
    Stop(const Stop&) = delete;
    Stop& operator=(const Stop&) = delete;

   private:
    KernelTrace* trace_;
  };

 private:
  inline static constinit thread_local KernelTrace* current_ = nullptr;
  std::vector<std::shared_ptr<const KernelCall>> calls_;
  size_t begin_ = 0;  ///< index in calls_ of the first kernel of the running op
  KernelTrace* outer_;
  bool ended_ = false;
};

namespace detail {

template <class Parameter, class Value>
void note_argument(KernelCall& call, const Value& value) {
  constexpr bool written =
      std::is_lvalue_reference_v<Parameter> && !std::is_const_v<std::remove_reference_t<Parameter>>;
  std::vector<Tensor>& tensors = written ? call.writes : call.reads;
  if constexpr (std::is_same_v<Value, std::vector<Tensor>>) {
    for (const Tensor& x : value) note_argument<Parameter>(call, x);
  } else if constexpr (std::is_same_v<Value, Tensor>) {
    if (value.defined()) tensors.push_back(value);
  }
}

template <class Value>
Value mapped(const Value& value, const TensorMap& map) {
  if constexpr (std::is_same_v<Value, Tensor>) {
    return value.defined() ? map(value) : value;
  } else if constexpr (std::is_same_v<Value, std::vector<Tensor>>) {
    std::vector<Tensor> result;
    for (const Tensor& x : value) result.push_back(mapped(x, map));
    return result;
  } else {
    return value;
  }
}

template <class... Parameters, class... Arguments>
KernelCall kernel_call(const char* name, void (*on_cpu)(Parameters...), const Arguments&... arguments) {
  using Values = std::tuple<std::remove_cvref_t<Parameters>...>;
  Values values(arguments...);
  KernelCall call{name, {}, {}, {}};
  std::apply([&](const auto&... value) { (note_argument<Parameters>(call, value), ...); }, values);
  call.run = [on_cpu, values = std::move(values)](const TensorMap& map) {
    Values own = std::apply([&](const auto&... value) { return Values(mapped(value, map)...); }, values);
    std::apply([&](auto&... value) { on_cpu(value...); }, own);
  };
  return call;
}

}  // namespace detail
}  // namespace vitrine
