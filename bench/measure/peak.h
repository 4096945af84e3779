// What this CPU can do at most.
#pragma once

namespace vitrine::bench {

/// Float32 operations per second of one thread whose operands stay in registers: a fused
/// multiply-add is two.
double multiply_add_peak();

}  // namespace vitrine::bench
