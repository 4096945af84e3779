// The tape records ops in the order in which they run. The backward pass is one loop over the
// record, from its end.
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
#include "core/pauses.h"
#include "core/tensor.h"

namespace vitrine {

/// Whether a backward pass keeps the nodes for another pass, or frees each node as soon as it has
/// been used.
enum class Keep : bool { no, yes };

/// Options of a tape.
struct TapeOptions {
  /// The highest derivative that is needed, 1 to 100. From 2 on, ops are recorded through their
  /// definitions, so that every backward can itself be recorded, and nodes live as long as the
  /// tape.
  int order = 1;
  /// Checks every output and every gradient. The first one that is not finite is an error that
  /// names the op and its position.
  bool anomaly = false;
  /// Keeps the kernels that computed each node's outputs, for check_tape
  /// (core/gradcheck/check_tape.h). All tensors that these kernels read and wrote live as long as
  /// the tape. The definitions of ops run as well.
  bool checkable = false;
};

/// A record of the ops of one forward pass, and their backward pass. One tape records per thread;
/// it cannot be moved, and ends with its scope. An op is recorded if an input is tracked: a leaf
/// that requires a gradient, a watched tensor, or an output of this tape. The outputs of a tape
/// that has ended are constants. A tape ends on the thread on which it began: if another thread
/// destroys it while it records or is paused, the next use of a tape on its own thread is an error.
///
/// Ownership of gradients: no two gradients that a user can write share memory. A gradient that
/// gradient() returns, that a hook receives or that a leaf holds is the only handle on its memory
/// at that moment. The tape copies gradients that would share memory; ordinary training needs no
/// such copy.
class Tape {
 private:
  struct Thread;

 public:
  using BackwardFunction = std::function<Grads(const Backward&)>;

  /// Starts recording on this thread. It is an error if a tape already records here and is not
  /// paused.
  explicit Tape(TapeOptions options = {});
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// While a pause lives, nothing is recorded on this thread, and tracked tensors may be written.
  /// Pauses end in the reverse of the order in which they began, on their own thread; otherwise the
  /// next use of a tape on that thread is an error.
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
    bool counted_;  // in detail::pauses_of_higher_orders

    friend void detail::note_paused(std::span<const Tensor>, std::span<Tensor>);
  };

  /// The tape that records on this thread, or null.
  static Tape* recording();

  /// Tracks x, so that gradient() can return its gradient although x is not a leaf. Returns x.
  Tensor watch(const Tensor& x);
  bool tracks(const Tensor& x) const;
  /// Whether x shares memory with a tensor that this tape tracks. That memory may be written only
  /// during a pause.
  bool tracks_memory_of(const Tensor& x) const;

  /// Adds ∂loss/∂leaf to the grad of every leaf. `loss` has one element; otherwise `seed`, of the
  /// same shape, gives the gradient of the loss. Recording stops and the tape is consumed, unless
  /// Keep::yes is given.
  void backward(const Tensor& loss, Keep keep = Keep::no);
  void backward(const Tensor& loss, const Tensor& seed, Keep keep = Keep::no);

  /// Returns ∂y/∂x for each x, zeros if y does not depend on x. The gradients of leaves do not
  /// change. The caller is the only owner of each result: it shares no memory with another result,
  /// a seed or a gradient inside the tape. On a tape of order n the result can be differentiated n
  /// − 1 times; once more is an error. A backward that uses floating values computed under
  /// Tape::Pause from tracked tensors is also an error on such a tape, as the derivatives would
  /// miss a dependency.
  std::vector<Tensor> gradient(const Tensor& y, const std::vector<Tensor>& xs, Keep keep = Keep::no);
  std::vector<Tensor> gradient(const std::vector<Tensor>& ys, const std::vector<Tensor>& xs,
                               const std::vector<Tensor>& seeds, Keep keep = Keep::no);
  /// The same, added to `sums` one gradient at a time. There is one sum for each x; an undefined
  /// sum counts as zero.
  std::vector<Tensor> gradient(const std::vector<Tensor>& ys, const std::vector<Tensor>& xs,
                               const std::vector<Tensor>& seeds, std::vector<Tensor> sums,
                               Keep keep = Keep::no);

