// Recording an operation. An op first runs its definition instead, if simpler ops have to run in
// its place. Otherwise the op computes its output and ends with record(), which adds the backward:
//
//   Tensor softmax(const Tensor& x) {
//     if (const auto y = through_definition({x}, [&] { return define::softmax(x); })) return *y;
//     …
//     return record("softmax", {x}, y, [y = Saved(y)](const Tensor& dy) -> Grads { … });
//   }
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/random.h"
#include "core/state.h"
#include "core/tape.h"

namespace vitrine {
namespace detail {

/// The recording tape if it must know of an op on `inputs`, else null. A recomputed forward
/// (ReadRecorder) notes the inputs.
Tape* find_tape(std::span<const Tensor> inputs);
/// Whether the definition of an op runs in its place.
bool definition_runs(const Tape* tape, std::span<const Tensor> inputs);

/// The outputs of a definition, as a list.
inline std::vector<Tensor> outputs(Tensor y) { return {std::move(y)}; }
inline std::vector<Tensor> outputs(std::vector<Tensor> ys) { return ys; }
template <class Struct>
std::vector<Tensor> outputs(const Struct& ys) {
  return ys.tensors();
}

template <class F>
Tape::BackwardFunction as_backward(F&& f) {
  if constexpr (std::is_invocable_v<F&, const Backward&>) {
    return std::forward<F>(f);
  } else {
    return [f = std::forward<F>(f)](const Backward& b) mutable -> Grads { return f(b.dy()); };
  }
}

template <class F>
void push(const char* op, std::span<const Tensor> inputs, std::span<Tensor> ys, F&& backward) {
  if (Tape* const tape = find_tape(inputs)) {
    tape->push(op, inputs, ys, as_backward(std::forward<F>(backward)));
  } else {
    discard_saved();
    Tape::note_unrecorded(inputs, ys);
  }
  if (pauses_of_higher_orders > 0) [[unlikely]]
    note_paused(inputs, ys);
}

template <class F>
Tensor record_one(const char* op, std::span<const Tensor> inputs, Tensor y, F&& backward) {
  push(op, inputs, std::span(&y, 1), std::forward<F>(backward));
  return y;
}

}  // namespace detail

/// Runs the definition of an op in place of the op in two cases: on a tape of order 2 or more,
/// which differentiates again, and on dual numbers, which kernels do not support. Otherwise returns
/// nothing, and the op has to run. A checkable tape also runs the definition, unrecorded, and keeps
/// its kernels for the node that is recorded next. `inputs` are the inputs that the op passes to
/// record().
template <class D>
auto through_definition(std::initializer_list<Tensor> inputs, const D& definition)
    -> std::optional<std::invoke_result_t<const D&>> {
  Tape* const tape = detail::find_tape(inputs);
  if (detail::definition_runs(tape, inputs)) return definition();
  if (tape && tape->options().checkable) [[unlikely]]
    tape->keep_definition(inputs, [&] { return detail::outputs(definition()); });
  return std::nullopt;
}

/// Records an op. `backward` takes the gradient of y, or a Backward to see which inputs need a
/// gradient, and returns one Grad for each input. A primitive has no definition: its backward is
/// itself written in recorded ops, and uses only inputs, outputs and constants (masks, indices). A
/// value computed from inputs under Tape::Pause has no derivative, and using it at order 2 is an
/// error.
template <class F>
Tensor record(const char* op, std::initializer_list<Tensor> inputs, Tensor y, F&& backward) {
  return detail::record_one(op, inputs, std::move(y), std::forward<F>(backward));
}

/// The same for a list of inputs that is built at run time.
template <class F>
Tensor record(const char* op, const std::vector<Tensor>& inputs, Tensor y, F&& backward) {
  return detail::record_one(op, inputs, std::move(y), std::forward<F>(backward));
}

/// Records an op with several outputs.
template <class F>
std::vector<Tensor> record_all(const char* op, std::initializer_list<Tensor> inputs, std::vector<Tensor> ys,
                               F&& backward) {
  detail::push(op, inputs, ys, std::forward<F>(backward));
  return ys;
}

/// The same for a list of inputs that is built at run time.
template <class F>
std::vector<Tensor> record_all(const char* op, const std::vector<Tensor>& inputs, std::vector<Tensor> ys,
                               F&& backward) {
  detail::push(op, inputs, ys, std::forward<F>(backward));
  return ys;
}

/// Notes on the tape that the gradient of x ends at this op (argmax, comparisons, detach). Returns
/// y.
Tensor record_cut(const char* op, const Tensor& x, Tensor y);

/// True if a gradient of x is computed: by the recording tape or, for an input of a checkpoint, in
/// the checkpoint's second run. For a value computed inside a checkpoint's first run this is
/// unknown, and the result is false.
bool has_gradient(const Tensor& x);

/// Collects what a recomputed forward reads while this object lives, so that the second run can be
/// the same (see core/recompute.h).
class ReadRecorder {
 public:
  explicit ReadRecorder(Tape* outer);
  ~ReadRecorder();
  ReadRecorder(const ReadRecorder&) = delete;
  ReadRecorder& operator=(const ReadRecorder&) = delete;

  /// Memory that a kernel read, such as a batch or a mask, and its version at the time of the call
  /// of memory().
  struct Memory {
    std::weak_ptr<Storage> storage;
    uint32_t version;
  };
  /// A generator's state now, and its state before the first draw.
  struct Drawn {
    std::shared_ptr<RandomState> state;
    RandomState before;
  };

  void note_input(const Tensor& x);   ///< of a recorded op
  void note_memory(const Tensor& x);  ///< an argument of a kernel
  void note_draw(const std::shared_ptr<RandomState>& state);
  /// The recorder that lives on this thread, or null.
  static ReadRecorder* current();

  /// Whether the checkpoint's own tape tracks x.
  bool tracks(const Tensor& x) const { return outer_->tracks(x); }
  /// Tracked tensors and leaves that were read, each once, in order of first use.
  const std::vector<Tensor>& tracked() const { return tracked_; }
  /// All memory that was read and is still alive; temporaries of the forward are not.
  std::vector<Memory> memory() const;
  const std::vector<Drawn>& generators() const { return generators_; }

 private:
  Tape* outer_;
  ReadRecorder* previous_;
  std::vector<Tensor> tracked_;
  std::vector<std::weak_ptr<Storage>> memory_;
  std::vector<Drawn> generators_;
};

/// The module that runs on this thread, for messages, tables and the profiler:
/// "blocks.0.attention".
class ModuleScope {
 public:
  /// A scope inside the current one: "attention" in "blocks.0" gives "blocks.0.attention".
  explicit ModuleScope(const std::string& name);
  /// The scope of a path that current() returned, for the backward of ops that ran there.
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
