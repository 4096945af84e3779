// Recording, and bookkeeping of slots. The backward pass is in core/backward.cpp, printing in
// core/tape_display.cpp.
#include "core/tape.h"

#include <algorithm>
#include <atomic>

#include "core/creation.h"
#include "core/kernels.h"
#include "core/record.h"
#include "core/state.h"

namespace vitrine {
namespace {

thread_local Tape* active = nullptr;
thread_local Tape::Pause* innermost = nullptr;  // each knows the one outside it
std::atomic<uint64_t> next_serial{1};

/// Memory of this thread's last tape for the next, so that steps of a training do not grow it anew.
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

Tape::Tape(TapeOptions options) : options_(options), serial_(next_serial++) {
  check(options.order >= 1 && options.order <= 100, "Tape: the order is {}, wanted 1 to 100", options.order);
  check(active == nullptr,
        "Tape: another tape is recording on this thread; pause it (Tape::Pause) or let it end first");
  active = this;
  nodes_.swap(spare<decltype(nodes_)>());
  slots_.swap(spare<decltype(slots_)>());
  last_record_ = detail::now_nanoseconds();
}

Tape::~Tape() {
  if (active == this) active = nullptr;
  for (Pause* p = innermost; p != nullptr; p = p->outer_)
    if (p->paused_ == this) p->paused_ = nullptr;
  keep_spare(nodes_);
  keep_spare(slots_);
}

Tape::Pause::Pause() : paused_(active), outer_(innermost) {
  active = nullptr;
  innermost = this;
}

Tape::Pause::~Pause() {
  active = paused_ && !paused_->consumed_ ? paused_ : nullptr;
  innermost = outer_;
}

Tape* Tape::recording() { return active; }
void Tape::resume_recording() { active = this; }
void Tape::stop_recording() { active = nullptr; }

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
  if (mark.tape == serial_) return mark.slot;
  if (shared_slots_.empty()) return -1;
  auto found = shared_slots_.find(x.identity());
  if (found == shared_slots_.end() && x.requires_grad()) found = shared_slots_.find(x.leaf().get());
  return found == shared_slots_.end() ? -1 : found->second;
}

bool Tape::tracks(const Tensor& x) const { return x.defined() && (x.requires_grad() || slot_of(x) >= 0); }

int32_t Tape::add_slot(const Tensor& x, int32_t producer) {
  const auto& leaf = producer < 0 ? x.leaf() : nullptr;
  slots_.push_back({x.shape(), leaf ? leaf->grad_dtype : x.dtype(), x.device(), producer, leaf, {}});
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
  return x.defined() && x.tape_mark().tape != 0 && x.tape_mark().tape != serial_ && slot_of(x) < 0;
}

void Tape::push(const char* op, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                BackwardFunction backward) {
  check_usable(op);
  Node node{op,
            &ModuleScope::current(),
            {},
            {},
            {},
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
    const int32_t producer =
        node.inputs.back() < 0 ? -1 : slots_[static_cast<size_t>(node.inputs.back())].producer;
    if (producer >= 0) node.depth = std::max(node.depth, nodes_[static_cast<size_t>(producer)].depth);
  }
  const auto index = static_cast<int32_t>(nodes_.size());
  if (options_.anomaly)
    for (const Tensor& y : outputs) check_finite(y, "output", node, nodes_.size());
  for (Tensor& y : outputs) {
    // An op may hand an input through; the output needs an identity of its own.
    if (tracks(y) || y.tape_mark().tape != 0) y = y.alias(y.shape(), y.strides());
    const int32_t slot = add_slot(y, index);
    y.tape_mark() = {serial_, slot};
    node.outputs.push_back(slot);
  }
  const int64_t now = detail::now_nanoseconds();
  node.microseconds = 1e-3f * static_cast<float>(now - last_record_);
  last_record_ = now;
  nodes_.push_back(std::move(node));
}

void Tape::cut(const char* op, const Tensor& x) {
  check_usable(op);
  nodes_.push_back({op,
                    &ModuleScope::current(),
                    {find_or_add_slot(x)},
                    {},
                    {x.shape()},
                    nullptr,
                    0,
                    0,
                    depth_,
                    true,
                    false});
}

void Tape::check_finite(const Tensor& x, const char* what, const Node& node, size_t index) const {
  if (!x.defined() || !is_floating(x.dtype())) return;
  const Pause pause;
  Tensor finite = empty({}, DType::boolean, x.device());
  VITRINE_RUN(all_finite, finite, x);
  check(finite.item() != 0,
        "anomaly: the {} of {} (op {}{}{}) is the first with an element that is not finite", what, node.op,
        index, node.module->empty() ? "" : ", in ", *node.module);
}

void Tape::on_gradient(const Tensor& x, std::function<Tensor(const Tensor&)> hook) {
  check_usable("on_gradient");
  const int32_t slot = find_or_add_slot(x);
  check(slot >= 0, "on_gradient: {} is not tracked by this tape", describe(x));
  slots_[static_cast<size_t>(slot)].hooks.push_back(std::move(hook));
}

void Tape::filter_gradients(std::function<void(const char*, Grads&)> filter) { filter_ = std::move(filter); }

void Tape::on_step(std::function<void(const Step&)> listener) { listener_ = std::move(listener); }

Tensor Tape::apply_hooks(int32_t slot, Tensor gradient) const {
  for (const auto& hook : slots_[static_cast<size_t>(slot)].hooks) {
    Tensor changed = hook(gradient);
    if (!changed.defined()) continue;
    check(changed.shape() == gradient.shape() && changed.dtype() == gradient.dtype() &&
              changed.device() == gradient.device(),
          "on_gradient: the hook returned {} for a gradient of {}", describe(changed), describe(gradient));
    gradient = std::move(changed);
  }
  return gradient;
}

}  // namespace vitrine
