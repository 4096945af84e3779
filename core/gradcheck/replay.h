// A node's forward as a function that can be evaluated at any point and in another dtype. Not for
// users.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/kernel_trace.h"

namespace vitrine::gradients {

/// Runs the kernels of a node again, in separate memory: nothing that the user sees changes, and
/// replays of different nodes may run at the same time.
class Replay {
 public:
  /// A variable of differentiation: an input, or memory that several inputs share.
  struct Variable {
    std::string name;            ///< "input 0" or "inputs 0, 2"
    std::vector<size_t> inputs;  ///< indices of the node's inputs
    Tensor point;                ///< float64; the input's shape, or one axis for all of the memory
    bool direct;                 ///< kernels read it by this handle only, and get the moved tensor
    bool whole;                  ///< `point` is all of the memory
  };
  enum class Way { op, definition };

  /// `tracked` says which inputs of the node have a gradient. Both arguments must outlive the
  /// replay.
  Replay(const NodeForward& forward, const std::vector<bool>& tracked);

  const std::vector<Variable>& variables() const { return variables_; }
  /// Why the outputs cannot be recomputed in this way; empty if they can.
  std::string refusal(Way way) const;
  /// All elements of the floating outputs, concatenated, at the point xs. xs has one tensor per
  /// variable, all of one dtype: float64 or dual64. The result has that dtype.
  Tensor run(Way way, const std::vector<Tensor>& xs);
  /// The outputs as they were recorded.
  std::vector<double> recorded() const;
  /// The gradient of a variable, from the gradients of the node's inputs.
  std::vector<double> gradient(const Variable& variable, const std::vector<Tensor>& dx) const;

 private:
  using Memory = std::unordered_map<const Storage*, std::shared_ptr<Storage>>;

  const KernelProgram& program(Way way) const { return way == Way::op ? forward_.op : forward_.definition; }
  void find_variables(const std::vector<bool>& tracked);
  void add_shared(const std::vector<size_t>& inputs, bool has_constants);
  bool read_directly(const Tensor& x) const;
  Tensor substitute(const Tensor& x, DType dtype, const std::vector<Tensor>& xs, Memory& memory) const;

  const NodeForward& forward_;
  std::vector<Variable> variables_;
  std::unordered_map<const void*, size_t> direct_;  ///< variables by the identity of the input
  /// Why variables and constants cannot be separated; else empty.
  std::string shared_constant_;
  Memory memories_[4];  ///< by way and dtype
};

}  // namespace vitrine::gradients
