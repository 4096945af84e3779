// Counts floating-point operations: the cost of a computation, independent of the machine.
//
//   FlopCounter counter;
//   … a training step …
//   fmt::print("{:.3g} FLOPs\n", counter.total());
//
// What is counted is what a model's cost consists of: matrix products, convolutions, attention and
// the scans of recurrences. A multiplication and an addition are two operations. Elementwise
// functions, norms, softmax, embeddings and the update rules of optimizers are not counted. So the
// product of [m, k] and [k, n] is 2·m·k·n, and the gradient of a linear layer is twice its forward.
// Operations count what they compute, so a forward that is recomputed counts twice. The count is
// made where an operation runs its kernel, before the device is chosen: CPU and GPU have the same.
#pragma once

namespace vitrine {

/// Counts the operations that its thread computes while the counter lives. An inner counter's
/// operations count for the outer one, too.
class FlopCounter {
 public:
  FlopCounter();
  ~FlopCounter();
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  double total() const { return total_; }

 private:
  friend void count_flops(const char* op, double flops);
  double total_ = 0;
  FlopCounter* outer_;
};

/// Adds to the counters of this thread, and to the profiler's row of `op` (a string with static
/// lifetime). An operation with a kernel of its own calls it next to VITRINE_RUN.
void count_flops(const char* op, double flops);

}  // namespace vitrine
