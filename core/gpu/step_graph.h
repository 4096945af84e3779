// Graphs. A CUDA graph records the GPU work of a function, such as one training step, and replays
// it by a single launch.
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
  /// Runs f, whose kernels are noted and not run: tensors that it makes have no values before the
  /// first replay. Then and later they stay where they are and each replay writes them anew. What f
  /// allocates comes from memory of the graph's own; other memory that its kernels use is kept as
  /// long as the graph.
  ///
  /// Each replay gives bit for bit what calling f would give: learning rates, the steps of
  /// optimizers and the position of the thread's generator go on as then. All else that the CPU
  /// computes (shapes, ifs, plain numbers) stays as it was.
  ///
  /// Errors, after which stream, generator, optimizers and memory are as before (but what f
  /// assigned, gradients too, was never computed): what waits for results (item, values, printing,
  /// copies to and from the CPU but for copy_async with pinned memory, synchronize), other streams
  /// and generators, manual_seed, an optimizer's first step, and rules of one's own that work out
  /// rates on the CPU.
  ///
  /// Other threads may work meanwhile, but not wait for the whole device (synchronize): CUDA
  /// refuses that beside a capture.
  ///
  /// What a kernel finds wrong with its numbers (an index, a norm of gradients) is told by what
  /// next waits for the GPU, as without a graph; but the rest of the replay has run by then.
  /// Gradients that optim::clip_gradients finds not finite are 0 then: an optimizer's step moves
  /// parameters by momentum and decay alone. Without it such gradients spoil them.
  ///
  /// On the CPU nothing is captured: replay() calls f, so that programs run on both.
  StepGraph(Device device, std::function<void()> f);
  /// Waits until the last replay is done.
  ~StepGraph();
  StepGraph(StepGraph&&) noexcept;
  StepGraph& operator=(StepGraph&&) noexcept;

  /// Puts all of it once on the thread's current stream, and does not wait. An index out of range
  /// is told by what waits next, as without a graph.
  void replay();

 private:
  std::function<void()> function_;  // of the CPU
  std::unique_ptr<detail::Capture> captured_;
};

}  // namespace vitrine
