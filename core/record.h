// Recording an operation. An op computes its output and ends with
//
//   return record("softmax", {x}, y, [y = Saved(y), axis](const Tensor& dy) -> Grads { … }, [&] { return define::softmax(x, axis); });
//
// The backward gets the output's gradient (or a Backward, to see which inputs need one) and returns one Grad per input. A
// primitive, whose backward is written in recorded ops, gives no definition; every other op gives one, and a tape of
// order 2 or more records that in its place. A checkable tape runs the definition, too, and keeps its kernels. The backward
// of a primitive may use inputs, outputs and constants (masks, indices) alone: a value that was computed from inputs under
// Tape::Pause has no derivative, and using it is an error at order 2.
#pragma once

#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/random.h"
#include "core/tape.h"

namespace vitrine {
namespace detail {

/// The recording tape if it (or a paused forward that notes what it reads) has to know of this op, else null.
Tape* tape_for(std::initializer_list<Tensor> inputs);
Tape* tape_for(const std::vector<Tensor>& inputs);

template <class F>
Tape::BackwardFunction as_backward(F&& f) {
  if constexpr (std::is_invocable_v<F&, const Backward&>) {
    return std::forward<F>(f);
  } else {
    return [f = std::forward<F>(f)](const Backward& b) mutable -> Grads { return f(b.dy()); };
  }
}

template <class Inputs>
Tensor unrecorded(const Inputs& inputs, Tensor y) {
  Tape::note_unrecorded(std::span<const Tensor>(inputs.begin(), inputs.size()), std::span<Tensor>(&y, 1));
  return y;
}

template <class Inputs, class F>
Tensor push_one(Tape& tape, const char* op, const Inputs& inputs, Tensor y, F&& backward) {
  tape.push(op, std::span<const Tensor>(inputs.begin(), inputs.size()), std::span<Tensor>(&y, 1),
            as_backward(std::forward<F>(backward)));
  return y;
}

}  // namespace detail

/// Records a primitive.
template <class F>
Tensor record(const char* op, std::initializer_list<Tensor> inputs, Tensor y, F&& backward) {
  if (Tape* tape = detail::tape_for(inputs))
    return detail::push_one(*tape, op, inputs, y, std::forward<F>(backward));
  return detail::unrecorded(inputs, y);
}

/// The same for a list made at run time.
template <class F>
Tensor record(const char* op, const std::vector<Tensor>& inputs, Tensor y, F&& backward) {
  if (Tape* tape = detail::tape_for(inputs))
    return detail::push_one(*tape, op, std::span(inputs), y, std::forward<F>(backward));
  return detail::unrecorded(inputs, y);
}

/// Records an op that has a definition.
template <class F, class D>
Tensor record(const char* op, std::initializer_list<Tensor> inputs, Tensor y, F&& backward, D&& definition) {
  if (Tape* tape = detail::tape_for(inputs)) {
    if (tape->order() > 1) return definition();
    y = detail::push_one(*tape, op, inputs, y, std::forward<F>(backward));
    if (tape->options().checkable) [[unlikely]]
      tape->keep_definition([&] { return std::vector<Tensor>{definition()}; });
    return y;
  }
  return detail::unrecorded(inputs, y);
}

template <class F, class D>
Tensor record(const char* op, const std::vector<Tensor>& inputs, Tensor y, F&& backward, D&& definition) {
  if (Tape* tape = detail::tape_for(inputs)) {
    if (tape->order() > 1) return definition();
    y = detail::push_one(*tape, op, std::span(inputs), y, std::forward<F>(backward));
    if (tape->options().checkable) [[unlikely]]
      tape->keep_definition([&] { return std::vector<Tensor>{definition()}; });
    return y;
  }
  return detail::unrecorded(inputs, y);
}

/// Records an op with several outputs. The definition returns as many.
template <class F, class D>
std::vector<Tensor> record_all(const char* op, std::initializer_list<Tensor> inputs, std::vector<Tensor> ys,
                               F&& backward, D&& definition) {
  Tape* tape = detail::tape_for(inputs);
  if (!tape) {
    Tape::note_unrecorded(std::span(inputs.begin(), inputs.size()), ys);
    return ys;
  }
  if (tape->order() > 1) return definition();
  tape->push(op, std::span(inputs.begin(), inputs.size()), ys,
             detail::as_backward(std::forward<F>(backward)));
  if (tape->options().checkable) [[unlikely]]
    tape->keep_definition(definition);
  return ys;
}

/// Notes on the tape that the gradient of x ends at this op (argmax, comparisons, detach). Returns y.
Tensor record_cut(const char* op, const Tensor& x, Tensor y);

/// True where a gradient of x is computed: by the recording tape, or, for an input of a checkpoint, in the second run that the first
/// one stands for. What a checkpoint's first run computes is not known to have one.
bool has_gradient(const Tensor& x);

/// True where ops on `inputs` will go through their definitions (a tape of order 2 or more): an op may skip its kernel.
bool records_definitions(std::initializer_list<Tensor> inputs);

/// What a recomputed forward reads while it lives, so that a second run can be the same (see core/recompute.h).
class ReadRecorder {
 public:
  explicit ReadRecorder(Tape* outer);
  ~ReadRecorder();
  ReadRecorder(const ReadRecorder&) = delete;
  ReadRecorder& operator=(const ReadRecorder&) = delete;

  /// Memory that a kernel read, such as a batch or a mask, and its version when the recorder was asked.
  struct Memory {
    std::weak_ptr<Storage> storage;
    uint32_t version;
  };
  /// A generator's state, and what it was before the first draw.
  struct Drawn {
    std::shared_ptr<RandomState> state;
    RandomState before;
  };

  void note_input(const Tensor& x);   ///< of a recorded op
  void note_memory(const Tensor& x);  ///< an argument of a kernel
  void note_draw(const std::shared_ptr<RandomState>& state);
  /// The recorder that lives on this thread, or null.
  static ReadRecorder* current();

  /// As the tape of the checkpoint.
  bool tracks(const Tensor& x) const { return outer_->tracks(x); }
  /// Tracked tensors and leaves that were read, each once, in order of first use.
  const std::vector<Tensor>& tracked() const { return tracked_; }
  /// All memory that was read and lives on; temporaries of the forward do not.
  std::vector<Memory> memory() const;
  const std::vector<Drawn>& generators() const { return generators_; }

 private:
  Tape* outer_;
  ReadRecorder* previous_;
  std::vector<Tensor> tracked_;
  std::vector<std::weak_ptr<Storage>> memory_;
  std::vector<Drawn> generators_;
};

/// The module that runs on this thread, for messages, tables and the profiler: "blocks.0.attention".
class ModuleScope {
 public:
  /// Within the scope around it: "attention" in "blocks.0" is "blocks.0.attention".
  explicit ModuleScope(const std::string& name);
  /// A path that current() gave: for the backward of what ran there.
  explicit ModuleScope(const std::string* path);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;
  /// The path of the innermost scope, interned; "" outside all scopes.
  static const std::string& current();

 private:
  const std::string* previous_;
};

}  // namespace vitrine
