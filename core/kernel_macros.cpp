#include "core/kernel_macros.h"

#include "core/gpu/capture.h"
#include "core/gpu/stream.h"
#include "core/memory/allocator.h"
#include "core/record.h"
#include "core/state.h"
#include "core/tape.h"

namespace vitrine::detail {

namespace {
thread_local const KernelScope* current_scope = nullptr;
}

KernelScope::KernelScope(const char* name)
    : name_(name),
      outer_(std::exchange(current_scope, this)),
      bytes_(memory::charge(name)),
      start_(Profiler::active() ? now_nanoseconds() : 0) {}

KernelScope::~KernelScope() {
  current_scope = outer_;
  if (start_ != 0) Profiler::note(name_, "kernel", start_, now_nanoseconds(), bytes_);
}

const char* KernelScope::innermost() { return current_scope ? current_scope->name_ : ""; }

void inspect(const char* kernel, Device& device, bool& found, const Tensor& x) {
  if (ReadRecorder* recorder = ReadRecorder::current()) recorder->note_memory(x);
  if (capturing()) {
    check(!x.device().is_cpu(),
          "{}: a graph is being captured, and a kernel on the CPU would run now and in no replay: do this "
          "before the capture, or with tensors of the GPU",
          kernel);
    note_use(x);
  }
  if (!found) {
    device = x.device();
    found = true;
  } else if (device != x.device()) {
    fail("{}: the tensors lie on different devices, {} and {}", kernel, to_string(device),
         to_string(x.device()));
  }
}

void check_writable(const char* kernel, const Tensor& y) {
  const Tape* tape = Tape::recording();
  check(!tape || !tape->tracks_memory_of(y),
        "{}: writing into {}, which the running tape tracks, would change what its backward computes; do it "
        "inside a Tape::Pause",
        kernel, describe(y));
  if (capturing()) note_write(y);
}

void wait_for_kernel(Device device) {
  if (!capturing()) Stream::current(device).synchronize();
}

void no_kernel_for(const char* kernel, Device device) {
  fail("{}: there is no kernel for {} yet; move the tensors to the CPU for this operation", kernel,
       to_string(device));
}

}  // namespace vitrine::detail
