#include "core/kernel_trace.h"

#include <algorithm>
#include <span>
#include <unordered_set>

namespace vitrine {

KernelTrace::KernelTrace() : outer_(std::exchange(current_, this)) {}

KernelTrace::~KernelTrace() {
  if (current_ == this) current_ = outer_;
  for (KernelTrace* trace = current_; trace != nullptr; trace = trace->outer_)
    if (trace->outer_ == this) trace->outer_ = outer_;
}

namespace {

using Calls = std::span<const std::shared_ptr<const KernelCall>>;
using Memory = std::unordered_set<const Storage*>;

/// Adds to `program` the calls on which its outputs depend. Returns the memory that these calls
/// write.
Memory select(KernelProgram& program, const Memory& given, Calls calls) {
  Memory needed, written;
  for (const Tensor& y : program.outputs) needed.insert(&y.storage());
  const auto wanted = [&](const Tensor& y) {
    return needed.contains(&y.storage()) && !given.contains(&y.storage());
  };
  program.calls.clear();
  for (size_t i = calls.size(); i-- > 0;) {
    const KernelCall& call = *calls[i];
    if (std::none_of(call.writes.begin(), call.writes.end(), wanted)) continue;
    for (const Tensor& x : call.reads) needed.insert(&x.storage());
    for (const Tensor& y : call.writes) {
      needed.insert(&y.storage());
      written.insert(&y.storage());
    }
    program.calls.push_back(calls[i]);
  }
  std::reverse(program.calls.begin(), program.calls.end());
  return written;
}

}  // namespace

KernelProgram KernelTrace::program(std::span<const Tensor> inputs, std::vector<Tensor> outputs) const {
  KernelProgram program{{inputs.begin(), inputs.end()}, std::move(outputs), {}, {}};
  Memory given;
  for (const Tensor& x : program.inputs)
    if (x.defined()) given.insert(&x.storage());
  const Calls all = calls_;
  Memory written = select(program, given, all.subspan(begin_));
  const bool complete = std::all_of(program.outputs.begin(), program.outputs.end(), [&](const Tensor& y) {
    return written.contains(&y.storage()) || given.contains(&y.storage());
  });
  if (!complete) written = select(program, given, all);
  const auto note = [&](const Tensor& x) {
    if (x.defined()) program.memory.push_back({x, x.storage().version()});
  };
  for (const Tensor& x : program.inputs) note(x);
  for (const Tensor& y : program.outputs) note(y);
  for (const auto& call : program.calls)
    for (const Tensor& x : call->reads)
      if (!written.contains(&x.storage())) note(x);
  return program;
}

}  // namespace vitrine
