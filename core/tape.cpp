// Recording, and the bookkeeping of slots. The backward pass is in core/backward.cpp, hooks and
// listeners are in core/observers.cpp, and printing is in core/tape_display.cpp.
#include "core/tape.h"

#include <algorithm>
#include <atomic>

#include "core/creation.h"
#include "core/record.h"
#include "core/state.h"
#include "core/tensor_kernels.h"

namespace vitrine {
namespace {

std::atomic<uint64_t> next_serial{1};

/// Keeps the memory of this thread's last tape for the next one, so that training steps do not
/// allocate it again.
template <class Vector>
Vector& spare() {
  thread_local Vector memory;
  return memory;
}
template <class Vector>
void keep_spare(Vector& ended) {
  constexpr size_t kMostBytes = 4 << 20;
  ended.clear();
  if (ended.capacity() * sizeof(ended[0]) <= kMostBytes && ended.capacity() > spare<Vector>().capacity())
    ended.swap(spare<Vector>());
}

}  // namespace

/// The tapes of a thread. The thread, its tapes and its pauses share this object, so that one that
/// ends on another thread finds it.
struct Tape::Thread {
  Tape* active = nullptr;      ///< the tape that records
  Pause* innermost = nullptr;  ///< each pause has a pointer to the one outside it
  const char* fault = nullptr;

  static Thread* here() { return here_; }  ///< null if the thread has had no tape
  static const std::shared_ptr<Thread>& shared() {
    struct Owner {
      std::shared_ptr<Thread> thread = std::make_shared<Thread>();
      Owner() { here_ = thread.get(); }
      ~Owner() { here_ = nullptr; }
    };
    thread_local Owner owner;
    return owner.thread;
  }
  /// Destructors cannot throw, so an error that one of them finds is thrown by the next use of the
  /// thread's tapes.
  void report_fault() {
    if (fault != nullptr) [[unlikely]]
      fail("{}", std::exchange(fault, nullptr));
  }

