// How a kernel is declared once for both devices, and runs on the device that holds its tensors.
//
//   // declares cpu::softmax and cuda::softmax
//   VITRINE_KERNEL(softmax, Tensor& y, const Tensor& x, int axis);
//   VITRINE_CPU_KERNEL(snake, Tensor& y, …);  // no CUDA version: a clear error on a GPU
//   …
//   VITRINE_RUN(softmax, y, x, axis);  // runs the version for the device of y and x
//
// A kernel writes its parameters of type `Tensor&` and reads its parameters of type `const
// Tensor&`; the same holds for lists, `std::vector<Tensor>&`. VITRINE_RUN checks that all tensors
// share a device, increments the versions of written tensors, refuses to write into tensors that
// the running tape tracks, and reports the run to the profiler. In a build with CUDA, real or
// emulated, a missing CUDA version is a link error.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/gpu/gpu.h"
#include "core/kernel_trace.h"
#include "core/pauses.h"
#include "core/profiler.h"
#include "core/tensor.h"

#define VITRINE_KERNEL(name, ...) \
  namespace cpu {                 \
  void name(__VA_ARGS__);         \
  }                               \
  namespace cuda {                \
  void name(__VA_ARGS__);         \
  }

#define VITRINE_CPU_KERNEL(name, ...)                \
  namespace cpu {                                    \
  void name(__VA_ARGS__);                            \
  }                                                  \
  namespace cuda {                                   \
  inline constexpr ::vitrine::detail::NoTwin name{}; \
  }

#if VITRINE_CUDA_KERNELS
#define VITRINE_CUDA_TWIN(name) ::vitrine::detail::twin(cuda::name)
#else
#define VITRINE_CUDA_TWIN(name) nullptr
#endif

/// Runs kernel `name` on the device that its tensor arguments share.
#define VITRINE_RUN(name, ...) VITRINE_RUN_AS(#name, name, __VA_ARGS__)

/// The same for a kernel that serves several ops. Messages and the profiler show `op`, a string
/// with static lifetime.
#define VITRINE_RUN_AS(op, name, ...) \
  ::vitrine::detail::run_kernel(op, &cpu::name, VITRINE_CUDA_TWIN(name), nullptr, __VA_ARGS__)

/// Runs the version of kernel `name` for a given device. For kernels whose tensors are on different
/// devices (transfers).
#define VITRINE_RUN_ON(device, name, ...)                                                        \
  do {                                                                                           \
    const ::vitrine::Device device_of_kernel = (device);                                         \
    ::vitrine::detail::run_kernel(#name, &cpu::name, VITRINE_CUDA_TWIN(name), &device_of_kernel, \
                                  __VA_ARGS__);                                                  \
  } while (false)

namespace vitrine::detail {

struct NoTwin {};
template <class F>
requires std::is_function_v<F>
constexpr F* twin(F& f) { return &f; }
constexpr std::nullptr_t twin(NoTwin) { return nullptr; }

/// Reports one kernel run, which lasts as long as this object, to the profiler and the allocator's
/// statistics.
class KernelScope {
 public:
  explicit KernelScope(const char* name);
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

  /// The name of the kernel that runs on this thread, for messages; "" if there is none.
  static const char* innermost();

 private:
  const char* name_;
  const KernelScope* outer_;
  size_t bytes_;  // allocated since the kernel before: outputs and temporaries
  int64_t start_;
};

/// Checks that all tensors of a kernel share a device, and lets a recomputed forward note that the
/// kernel reads x.
void inspect(const char* kernel, Device& device, bool& found, const Tensor& x);
void check_writable(const char* kernel, const Tensor& y);
/// Waits until the kernel has finished, because a launch returns at once and the profiler measures
/// the kernel. Does nothing in a capture, where no kernel runs.
void wait_for_kernel(Device device);
[[noreturn]] void no_kernel_for(const char* kernel, Device device);

/// Checks one argument. With a null `device` the tensor may be on any device.
template <class Parameter, class Argument>
void check_argument(const char* kernel, Device* device, bool* found, const Argument& argument) {
  if constexpr (std::is_same_v<std::remove_cvref_t<Argument>, std::vector<Tensor>>) {
    using Element =
        std::conditional_t<std::is_same_v<Parameter, std::vector<Tensor>&>, Tensor&, const Tensor&>;
    for (const Tensor& x : argument) check_argument<Element>(kernel, device, found, x);
  }
  if constexpr (std::is_same_v<std::remove_cvref_t<Argument>, Tensor>) {
    if (!argument.defined()) return;
    if (device) inspect(kernel, *device, *found, argument);
    if constexpr (std::is_same_v<Parameter, Tensor&>) check_writable(kernel, argument);
  }
}

/// Counts the write, after the checks of all arguments.
template <class Parameter, class Argument>
void note_write(const char* kernel, const Argument& argument) {
  if constexpr (std::is_same_v<Parameter, std::vector<Tensor>&>) {
    for (const Tensor& x : argument) note_write<Tensor&>(kernel, x);
  } else if constexpr (std::is_same_v<Parameter, Tensor&>) {
    if (argument.defined()) argument.storage().written_by(kernel);
  }
}

/// Sorts a tensor argument, or a list, into those that the kernel reads and those that it writes.
template <class Parameter, class Argument>
void collect(std::vector<Tensor>& inputs, std::vector<Tensor>& outputs, const Argument& argument) {
  using Type = std::remove_cvref_t<Argument>;
  constexpr bool written = std::is_same_v<Parameter, Type&>;
  if constexpr (std::is_same_v<Type, std::vector<Tensor>>) {
    for (const Tensor& x : argument) (written ? outputs : inputs).push_back(x);
  } else if constexpr (std::is_same_v<Type, Tensor>) {
    if (argument.defined()) (written ? outputs : inputs).push_back(argument);
  }
}

template <class... Parameters, class Twin, class... Arguments>
void run_kernel(const char* name, void (*on_cpu)(Parameters...), Twin on_cuda, const Device* forced,
                Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "wrong number of arguments for this kernel");
  Device device = forced ? *forced : Device::cpu;
  bool found = false;
  (check_argument<Parameters>(name, forced ? nullptr : &device, &found, arguments), ...);
  (note_write<Parameters>(name, arguments), ...);
  if (pauses_of_higher_orders > 0) [[unlikely]] {
    std::vector<Tensor> inputs, outputs;
    (collect<Parameters>(inputs, outputs, arguments), ...);
    note_paused(inputs, outputs);
  }
  if (KernelTrace* trace = KernelTrace::current()) [[unlikely]]
    if (*KernelScope::innermost() == '\0') trace->add(kernel_call(name, on_cpu, arguments...));
  const KernelScope scope(name);
  if (device.is_cpu()) {
    on_cpu(std::forward<Arguments>(arguments)...);
  } else {
    if constexpr (std::is_same_v<Twin, std::nullptr_t>) {
      no_kernel_for(name, device);
    } else {
      cuda::select(device);
      on_cuda(std::forward<Arguments>(arguments)...);
      if (Profiler::active()) wait_for_kernel(device);
    }
  }
}

}  // namespace vitrine::detail
