// A CUDA graph captures the GPU work of a function, such as one training step, and replays it with
// a single launch.
//
//   train_step();  // once eagerly, which creates what is created on first use
//   StepGraph step(Device::cuda, [&] {
//     optimizer.zero_grad();
//     Tape tape;
//     loss = cross_entropy(model.forward(inputs), targets);
//     tape.backward(loss);
//     optim::clip_gradients(model.parameters(), 1);
//     optimizer.step();
//   });
//   for (int64_t i = 0; i < steps; ++i) {
//     copy_async(inputs, …), copy_async(targets, …);       // into the tensors that were captured
//     optimizer.set_lr(schedule(i));
//     step.replay();
//   }
//   std::cout << loss.item();                              // of the last replay
#pragma once

#include <functional>
#include <memory>

#include "core/device.h"

namespace vitrine {

namespace detail {
struct Capture;
}

class StepGraph {
 public:
  /// Runs f and captures its kernels without running them. Tensors that f creates have no values
  /// before the first replay. They keep their addresses, and each replay overwrites them. Memory
  /// that f allocates comes from the graph's own pool; other memory that its kernels use is kept as
  /// long as the graph.
  ///
  /// Each replay gives, bit for bit, what calling f would give: learning rates, the step counts of
  /// optimizers and the position of the thread's generator advance as in such a call. Everything
  /// else that the CPU computes (shapes, branches, plain numbers) keeps its value from the capture.
  ///
  /// Errors: waiting for results (item, values, printing, synchronize, copies to and from the CPU
  /// except copy_async with pinned memory), other streams and generators, manual_seed, an
  /// optimizer's first step, and update rules of the user's own that compute rates on the CPU.
  /// After an error the stream, generator, optimizers and memory are as before; but tensors that f
  /// assigned, including gradients, hold no computed values.
  ///
  /// Other threads may work during the capture, but must not wait for the whole device
  /// (synchronize): CUDA refuses this during a capture.
  ///
  /// If a kernel finds an error in its values (an index, a norm of gradients), the next call that
  /// waits for the GPU reports it, as without a graph; the rest of the replay has run by then.
  /// Gradients in which optim::clip_gradients finds a value that is not finite become 0: momentum
  /// and decay alone then move the parameters. Without clip_gradients, such gradients spoil the
  /// parameters.
  ///
  /// On the CPU nothing is captured: replay() calls f, so the same program runs on both.
  StepGraph(Device device, std::function<void()> f);
  /// Waits until the last replay is done.
  ~StepGraph();
  StepGraph(StepGraph&&) noexcept;
  StepGraph& operator=(StepGraph&&) noexcept;

  /// Launches the whole graph once on the thread's current stream, and does not wait. The next call
  /// that waits reports an index out of range, as without a graph.
  void replay();

 private:
  std::function<void()> function_;  // of the CPU
  std::unique_ptr<detail::Capture> captured_;
};

}  // namespace vitrine
