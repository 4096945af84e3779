// The instruction set that the CPU kernels use, chosen at run time.
#pragma once

#include <string_view>

namespace vitrine {

/// In ascending order; each set includes the ones before it. `avx512` means F, BW, CD, DQ and VL
/// (x86-64-v4); `avx512_bf16` adds vdpbf16ps.
enum class Isa { portable, avx2, avx512, avx512_bf16 };

/// The set in use: the best one that this CPU supports, unless the environment variable VITRINE_ISA
/// (portable, avx2, avx512, avx512_bf16) selects a lower one. An unknown or unavailable name is an
/// error.
Isa isa();

std::string_view name(Isa isa);

namespace detail {

/// The best set that this CPU supports.
Isa best_isa();

/// While this object lives, isa() returns another set, so that one test program can run every path.
/// For tests: create it only while no kernel runs on another thread. A set that this CPU lacks is
/// an error.
class IsaScope {
 public:
  explicit IsaScope(Isa isa);
  ~IsaScope();
  IsaScope(const IsaScope&) = delete;
  IsaScope& operator=(const IsaScope&) = delete;

 private:
  Isa previous_;
};

}  // namespace detail
}  // namespace vitrine