  /// Calls `hook` with the gradient of x once the gradient is complete. The tensor that the hook
  /// returns replaces the gradient, unless it is undefined. The gradient shares no memory, so the
  /// hook may also write into it and return nothing. In a recorded pass the tape tracks the
  /// gradient and refuses such a write.
  void on_gradient(const Tensor& x, std::function<Tensor(const Tensor&)> hook);

  /// One step of a backward pass, for a listener. The listener must not write into the gradients:
  /// they may share memory.
  struct Step {
    size_t node;
    const char* op;
    std::span<const Tensor> dy;  ///< gradients of the outputs
    /// Gradients of the inputs, or only of a region or of rows where the rest is 0; undefined if
    /// not needed.
    std::span<const Tensor> dx;
  };
  /// Calls `listener` after each node of a backward pass.
  void on_step(std::function<void(const Step&)> listener);

  /// Calls `filter` with the gradients that each backward returns, before they are added up. The
  /// filter may change them. For tests that plant mistakes.
  void filter_gradients(std::function<void(const char* op, Grads& grads)> filter);

  // -- Inspection ---------------------------------------------------------------------------------

  /// A recorded op.
  struct NodeInfo {
    const char* op;
    std::string module;  ///< its path, "blocks.0.attention"; may be empty
    std::vector<Shape> inputs, outputs;
    std::vector<int32_t> input_slots, output_slots;
    DType dtype;  ///< of the first output
    size_t bytes_saved;
    double microseconds;  ///< from the previous record to this one
    bool used;            ///< freed by a backward pass
  };
  /// The number of nodes.
  size_t size() const { return nodes_.size(); }
  NodeInfo info(size_t node) const;
  /// Prints a table with one row per node: op, module, inputs, output, bytes saved, time.
  void print(std::ostream& out, size_t max_rows = 200) const;
  void print() const;  ///< to standard output
  /// A Graphviz drawing, from top to bottom. Modules are frames; parameters, watched tensors and
  /// constants (inputs, targets, masks) are boxes; ops are ellipses, with the shapes of their
  /// results on the arrows. A result that no op reads, such as the loss, is an octagon.
  std::string to_dot() const;
  /// Explains why x has no gradient with respect to `loss`, or says that it has one. Reasons: x was
  /// never used, was cut by a detach or an integer op, or was recorded on a tape that has ended.
  std::string explain(const Tensor& x, const Tensor& loss) const;

  int order() const { return options_.order; }
  uint64_t serial() const { return serial_; }  ///< no two tapes of a process share one
  const TapeOptions& options() const { return options_; }

  // -- For ops (see core/record.h) ----------------------------------------------------------------

  /// Marks outputs of an op that is not recorded and uses what a pause of this thread's tape has
  /// computed.
  static void note_unrecorded(std::span<const Tensor> inputs, std::span<Tensor> outputs);
  /// Appends a node and marks the outputs as outputs of this tape. `op` is a string with static
  /// lifetime.
  void push(const char* op, std::span<const Tensor> inputs, std::span<Tensor> outputs,
            BackwardFunction backward);
  /// Notes that gradients end at this op: detach, or an op with integer outputs.
  void cut(const char* op, const Tensor& x);
  /// For a checkable tape: runs, unrecorded, the definition of the op that is recorded next, and
  /// keeps the kernels for that node.
  void keep_definition(std::span<const Tensor> inputs,
                       const std::function<std::vector<Tensor>()>& definition);

  // -- For check_tape (see core/gradcheck/check_tape.h) -------------------------------------------

  /// How the outputs of a node were computed; null if the tape is not checkable, and for a cut.
  const NodeForward* forward_of(size_t node) const;
  /// The vector-Jacobian product of one node: the gradients of its inputs, given the gradients `dy`
  /// of its outputs. Each has the input's shape; the gradient of a constant is undefined. Errors:
  /// dy does not match the outputs, or the tape has been consumed.
  std::vector<Tensor> pull_back(size_t node, const std::vector<Tensor>& dy);
  /// From now on calls `change` with the gradients that the backward of `node` returns; `change`
  /// may modify them. For tests that plant mistakes.
  void change_gradients(size_t node, std::function<void(Grads&)> change);

