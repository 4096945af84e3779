// What is computed from tracked tensors while their tape is paused (Tape::Pause). At order 2 and
// above, a backward that uses such a value would lack a part of the higher derivative, so the tape
// refuses it.
#pragma once

#include <span>

#include "core/tensor.h"

namespace vitrine::detail {

/// The number of pauses on this thread of tapes of order 2 or more.
extern constinit thread_local int pauses_of_higher_orders;

/// Marks the outputs that depend on tensors that a paused tape of order 2 or more tracks.
void note_paused(std::span<const Tensor> inputs, std::span<Tensor> outputs);

}  // namespace vitrine::detail
