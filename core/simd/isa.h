// The instruction set that the CPU kernels use, chosen at run time.
#pragma once

#include <string_view>

namespace vitrine {

/// In ascending order up to `amx`; each set includes the ones before it. `avx512` means F, BW, CD,
/// DQ and VL (x86-64-v4); `avx512_bf16` adds vdpbf16ps; `amx` adds tiles and tdpbf16ps.
/// `amx_emulated` runs the code of `amx` with tiles that are made of AVX-512. It is slow, and meant
/// for tests.
enum class Isa { portable, avx2, avx512, avx512_bf16, amx, amx_emulated };

/// The set in use: the best one that this CPU supports, unless the environment variable VITRINE_ISA
/// (portable, avx2, avx512, avx512_bf16, amx, amx_emulated) selects another. An unknown or
/// unavailable name is an error.
Isa isa();

std::string_view name(Isa isa);

namespace detail {

/// The best set that this CPU supports; never the emulated one. If it is `amx`, the system has
/// granted the tiles to this process.
Isa best_isa();

/// Whether a CPU with the set `isa` runs `other`.
bool includes(Isa isa, Isa other);

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
