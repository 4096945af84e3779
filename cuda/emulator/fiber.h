// A fiber: a function with its own stack, which runs until it yields and later continues there.
// Each thread of a CUDA block is a fiber. A switch costs a few instructions (on x86-64; other CPUs
// use the switch of the C library), and is reported to the sanitizers.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace vitrine::emulator {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Sets the function that the next resume() starts. The fiber must be new, or its last function
  /// must have returned.
  void start(std::function<void()> function);
  /// Runs the function until it yields or returns. True while it has not returned. `function` must
  /// not throw.
  bool resume();
  /// Called inside the function: returns to the caller of resume().
  void yield();
  bool has_on_stack(const void* address) const;

 private:
  struct Context;
  static void enter(Context* context);
  std::unique_ptr<Context> context_;
};

}  // namespace vitrine::emulator
