#include "core/flops.h"

#include <utility>

#include "core/profiler.h"

namespace vitrine {

namespace {
thread_local FlopCounter* innermost = nullptr;
}

FlopCounter::FlopCounter() : outer_(std::exchange(innermost, this)) {}

FlopCounter::~FlopCounter() {
  innermost = outer_;
  if (outer_) outer_->total_ += total_;
}

void count_flops(const char* op, double flops) {
  if (innermost) innermost->total_ += flops;
  Profiler::note_flops(op, flops);
}

}  // namespace vitrine