 private:
  friend class TapeDrawing;
  struct Slot {
    Shape shape;
    DType dtype;  ///< of its gradient
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
    /// 1 + how often it has been differentiated. Nodes that a backward of depth n runs or records
    /// have depth n + 1.
    int8_t depth;
    bool cut;
    /// An input was recorded on a tape that has ended
    bool reads_dead_tape;
    std::shared_ptr<NodeForward> forward = nullptr;  ///< of a checkable tape
  };
  struct Pass;
  /// The outputs of a definition, for the op that is recorded next.
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
  /// Marks the outputs if an input is a result of a pause or, if `paused`, is tracked.
  void mark_paused(std::span<const Tensor> inputs, std::span<Tensor> outputs, bool paused) const;
  friend void detail::note_paused(std::span<const Tensor>, std::span<Tensor>);
  void check_usable(const char* what) const;
  void check_not_running(const char* what, bool keep) const;

  // -- The backward pass (core/backward.cpp)
  void seed_pass(Pass& pass, const std::vector<Tensor>& ys, const std::vector<Tensor>& seeds);
  /// Marks the slots whose gradients are needed to compute the requested ones.
  void mark_needed(Pass& pass) const;
  void run(Pass& pass);
  /// The loop from the last node to the first.
  void run_nodes(Pass& pass);
  /// The gradients of a node's outputs, which are complete by now, and which inputs need a
  /// gradient.
  Backward take_output_gradients(Pass& pass) const;
  Grads call_backward(Pass& pass, Backward& call);
  /// Ends the tape because of the exception that is being handled, and throws an error that names
  /// the op.
  [[noreturn]] void fail_pass(const Pass& pass);
  /// Records derivatives that were not recorded, so that differentiating them again is an error
  /// instead of silently zero.
  void forbid_derivatives(std::vector<Tensor> xs, const std::vector<Tensor>& ys,
                          std::vector<Tensor>& gradients, int depth);
  void consume();

  // -- Sums of gradients (core/accumulate.cpp)
  /// The tensor in which the gradient of a slot is added up. A leaf without hooks needs no second
  /// buffer.
  Tensor& sum_of(Pass& pass, int32_t slot);
  /// Adds the gradient of an input of the node whose backward runs.
  void add_gradient(Pass& pass, size_t input, Grad grad);
  static void check_shape(const Node& node, const Slot& slot, const Grad& grad);
  void add_to(const Slot& slot, Tensor& sum, Grad& grad, bool recorded);
  /// The bookkeeping of rows for a contribution of rows to the sum of a leaf; null for others.
  static WrittenRows* written_rows(const Slot& slot, const Tensor& sum, bool rows);
  /// Adds into the leaves that have hooks, and calls the hooks of leaves and watched tensors.
  void finish_sums(Pass& pass);
  void add_to_leaves(Pass& pass);
  std::vector<Tensor> take_results(Pass& pass, const std::vector<Tensor>& xs);

  // -- Observers (core/observers.cpp)
  /// Shows the gradients that a backward returned to the filter and the listener.
  void observe(const Pass& pass, const Backward& call, Grads& grads);
  void show_step(size_t index, const Backward& call, Grads& grads);
  void check_finite(const Tensor& x, const char* what, const Node& node, size_t index) const;
  Tensor apply_hooks(const Pass& pass, int32_t slot, Tensor gradient) const;

  /// Returns the programs that computed a node's outputs: the op's own and its definition's.
  std::shared_ptr<NodeForward> keep_forward(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  void resume_recording();
  void stop_recording();

  TapeOptions options_;
  uint64_t serial_;
  std::shared_ptr<Thread> thread_;  ///< on which the tape began
  std::vector<Node> nodes_;
  std::vector<Slot> slots_;
  /// Slots of leaves (by Leaf) and of watched tensors (by identity). Both may belong to several
  /// tapes at a time, so they carry no mark of this tape.
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
  const Pass* running_ = nullptr;  ///< the innermost pass that runs
  bool dead_ = false;              ///< a backward failed
  std::string death_;              ///< the reason
};

}  // namespace vitrine
