// The instructions of AMX on a CPU that lacks them. Such a CPU stops at each of them with the
// signal SIGILL. The handler here reads the instruction, does its work in plain C++ as Intel's
// manual defines it (volume 2), and lets the program go on after it. So a product on real tiles is
// checked bit for bit: the numbers of the tiles, their addresses, their configuration and release.
#if defined(__x86_64__) && defined(__linux__)

#include <doctest/doctest.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/parallel.h"
#include "ops/cpu/gemm/gemm.h"
#include "tests/skip.h"

using namespace vitrine;
using cpu::Trans;

namespace {

/// The tiles of one thread.
struct Machine {
  bool configured = false;
  uint32_t tile[8][16][16];
};
thread_local Machine machine;
std::atomic<int64_t> configurations, releases, products, mistakes;

float flushed(float x) {
  return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}
/// Number h of a pair of bfloat16, the lower half first.
float number(uint32_t pair, int h) { return flushed(std::bit_cast<float>(pair >> 16 * h << 16)); }

/// tdpbf16ps: C += A · B.
void multiply(uint32_t (&c)[16][16], const uint32_t (&a)[16][16], const uint32_t (&b)[16][16]) {
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 16; ++n) {
      float sum[2] = {0, 0};
      for (int k = 0; k < 16; ++k)
        for (int h : {0, 1}) sum[h] = flushed(std::fma(number(a[m][k], h), number(b[k][n], h), sum[h]));
      const float old = flushed(std::bit_cast<float>(c[m][n]));
      c[m][n] = std::bit_cast<uint32_t>(flushed(old + flushed(sum[0] + sum[1])));
    }
  }
}

/// One instruction: three bytes of the VEX prefix, the opcode, the ModRM byte, and what an address
/// needs (Intel's manual, volume 2, chapter 2).
struct Instruction {
  static constexpr int kRegisters[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                       REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                       REG_R12, REG_R13, REG_R14, REG_R15};
  bool known = false, in_memory = false;
  int prefix = 0, opcode = 0, reg = 0, rm = 0, vvvv = 0;
  int64_t length = 5, base = 0, stride = 0;  // the address of row i is base + i · stride

  Instruction(const uint8_t* code, const greg_t* registers) {
    known = code[0] == 0xc4 && (code[1] & 31) == 2;
    prefix = code[2] & 3, opcode = code[3];
    reg = code[4] >> 3 & 7, rm = code[4] & 7, vvvv = ~code[2] >> 3 & 15;
    const int mode = code[4] >> 6;
    in_memory = mode != 3;
    if (!in_memory) return;
    const int more_base = code[1] & 0x20 ? 0 : 8, more_index = code[1] & 0x40 ? 0 : 8;
    int from = rm;
    if (rm == 4) {
      const uint8_t sib = code[length++];
      from = sib & 7;
      const int index = (sib >> 3 & 7) + more_index;
      if (index != 4) stride = registers[kRegisters[index]] << (sib >> 6);
    }
    const bool absent = mode == 0 && from == 5;
    if (!absent) base = registers[kRegisters[from + more_base]];
    int32_t distance = 0;
    if (mode == 1) {
      distance = static_cast<int8_t>(code[length]);
      length += 1;
    } else if (mode == 2 || absent) {
      std::memcpy(&distance, code + length, 4);
      length += 4;
    }
    base += distance;
    if (absent && rm == 5) base += reinterpret_cast<int64_t>(code) + length;  // from the next on
  }
  uint8_t* row(int i) const { return reinterpret_cast<uint8_t*>(base + i * stride); }
};

/// Whether the 64 bytes give all 8 tiles their full size.
bool is_full_configuration(const uint8_t* bytes) {
  if (bytes[0] != 1 || bytes[1] != 0) return false;
  for (int t = 0; t < 8; ++t)
    if (bytes[16 + 2 * t] != 64 || bytes[17 + 2 * t] != 0 || bytes[48 + t] != 16) return false;
  return true;
}

/// Does the work of one instruction. False if it is none of AMX.
bool execute(const Instruction& in) {
  constexpr int kNone = 0, kF3 = 2, kF2 = 3;
  if (!in.known) return false;
  Machine& m = machine;
  if (in.opcode == 0x49 && in.prefix == kNone) {
    if (in.in_memory) {
      ++configurations;
      mistakes += m.configured || !is_full_configuration(in.row(0));
    } else {
      ++releases;
      mistakes += !m.configured;
    }
    m.configured = in.in_memory;
    return true;
  }
  mistakes += !m.configured;
  if (in.opcode == 0x49 && in.prefix == kF2)
    std::memset(m.tile[in.reg], 0, sizeof(m.tile[0]));
  else if (in.opcode == 0x4b && in.prefix == kF2)
    for (int i = 0; i < 16; ++i) std::memcpy(m.tile[in.reg][i], in.row(i), 64);
  else if (in.opcode == 0x4b && in.prefix == kF3)
    for (int i = 0; i < 16; ++i) std::memcpy(in.row(i), m.tile[in.reg][i], 64);
  else if (in.opcode == 0x5c && in.prefix == kF3)
    ++products, multiply(m.tile[in.reg], m.tile[in.rm], m.tile[in.vvvv]);
  else
    return false;
  return true;
}

