// Per-thread state that the tape, saved tensors and kernels share. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vitrine::detail {

struct Constant;

/// Returns what Saved objects have captured on this thread since the last call: the number of
/// bytes, and the indices and masks.
size_t take_saved_bytes();
std::vector<Constant> take_saved_constants();
void discard_saved();

/// The op whose backward runs on this thread, or "".
const char* backward_op();
void set_backward_op(const char* op);

/// While on, ops on this thread run their definitions, even if nothing is recorded.
void run_definitions(bool on);

int64_t now_nanoseconds();

/// Releases a shared object. If its destructor calls this function, those objects are destroyed
/// after it, not inside it. A chain of any length is thus freed without recursion.
void release_in_turn(std::shared_ptr<void> object);

}  // namespace vitrine::detail