 private:
  static thread_local Thread* here_;
};
thread_local Tape::Thread* Tape::Thread::here_ = nullptr;

Tape::Tape(TapeOptions options) : options_(options), serial_(next_serial++), thread_(Thread::shared()) {
  thread_->report_fault();
  check(options.order >= 1 && options.order <= 100, "Tape: the order is {}, wanted 1 to 100", options.order);
  check(thread_->active == nullptr,
        "Tape: another tape is recording on this thread; pause it (Tape::Pause) or let it end first");
  thread_->active = this;
  nodes_.swap(spare<decltype(nodes_)>());
  slots_.swap(spare<decltype(slots_)>());
  if (options.checkable) kernels_ = std::make_unique<KernelTrace>();
  last_record_ = detail::now_nanoseconds();
}

Tape::~Tape() {
  bool in_use = std::exchange(thread_->active, thread_->active == this ? nullptr : thread_->active) == this;
  for (Pause* p = thread_->innermost; p != nullptr; p = p->outer_)
    if (p->paused_ == this) {
      p->paused_ = nullptr;
      in_use = true;
    }
  if (in_use && thread_.get() != Thread::here())
    thread_->fault =
        "Tape: a tape that recorded on this thread was destroyed by another thread; let a tape end on the "
        "thread on which it began";
  // The other thread still uses its trace, so the trace must stay alive.
  if (thread_.get() != Thread::here()) static_cast<void>(kernels_.release());
  keep_spare(nodes_);
  keep_spare(slots_);
}

constinit thread_local int detail::pauses_of_higher_orders = 0;

Tape::Pause::Pause()
    : thread_(Thread::shared()),
      paused_(thread_->active),
      outer_(thread_->innermost),
      counted_(paused_ != nullptr && paused_->options_.order > 1) {
  detail::pauses_of_higher_orders += counted_;
  thread_->active = nullptr;
  thread_->innermost = this;
}

Tape::Pause::~Pause() {
  Thread& thread = *thread_;
  detail::pauses_of_higher_orders -= counted_;
  if (&thread != Thread::here() || thread.innermost != this)
    thread.fault =
        "Tape::Pause: a pause ended before one that began inside it, or on another thread; pauses end in the "
        "reverse of the order in which they began";
  if (thread.innermost == this) {
    thread.active = paused_ && !paused_->consumed_ ? paused_ : nullptr;
    thread.innermost = outer_;
    return;
  }
  // The pause inside this one takes its place: recording resumes when both have ended.
  for (Pause* p = thread.innermost; p != nullptr; p = p->outer_)
    if (p->outer_ == this) {
      p->outer_ = outer_;
      if (p->paused_ == nullptr) p->paused_ = paused_;
    }
}

Tape* Tape::recording() {
  Thread* const thread = Thread::here();
  if (thread == nullptr) return nullptr;
  thread->report_fault();
  return thread->active;
}
void Tape::resume_recording() { Thread::shared()->active = this; }
void Tape::stop_recording() {
  if (Thread::here() != nullptr && Thread::here()->active == this) Thread::here()->active = nullptr;
}

void Tensor::backward() const {
  Tape* tape = Tape::recording();
  check(tape != nullptr,
        "backward: no tape is recording on this thread; create a Tape before the forward pass");
  tape->backward(*this);
}

void Tape::check_usable(const char* what) const {
  check(!dead_, "{}: this tape is dead, an earlier backward failed: {}", what, death_);
  check(!consumed_,
        "{}: this tape has been consumed by a backward pass; record again, or pass Keep::yes to the earlier "
        "pass",
        what);
}

int32_t Tape::slot_of(const Tensor& x) const {
  if (!x.defined()) return -1;
  const Tensor::TapeMark& mark = x.tape_mark();
  if (mark.tape == serial_ && mark.slot >= 0) return mark.slot;
  if (shared_slots_.empty()) return -1;
  auto found = shared_slots_.find(x.identity());
  if (found == shared_slots_.end() && x.requires_grad()) found = shared_slots_.find(x.leaf().get());
  return found == shared_slots_.end() ? -1 : found->second;
}

bool Tape::tracks(const Tensor& x) const { return x.defined() && (x.requires_grad() || slot_of(x) >= 0); }

bool Tape::tracks_memory_of(const Tensor& x) const {
  const uint64_t tape = x.storage().tracked_by();
  return tape == serial_ || (!shared_memory_.empty() && shared_memory_.contains(x.shared_storage()));
}

int32_t Tape::add_slot(const Tensor& x, int32_t producer) {
  const auto& leaf = producer < 0 ? x.leaf() : nullptr;
  slots_.push_back({x.shape(), leaf ? leaf->grad_dtype : x.dtype(), x.device(), producer, leaf, {}});
  // Leaves and watched tensors, and views of them, may belong to several tapes at a time.
  if (producer < 0)
    shared_memory_.insert(x.shared_storage());
  else if (x.storage().tracked_by() == 0 || !tracks_memory_of(x))
    x.storage().set_tracked_by(serial_);
  return static_cast<int32_t>(slots_.size()) - 1;
}

int32_t Tape::find_or_add_slot(const Tensor& x) {
  const int32_t known = slot_of(x);
  if (known >= 0 || !x.defined() || !x.requires_grad()) return known;
  return shared_slots_[x.leaf().get()] = add_slot(x, -1);
}

Tensor Tape::watch(const Tensor& x) {
  check_usable("watch");
  check(is_floating(x.dtype()), "watch: a gradient needs a floating dtype, got {}", describe(x));
  if (slot_of(x) < 0) {
    shared_slots_[x.identity()] = add_slot(x, -1);
    watched_.push_back(x);
  }
  return x;
}

bool Tape::was_on_dead_tape(const Tensor& x) const {
  if (!x.defined()) return false;
  const Tensor::TapeMark& mark = x.tape_mark();
  return mark.tape != 0 && mark.tape != serial_ && mark.slot >= 0 && slot_of(x) < 0;
}

bool Tape::is_paused_result(const Tensor& x) const {
  return x.defined() && x.tape_mark().paused == serial_ && slot_of(x) < 0;
}

void Tape::check_not_paused(const Tensor& x) const {
  check(
      !is_paused_result(x),
      "it uses {}, computed by {} from values that a Tape::Pause kept off the tape though they depend on "
      "tracked tensors: a higher derivative would lack that. Compute them in the backward, from the op's "
      "inputs and outputs; or give the op a definition (through_definition); or detach() what is meant as a constant",
      describe(x), x.storage().last_writer());
}

void Tape::mark_paused(std::span<const Tensor> inputs, std::span<Tensor> outputs, bool paused) const {
  const auto depends = [&](const Tensor& x) { return is_paused_result(x) || (paused && tracks(x)); };
  if (std::none_of(inputs.begin(), inputs.end(), depends)) return;
  for (Tensor& y : outputs) {
    const bool handed_through =
        std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& x) { return x.is_same(y); });
    if (y.defined() && is_floating(y.dtype()) && !handed_through) y.tape_mark().paused = serial_;
  }
}

