// A fiber: a function with a stack of its own that runs until it yields, and goes on where it was.
// Each thread of a CUDA block is one. Switching costs a few instructions (x86-64; other CPUs use
// the C library's), and the sanitizers are told of it.
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

  /// Sets what the next resume() starts. The fiber must be new, or its last function must have
  /// returned.
  void start(std::function<void()> function);
  /// Runs the function until it yields or returns. True while it has not returned. `function` must
  /// not throw.
  bool resume();
  /// Called inside the function: back to whoever resumed.
  void yield();
  bool has_on_stack(const void* address) const;

 private:
  struct Context;
  static void enter(Context* context);
  std::unique_ptr<Context> context_;
};

}  // namespace vitrine::emulator
