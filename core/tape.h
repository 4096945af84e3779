// The tape: what ran is recorded, in the order in which it ran; backward is one loop from its end.
//
//   Tape tape;                           // recording starts
//   Tensor loss = cross_entropy(model(x), y);
//   tape.backward(loss);                 // adds into every leaf's grad and consumes the tape
//
// Nothing is recorded unless a Tape is alive on this thread.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/grad.h"
#include "core/kernel_trace.h"
#include "core/tensor.h"

namespace vitrine {

/// Whether a backward pass keeps the nodes for another one, or frees each as soon as it has been
/// used.
enum class Keep : bool { no, yes };

/// How a tape records.
struct TapeOptions {
  /// Highest derivative wanted, 1 to 100. From 2 on, ops are recorded through their definitions, so
  /// that every backward can itself be recorded, and nodes live as long as the tape.
  int order = 1;
  /// Checks every output and every gradient; the first that is not finite is an error that names
  /// the op and its place.
  bool anomaly = false;
  /// Keeps the kernels that computed each node's outputs, for check_tape (see
  /// core/gradcheck/check_tape.h). All tensors that these kernels read and wrote live as long as
  /// the tape. Definitions of ops run as well.
  bool checkable = false;
};

/// A record of the ops of one forward pass, and their backward pass. One records per thread; it
/// does not move, and ends with its scope. An op is recorded where an input is tracked: a leaf that
/// requires a gradient, a watched tensor, or an output of this tape. Of a tape that has ended the
/// outputs are constants. A tape ends on the thread on which it began: if another thread destroys
/// it while it records or is paused, the next use of a tape on its own thread is an error.
///
/// Ownership of gradients: no two gradients that a user can write share memory. What gradient()
/// returns, what a hook is shown and what a leaf holds are each the only handle on their memory
/// when they are handed out; the tape copies where they would not be, which in ordinary training is
/// nowhere.
class Tape {
 private:
  struct Thread;

 public:
  using BackwardFunction = std::function<Grads(const Backward&)>;

  /// Starts recording on this thread. A tape that already records here is an error, unless it is
  /// paused.
  explicit Tape(TapeOptions options = {});
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// While it lives, nothing is recorded on this thread and tracked tensors may be written. Pauses
  /// end in the reverse of the order in which they began, on their own thread; otherwise the next
  /// use of a tape on that thread is an error.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    friend class Tape;
    std::shared_ptr<Thread> thread_;
    Tape* paused_;  // null once it has ended
    Pause* outer_;
  };

  /// The tape that records on this thread, or null.
  static Tape* recording();

  /// Tracks x, so that gradient() can be asked for it although it is no leaf. Returns x.
  Tensor watch(const Tensor& x);
  bool tracks(const Tensor& x) const;
  /// Whether x shares memory with a tensor that this tape tracks: outside a pause nothing may write
  /// there.
  bool tracks_memory_of(const Tensor& x) const;

  /// Adds ∂loss/∂leaf to the grad of every leaf. `loss` has one element, or `seed` (of its shape)
  /// stands for ∂/∂loss. Recording stops and the tape is consumed, unless Keep::yes.
  void backward(const Tensor& loss, Keep keep = Keep::no);
  void backward(const Tensor& loss, const Tensor& seed, Keep keep = Keep::no);

  /// ∂y/∂x for each x, zeros where y does not depend on it; leaves are left alone. The caller alone
  /// owns each result: it shares no memory with another result, a seed or a gradient inside the
  /// tape. On a tape of order n the result can itself be differentiated, n − 1 times; once more is
  /// an error, and so is a backward that then uses floating values computed under Tape::Pause from
  /// tracked tensors, as derivatives would lack what they depend on.
  std::vector<Tensor> gradient(const Tensor& y, const std::vector<Tensor>& xs, Keep keep = Keep::no);
  std::vector<Tensor> gradient(const std::vector<Tensor>& ys, const std::vector<Tensor>& xs,
                               const std::vector<Tensor>& seeds, Keep keep = Keep::no);
  /// The same added to `sums`, one for each x (undefined: nothing yet), gradient by gradient.
  std::vector<Tensor> gradient(const std::vector<Tensor>& ys, const std::vector<Tensor>& xs,
                               const std::vector<Tensor>& seeds, std::vector<Tensor> sums,
                               Keep keep = Keep::no);

