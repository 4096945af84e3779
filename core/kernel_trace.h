// The kernels that computed the outputs of a recorded op, kept so that they can run again on other
// values. A tape with TapeOptions::checkable keeps them; core/gradcheck/check_tape.h runs them.
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

/// Gives the tensor with which a kernel runs again in place of x.
using TensorMap = std::function<Tensor(const Tensor& x)>;

/// A kernel that ran, with its arguments.
struct KernelCall {
  const char* name;
  std::vector<Tensor> reads, writes;
  std::function<void(const TensorMap&)> run;  ///< runs the CPU's kernel on mapped tensors
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

/// What a checkable tape keeps of a node, to evaluate it again.
struct NodeForward {
  KernelProgram op;             ///< what the op itself ran
  KernelProgram definition;     ///< what its definition ran; no outputs where there is none
  std::string definition_note;  ///< the error of a definition that failed; else empty
};

/// Collects the kernels that run on a thread. Kernels that a kernel runs are a part of that kernel.
class KernelTrace {
 public:
  KernelTrace();
  ~KernelTrace();
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;

  void add(KernelCall call) {
    if (!ended_) calls_.push_back(std::make_shared<const KernelCall>(std::move(call)));
  }
  /// Collects nothing from now on.
  void end() {
    ended_ = true;
    calls_.clear();
  }
  /// The kernels since begin_op(), reduced to those that compute the outputs from the inputs. Where
  /// they do not write an output, earlier kernels are looked through as well.
  KernelProgram program(std::span<const Tensor> inputs, std::vector<Tensor> outputs) const;
  /// What is collected from now on belongs to the next op.
  void begin_op() { begin_ = calls_.size(); }
  /// The trace that collects on this thread, or null.
  static KernelTrace* current() { return current_; }

  /// While it lives, nothing is collected on this thread.
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
  size_t begin_ = 0;  ///< of calls_, the first of the op that runs
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
