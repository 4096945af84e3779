// The peak speed of this CPU.
#pragma once

namespace vitrine::bench {

/// Float32 operations per second of one thread, with operands in registers. A fused multiply-add
/// counts as two operations.
double multiply_add_peak();

}  // namespace vitrine::bench