void on_illegal_instruction(int, siginfo_t*, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const Instruction in(reinterpret_cast<const uint8_t*>(registers[REG_RIP]), registers);
  if (!execute(in))
    signal(SIGILL, SIG_DFL);  // the program stops at it again
  else
    registers[REG_RIP] += in.length;
}

/// While it lives, this program has AMX.
class Handler {
 public:
  Handler() {
    struct sigaction action {};
    action.sa_sigaction = on_illegal_instruction;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, &before_);
    configurations = releases = products = mistakes = 0;
  }
  ~Handler() { sigaction(SIGILL, &before_, nullptr); }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

 private:
  struct sigaction before_ {};
};

/// Numbers of magnitude `scale`, from a fixed sequence.
template <class T>
std::vector<T> numbers(int64_t count, float scale, uint64_t state) {
  std::vector<T> x(count);
  for (T& value : x) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = T(scale * (static_cast<float>(state >> 40) / (1 << 23) - 1));
  }
  return x;
}

struct Example {
  int64_t M, N, K;
  float scale_a = 1, scale_b = 1;
};

template <class TC>
std::vector<TC> product(Isa set, Trans ta, Trans tb, const Example& e) {
  const auto a = numbers<bfloat16>(e.M * e.K, e.scale_a, 1), b = numbers<bfloat16>(e.K * e.N, e.scale_b, 2);
  auto c = numbers<TC>(e.M * e.N, e.scale_a * e.scale_b, 3);
  cpu::gemm_batched_on(set, {}, ta, tb, e.M, e.N, e.K, 1.0f, a.data(), ta == Trans::yes ? e.M : e.K, b.data(),
                       tb == Trans::yes ? e.K : e.N, 1.0f, c.data(), e.N);
  return c;
}

/// Whether the test can run here; says why not.
bool can_trap() {
  if (!detail::includes(isa(), Isa::amx_emulated)) {
    test::skip("the emulation of AMX needs AVX-512");
  } else if (detail::best_isa() == Isa::amx) {
    test::skip("this CPU has AMX, so its instructions do not stop");
  } else {
    return true;
  }
  return false;
}

// Subnormals: the products of a row are, and the operands of a row are.
const Example kExamples[] = {{9, 5, 33},
                             {16, 16, 32},
                             {33, 47, 64},
                             {17, 70, 1},
                             {47, 33, 31},
                             {70, 100, 900},
                             {20, 20, 70, 1e-19f, 2e-19f},
                             {20, 20, 70, 1e-38f, 1},
                             {20, 20, 70, 1e-39f, 1e38f}};

}  // namespace

TEST_CASE_TEMPLATE("a product by the instructions of AMX has the bits of the emulated tiles", TC, float,
                   bfloat16) {
  if (!can_trap()) return;
  for (Trans ta : {Trans::no, Trans::yes})
    for (Trans tb : {Trans::no, Trans::yes})
      for (const Example& e : kExamples) {
        INFO("M ", e.M, " N ", e.N, " K ", e.K, " scales ", e.scale_a, " ", e.scale_b);
        const std::vector<TC> expected = product<TC>(Isa::amx_emulated, ta, tb, e);
        std::vector<TC> got;
        {
          const Handler handler;
          got = product<TC>(Isa::amx, ta, tb, e);
        }
        CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(TC)) == 0);
        const int64_t tiles = (e.M + 15) / 16 * ((e.N + 15) / 16) * ((e.K + 31) / 32);
        CHECK(products == tiles);
        CHECK(configurations >= 1);
        CHECK(releases == configurations);
        CHECK(mistakes == 0);
      }
}

TEST_CASE("each thread configures its own tiles, and the bits are the same") {
  if (!can_trap()) return;
  const int before = threads();
  const Example e{300, 100, 400};
  set_threads(1);
  const std::vector<float> one = product<float>(Isa::amx_emulated, Trans::no, Trans::yes, e);
  set_threads(3);
  std::vector<float> three;
  {
    const Handler handler;
    three = product<float>(Isa::amx, Trans::no, Trans::yes, e);
  }
  set_threads(before);
  CHECK(std::memcmp(one.data(), three.data(), one.size() * sizeof(float)) == 0);
  CHECK(configurations >= 3);
  CHECK(releases == configurations);
  CHECK(mistakes == 0);
}

#endif
