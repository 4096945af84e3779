// The limits of this machine, measured in the process that prints them. A figure says little
// without the limit next to it.
#pragma once

namespace vitrine::bench {

/// Operations per second of one thread, with operands in registers. A fused multiply-add counts as
/// two operations.
double multiply_add_peak();
/// The same of the instruction that multiplies pairs of bfloat16 and adds them in float32, four
/// operations for each of its sums; 0 if isa() has none. Tiles (AMX) are not measured.
double bfloat16_peak();

/// Bytes per second of all threads together, in arrays that fit no cache.
struct Bandwidth {
  double read;    ///< two streams, such as the weights of a product
  double update;  ///< read and written in place, such as the moments of Adam
  double copy;    ///< read and written to another place
};
/// A store to memory that is not in the cache first reads the cache line. So a copy moves three
/// bytes for each two that are counted here, and an update in place has the full bandwidth.
Bandwidth bandwidth();

}  // namespace vitrine::bench
