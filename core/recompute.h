// Gradient checkpointing, which trades time for memory (Chen, Xu, Zhang, Guestrin: Training deep
// nets with sublinear memory cost, 2016).
#pragma once

#include <functional>
#include <vector>

#include "core/matmul_math.h"
#include "core/record.h"
#include "core/tensor.h"

namespace vitrine {

/// Runs f without recording its ops. The backward runs f a second time, recorded, and
/// differentiates this second run. One node is recorded; its inputs are all tracked tensors that f
/// reads, including parameters. The second run draws the same random numbers as the first, and
/// multiplies matrices in the same way (core/matmul_math.h).
/// Overwriting a tensor that f reads between the two runs is an error. Gradients have the same bits
/// as without checkpointing, even if several checkpoints, or ops outside checkpoints, read the same
/// tensor.
Tensor recompute(const std::function<Tensor()>& f);

/// The same for a function with several results, such as a step of a recurrence and its state.
/// Results without a gradient (undefined tensors, masks, indices) are those of the first run, and
/// so is an input that f returns as it is. No two results may be one tensor.
std::vector<Tensor> recompute_all(const std::function<std::vector<Tensor>()>& f);

/// True during the second run of a function. What must happen only once, such as the update of a
/// running average, is skipped then.
bool recomputing();

/// Runs a function without recording it, and can run it again later with the same random numbers
/// and the same MatmulMath.
/// recompute() consists of these two runs. Other ops may use the second run in another way.
class FirstRun {
 public:
  /// Runs f unrecorded, and notes what it reads and draws. `tape` is the recording one.
  void run(Tape& tape, const std::function<void()>& f);
  /// Runs f again with the same random numbers. An input that was overwritten since is an error.
  void again(const std::function<void()>& f) const;
  /// The tracked tensors that the first run read, parameters included.
  const std::vector<Tensor>& inputs() const { return inputs_; }
  void forget_inputs() { inputs_.clear(); }  ///< so that this object keeps none of them alive

 private:
  std::vector<Tensor> inputs_;
  std::vector<ReadRecorder::Memory> memory_;
  std::vector<ReadRecorder::Drawn> drawn_;
  MatmulMath math_ = MatmulMath::float32;
};

}  // namespace vitrine