  /// Calls `hook` with the gradient of x once it is complete; what it returns takes its place,
  /// unless undefined. The gradient that it is shown shares no memory, so that the hook may as well
  /// write into it and return nothing. In a recorded pass the tape tracks the gradient and refuses
  /// such a write.
  void on_gradient(const Tensor& x, std::function<Tensor(const Tensor&)> hook);

  /// One step of a backward pass, for a listener, which must not write into the gradients: they may
  /// be shared.
  struct Step {
    size_t node;
    const char* op;
    std::span<const Tensor> dy;  ///< gradients of the outputs
    /// Gradients of the inputs (of a region or rows of one, where only they have any), undefined
    /// where not wanted
    std::span<const Tensor> dx;
  };
  /// Calls `listener` after each node of a backward pass.
  void on_step(std::function<void(const Step&)> listener);

  /// Calls `filter` with what each backward returns, before it is added up; it may change it. For
  /// tests that plant mistakes.
  void filter_gradients(std::function<void(const char* op, Grads& grads)> filter);

  // -- To be seen ---------------------------------------------------------------------------------

  /// A recorded op.
  struct NodeInfo {
    const char* op;
    std::string module;  ///< where in the model, as "blocks.0.attention"; may be empty
    std::vector<Shape> inputs, outputs;
    std::vector<int32_t> input_slots, output_slots;
    DType dtype;  ///< of the first output
    size_t bytes_saved;
    double microseconds;  ///< from the record before to this one
    bool used;            ///< freed by a backward pass
  };
  /// Number of nodes, in the order in which they ran
  size_t size() const { return nodes_.size(); }
  NodeInfo info(size_t node) const;
  /// A table, one row a node: op, module, inputs, output, bytes saved, time.
  void print(std::ostream& out, size_t max_rows = 200) const;
  void print() const;  ///< to standard output
  /// A drawing for Graphviz, from top to bottom. Modules are frames; parameters, watched tensors
  /// and constants (inputs, targets, masks) are boxes; ops are ellipses with their results' shapes
  /// on the arrows. What no op reads, such as the loss, is an octagon.
  std::string to_dot() const;
  /// Why x has no gradient (or that it has one) with respect to `loss`: never used, cut by a detach
  /// or an integer op, recorded on a tape that has ended.
  std::string explain(const Tensor& x, const Tensor& loss) const;

  int order() const { return options_.order; }
  uint64_t serial() const { return serial_; }  ///< no two tapes of a process share one
  const TapeOptions& options() const { return options_; }

  // -- For ops (see core/record.h) ----------------------------------------------------------------

  /// Notes what an op returns that is not recorded: outputs that a paused tape of order 2 or more
  /// would track.
  static void note_unrecorded(std::span<const Tensor> inputs, std::span<Tensor> outputs);
  /// Appends a node and marks the outputs as its own. `op` is a string that lives on.
  void push(const char* op, std::span<const Tensor> inputs, std::span<Tensor> outputs,
            BackwardFunction backward);
  /// Notes that gradients end here: detach, or an op with integer outputs.
  void cut(const char* op, const Tensor& x);
  /// Runs the definition of the op that is recorded next, unrecorded, and keeps its kernels for
  /// that node. For a checkable tape.
  void keep_definition(std::span<const Tensor> inputs,
                       const std::function<std::vector<Tensor>()>& definition);

  // -- For check_tape (see core/gradcheck/check_tape.h) -------------------------------------------

  /// How the outputs of a node were computed; null where the tape is not checkable, and for a cut.
  const NodeForward* forward_of(size_t node) const;
  /// The vector-Jacobian product of one node: the gradients of its inputs for the gradients `dy` of
  /// its outputs. Each has the input's shape; that of a constant is undefined. Errors: dy does not
  /// fit the outputs, or the tape has been consumed.
  std::vector<Tensor> pull_back(size_t node, const std::vector<Tensor>& dy);
  /// From now on `change` is called with what the backward of `node` returns, and may change it.
  /// For tests that plant mistakes.
  void change_gradients(size_t node, std::function<void(Grads&)> change);

