#include "core/simd/isa.h"

#include <array>
#include <atomic>
#include <cstdlib>

#include "core/error.h"

namespace vitrine {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"portable", "avx2", "avx512", "avx512_bf16"};

#if defined(__x86_64__)
bool has_avx2() {
  // Every CPU with AVX2 and FMA also converts float16, which not every compiler can query.
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

Isa choose() {
  const Isa best = detail::best_isa();
  const char* wanted = std::getenv("VITRINE_ISA");
  if (wanted == nullptr || *wanted == '\0') return best;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] != wanted) continue;
    check(static_cast<Isa>(i) <= best, "VITRINE_ISA is {}, but this CPU has at most {}", wanted, name(best));
    return static_cast<Isa>(i);
  }
  fail("VITRINE_ISA is {}: wanted one of {}", wanted, fmt::join(kNames, ", "));
}

std::atomic<Isa>& current() {
  static std::atomic<Isa> isa = choose();
  return isa;
}

}  // namespace

Isa isa() { return current().load(std::memory_order_relaxed); }

std::string_view name(Isa isa) { return kNames[static_cast<size_t>(isa)]; }

namespace detail {

Isa best_isa() {
#if defined(__x86_64__)
  if (!has_avx2()) return Isa::portable;
  if (!has_avx512()) return Isa::avx2;
  return __builtin_cpu_supports("avx512bf16") ? Isa::avx512_bf16 : Isa::avx512;
#else
  return Isa::portable;
#endif
}

IsaScope::IsaScope(Isa isa) : previous_(vitrine::isa()) {
  check(isa <= best_isa(), "IsaScope: {} is wanted, but this CPU has at most {}", name(isa),
        name(best_isa()));
  current() = isa;
}

IsaScope::~IsaScope() { current() = previous_; }

}  // namespace detail
}  // namespace vitrine
