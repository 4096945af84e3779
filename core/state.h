// What the tape, saved tensors and kernels share per thread. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vitrine::detail {

struct Constant;

/// What Saved objects have captured on this thread since the last call: bytes, and indices and
/// masks.
size_t take_saved_bytes();
std::vector<Constant> take_saved_constants();
void discard_saved();

/// The op whose backward runs on this thread, or "".
const char* backward_op();
void set_backward_op(const char* op);

/// While on, ops on this thread go through their definitions, recorded or not.
void run_definitions(bool on);

int64_t now_nanoseconds();

/// Releases a shared object. What its destructor releases by this function is destroyed after it,
/// not within it: a chain of any length is freed without recursion.
void release_in_turn(std::shared_ptr<void> object);

}  // namespace vitrine::detail