void detail::note_paused(std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  const Tape::Thread& thread = *Tape::Thread::here();
  // A tape that records its own backward pass is active inside a pause.
  for (const Tape::Pause* p = thread.innermost; p != nullptr; p = p->outer_)
    if (p->paused_ != nullptr && p->paused_ != thread.active && p->paused_->options_.order > 1)
      p->paused_->mark_paused(inputs, outputs, true);
}

void Tape::note_unrecorded(std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  const Thread* const thread = Thread::here();
  if (thread != nullptr && thread->active != nullptr && thread->active->options_.order > 1)
    thread->active->mark_paused(inputs, outputs, false);
}

void Tape::push(const char* op, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                BackwardFunction backward) {
  check_usable(op);
  Node node{op,
            &ModuleScope::current(),
            {},
            {},
            {},
            detail::take_saved_constants(),
            std::move(backward),
            detail::take_saved_bytes(),
            0,
            depth_,
            false,
            false};
  for (const Tensor& x : inputs) {
    node.inputs.push_back(find_or_add_slot(x));
    node.input_shapes.push_back(x.defined() ? x.shape() : Shape());
    node.reads_dead_tape |= was_on_dead_tape(x);
    if (x.defined() && node.inputs.back() < 0) {
      node.constants.emplace_back(x);
      if (depth_ > 1) check_not_paused(x);
      // The value is an input of a recorded op, so the caller means it as a constant, including in
      // this op's backward.
      if (is_paused_result(x)) x.tape_mark().paused = 0;
    }
    const int32_t producer =
        node.inputs.back() < 0 ? -1 : slots_[static_cast<size_t>(node.inputs.back())].producer;
    if (producer >= 0) node.depth = std::max(node.depth, nodes_[static_cast<size_t>(producer)].depth);
  }
  const auto index = static_cast<int32_t>(nodes_.size());
  if (options_.anomaly)
    for (const Tensor& y : outputs) check_finite(y, "output", node, nodes_.size());
  for (Tensor& y : outputs) {
    // An op may return an input unchanged; the output must be a separate tensor.
    if (tracks(y) || (y.tape_mark().tape != 0 && y.tape_mark().slot >= 0))
      y = y.alias(y.shape(), y.strides());
    const int32_t slot = add_slot(y, index);
    auto& mark = y.tape_mark();
    mark.tape = serial_, mark.slot = slot;
    if (mark.paused == serial_) mark.paused = 0;  // an output of this op, and no longer a constant
    node.outputs.push_back(slot);
  }
  const int64_t now = detail::now_nanoseconds();
  node.microseconds = 1e-3f * static_cast<float>(now - last_record_);
  last_record_ = now;
  if (kernels_) node.forward = keep_forward(inputs, outputs);
  nodes_.push_back(std::move(node));
}

void Tape::cut(const char* op, const Tensor& x) {
  check_usable(op);
  nodes_.push_back({op,
                    &ModuleScope::current(),
                    {find_or_add_slot(x)},
                    {},
                    {x.shape()},
                    {},
                    nullptr,
                    0,
                    0,
                    depth_,
                    true,
                    false});
}

}  // namespace vitrine
