// What the tape, saved tensors and kernels share per thread. Internal.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vitrine::detail {

/// Bytes that Saved objects have captured on this thread since the last call.
size_t take_saved_bytes();
void discard_saved_bytes();

/// The op whose backward runs on this thread, or "".
const char* backward_op();
void set_backward_op(const char* op);

int64_t now_nanoseconds();

}  // namespace vitrine::detail