 private:
  friend class TapeDrawing;
  struct Slot {
    Shape shape;
    DType dtype;  ///< in which its gradient is kept
    Device device;
    int32_t producer;  ///< node; −1 for leaves and watched tensors
    std::shared_ptr<Leaf> leaf;
    std::vector<std::function<Tensor(const Tensor&)>> hooks;
  };
  struct Node {
    const char* op;
    const std::string* module;
    std::vector<int32_t> inputs;  ///< slots; −1 for constants
    std::vector<int32_t> outputs;
    std::vector<Shape> input_shapes;
    std::vector<detail::Constant>
        constants;  ///< inputs that are not tracked; indices and masks that were saved
    BackwardFunction backward;
    size_t bytes_saved;
    float microseconds;
    /// 1 + how often it has been differentiated: what a backward of depth n ran or led to has n + 1
    int8_t depth;
    bool cut;
    /// An input was recorded on a tape that has ended
    bool reads_dead_tape;
    std::shared_ptr<NodeForward> forward = nullptr;  ///< of a checkable tape
  };
  struct Pass;
  /// What a definition computed, for the op that is recorded next.
  struct Defined {
    std::vector<Tensor> inputs, outputs;
    std::string error;  ///< of a definition that failed
  };

  int32_t slot_of(const Tensor& x) const;
  int32_t find_or_add_slot(const Tensor& x);
  int32_t add_slot(const Tensor& x, int32_t producer);
  bool was_on_dead_tape(const Tensor& x) const;
  /// Whether x was computed under a pause of this tape from tensors that it tracks.
  bool is_paused_result(const Tensor& x) const;
  void check_not_paused(const Tensor& x) const;
  void check_usable(const char* what) const;

  // -- The backward pass (core/backward.cpp)
  void seed_pass(Pass& pass, const std::vector<Tensor>& ys, const std::vector<Tensor>& seeds);
  /// Finds the slots on whose gradients those that are needed depend.
  void mark_needed(Pass& pass) const;
  void run(Pass& pass);
  /// The loop from the last node to the first.
  void run_nodes(Pass& pass);
  /// The gradients of a node's outputs, complete by now, and which of its inputs need one.
  Backward take_output_gradients(Pass& pass) const;
  Grads call_backward(Pass& pass, Backward& call);
  /// Ends the tape for the exception that is being handled, and throws what names the op.
  [[noreturn]] void fail_pass(const Pass& pass);
  /// Records derivatives that were not recorded, so that a derivative of theirs is an error and not
  /// a silent zero.
  void forbid_derivatives(std::vector<Tensor> xs, const std::vector<Tensor>& ys,
                          std::vector<Tensor>& gradients, int depth);
  void consume();

  // -- Sums of gradients (core/accumulate.cpp)
  /// Where the gradient of a slot is added up: a leaf without hooks needs no second buffer.
  Tensor& sum_of(Pass& pass, int32_t slot);
  /// Adds the gradient of an input of the node that runs.
  void add_gradient(Pass& pass, size_t input, Grad grad);
  static void check_shape(const Node& node, const Slot& slot, const Grad& grad);
  void add_to(const Slot& slot, Tensor& sum, Grad& grad, bool recorded);
  /// Adds into the leaves that have hooks, and calls the hooks of leaves and watched tensors.
  void finish_sums(Pass& pass);
  void add_to_leaves(Pass& pass);
  std::vector<Tensor> take_results(Pass& pass, const std::vector<Tensor>& xs);

  // -- Observers (core/observers.cpp)
  /// Shows what a backward returned to the filter and the listener.
  void observe(const Pass& pass, const Backward& call, Grads& grads);
  void show_step(size_t index, const Backward& call, Grads& grads);
  void check_finite(const Tensor& x, const char* what, const Node& node, size_t index) const;
  Tensor apply_hooks(const Pass& pass, int32_t slot, Tensor gradient) const;

  /// How a node's outputs were computed, and by its definition.
  std::shared_ptr<NodeForward> keep_forward(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  void resume_recording();
  void stop_recording();

  TapeOptions options_;
  uint64_t serial_;
  std::shared_ptr<Thread> thread_;  ///< on which it began
  std::vector<Node> nodes_;
  std::vector<Slot> slots_;
  /// Slots of leaves (by Leaf) and of watched tensors (by identity): they may belong to several
  /// tapes at a time, so they carry no mark of this one.
  std::unordered_map<const void*, int32_t> shared_slots_;
  std::vector<Tensor> watched_;  ///< kept alive, so that identities stay unique
  /// The memory of leaves and watched tensors
  std::set<std::weak_ptr<Storage>, std::owner_less<>> shared_memory_;
  std::function<void(const Step&)> listener_;
  std::function<void(const char*, Grads&)> filter_;
  std::unique_ptr<KernelTrace> kernels_;  ///< of a checkable tape
  Defined defined_;                       ///< of a checkable tape
  int64_t last_record_ = 0;
  int8_t depth_ = 1;
  bool consumed_ = false;
  bool dead_ = false;  ///< a backward failed
  std::string death_;  ///< why
};

}  // namespace vitrine
