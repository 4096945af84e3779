#include "core/record.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "core/state.h"

namespace vitrine {
namespace {

thread_local ReadRecorder* read_recorder = nullptr;
thread_local const std::string* module_path = nullptr;
thread_local bool definitions_run = false;

/// Keeps one copy of each path for the whole run of the program, so that a node can store a
/// pointer.
const std::string* intern(std::string path) {
  static std::mutex mutex;
  static auto* paths = new std::unordered_set<std::string>;
  const std::lock_guard lock(mutex);
  return &*paths->insert(std::move(path)).first;
}

}  // namespace

Tape* detail::find_tape(std::span<const Tensor> inputs) {
  if (read_recorder)
    for (const Tensor& x : inputs) read_recorder->note_input(x);
  Tape* const tape = Tape::recording();
  if (!tape) return nullptr;
  return std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& x) { return tape->tracks(x); })
             ? tape
             : nullptr;
}

bool detail::definition_runs(const Tape* tape, std::span<const Tensor> inputs) {
  const auto is_dual = [](const Tensor& x) { return x.defined() && x.dtype() == DType::dual64; };
  return definitions_run || (tape && tape->order() > 1) || std::any_of(inputs.begin(), inputs.end(), is_dual);
}

void detail::run_definitions(bool on) { definitions_run = on; }

Tensor record_cut(const char* op, const Tensor& x, Tensor y) {
  Tape* tape = Tape::recording();
  if (tape && tape->tracks(x)) tape->cut(op, x);
  return y;
}

bool has_gradient(const Tensor& x) {
  const Tape* const tape = Tape::recording();
  return x.defined() && ((tape && tape->tracks(x)) || (read_recorder && read_recorder->tracks(x)));
}

ReadRecorder::ReadRecorder(Tape* outer) : outer_(outer), previous_(read_recorder) { read_recorder = this; }
ReadRecorder::~ReadRecorder() { read_recorder = previous_; }

ReadRecorder* ReadRecorder::current() { return read_recorder; }

void ReadRecorder::note_input(const Tensor& x) {
  if (!x.defined() || !outer_->tracks(x)) return;
  const bool known =
      std::any_of(tracked_.begin(), tracked_.end(), [&](const Tensor& t) { return t.is_same(x); });
  if (!known) tracked_.push_back(x);
}

void ReadRecorder::note_memory(const Tensor& x) { memory_.push_back(x.shared_storage()); }

void ReadRecorder::note_draw(const std::shared_ptr<RandomState>& state) {
  const bool known =
      std::any_of(generators_.begin(), generators_.end(), [&](const Drawn& d) { return d.state == state; });
  if (!known) generators_.push_back({state, *state});
}

std::vector<ReadRecorder::Memory> ReadRecorder::memory() const {
  std::vector<Memory> result;
  for (const auto& storage : memory_)
    if (const auto alive = storage.lock()) result.push_back({storage, alive->version()});
  return result;
}

void detail::note_draw(const std::shared_ptr<RandomState>& state) {
  if (read_recorder) read_recorder->note_draw(state);
}

ModuleScope::ModuleScope(const std::string& name) : previous_(module_path) {
  module_path = intern(previous_ == nullptr || previous_->empty() ? name : *previous_ + "." + name);
}
ModuleScope::ModuleScope(const std::string* path) : previous_(std::exchange(module_path, path)) {}
ModuleScope::~ModuleScope() { module_path = previous_; }

const std::string& ModuleScope::current() {
  static const std::string none;
  return module_path ? *module_path : none;
}

}  // namespace vitrine
