#include "core/isa.h"

#include <array>
#include <cstdlib>

#include "core/error.h"

namespace vitrine {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"portable", "avx2", "avx512", "avx512_bf16"};

Isa best_available() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::portable;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl"))
    return Isa::avx2;
  return __builtin_cpu_supports("avx512bf16") ? Isa::avx512_bf16 : Isa::avx512;
#else
  return Isa::portable;
#endif
}

Isa choose() {
  const Isa best = best_available();
  const char* wanted = std::getenv("VITRINE_ISA");
  if (wanted == nullptr || *wanted == '\0') return best;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] != wanted) continue;
    check(static_cast<Isa>(i) <= best, "VITRINE_ISA is {}, but this CPU has at most {}", wanted, name(best));
    return static_cast<Isa>(i);
  }
  fail("VITRINE_ISA is {}: wanted one of {}", wanted, fmt::join(kNames, ", "));
}

}  // namespace

Isa isa() {
  static const Isa chosen = choose();
  return chosen;
}

std::string_view name(Isa isa) { return kNames[static_cast<size_t>(isa)]; }

}  // namespace vitrine
