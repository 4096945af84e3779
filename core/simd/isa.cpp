#include "core/simd/isa.h"

#include <array>
#include <atomic>
#include <cstdlib>

#include "core/error.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace vitrine {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"portable",    "avx2", "avx512",
                                                    "avx512_bf16", "amx",  "amx_emulated"};

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

/// Three parties must agree to tiles. The CPU has the instructions (CPUID leaf 7). The system saves
/// the tiles when it changes threads (register XCR0). And the system lets this process use them:
/// since Linux 5.16 a process has to ask, because the tiles make its saved state 8 KiB larger. The
/// answer holds for all threads.
bool has_amx() {
#if defined(__linux__)
  constexpr unsigned kBfloat16 = 1u << 22, kTiles = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & kBfloat16) == 0 || (d & kTiles) == 0) return false;
  constexpr unsigned kConfiguration = 1u << 17, kData = 1u << 18;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & kConfiguration) == 0 || (low & kData) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

Isa best_of_this_cpu() {
  if (!has_avx2()) return Isa::portable;
  if (!has_avx512()) return Isa::avx2;
  if (!__builtin_cpu_supports("avx512bf16")) return Isa::avx512;
  return has_amx() ? Isa::amx : Isa::avx512_bf16;
}
#else
Isa best_of_this_cpu() { return Isa::portable; }
#endif

Isa choose() {
  const Isa best = detail::best_isa();
  const char* wanted = std::getenv("VITRINE_ISA");
  if (wanted == nullptr || *wanted == '\0') return best;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] != wanted) continue;
    check(detail::includes(best, static_cast<Isa>(i)), "VITRINE_ISA is {}, but this CPU has at most {}",
          wanted, name(best));
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
  static const Isa best = best_of_this_cpu();
  return best;
}

bool includes(Isa isa, Isa other) {
  if (other == Isa::amx_emulated) return isa >= Isa::avx512;
  return other <= (isa == Isa::amx_emulated ? Isa::avx512 : isa);
}

IsaScope::IsaScope(Isa isa) : previous_(vitrine::isa()) {
  check(includes(best_isa(), isa), "IsaScope: {} is wanted, but this CPU has at most {}", name(isa),
        name(best_isa()));
  current() = isa;
}

IsaScope::~IsaScope() { current() = previous_; }

}  // namespace detail
}  // namespace vitrine
