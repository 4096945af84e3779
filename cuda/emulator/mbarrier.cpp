#include "cuda/emulator/mbarrier.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"

namespace vitrine::emulator {
namespace {

constexpr int64_t kBox = 64, kElement = 2, kLine = kBox * kElement, kChunk = 16;

struct State {
  uint64_t arrivals : 20;  // that complete a phase
  uint64_t missing : 20;   // of the current one
  uint64_t bytes : 23;     // that it waits for
  uint64_t parity : 1;
};

State read(uint64_t state) { return std::bit_cast<State>(state); }

void write(uint64_t& state, State s) {
  if (s.missing == 0 && s.bytes == 0) s.parity ^= 1, s.missing = s.arrivals;
  state = std::bit_cast<uint64_t>(s);
}

/// Bytes of a line of the box that lie inside the matrix.
int64_t inside(const BoxCopy& copy, int64_t line) {
  return copy.line + line < copy.map.lines
             ? std::clamp<int64_t>(copy.map.length - copy.at, 0, kBox) * kElement
             : 0;
}

const char* source(const BoxCopy& copy, int64_t line) {
  return copy.map.data + ((copy.line + line) * copy.map.stride + copy.at) * kElement;
}

void deliver(const BoxCopy& copy) {
  for (int64_t line = 0; line < kBox; ++line) {
    char bytes[kLine] = {};
    if (const int64_t count = inside(copy, line))
      std::memcpy(bytes, source(copy, line), static_cast<size_t>(count));
    for (int64_t c = 0; c < kLine; c += kChunk)
      std::memcpy(swizzled(copy.shared + line * kLine + c), bytes + c, kChunk);
  }
}

/// The copies that the barrier waits for arrive.
void deliver_all(uint64_t& state) {
  auto& copies = ThreadBlock::current().box_copies();
  const auto first = std::stable_partition(copies.begin(), copies.end(),
                                           [&](const BoxCopy& c) { return c.barrier != &state; });
  State s = read(state);
  for (auto c = first; c != copies.end(); ++c) {
    if (s.bytes < kBox * kLine)
      ThreadBlock::current().fail_here("an mbarrier gets more bytes than it expects");
    deliver(*c);
    s.bytes -= kBox * kLine;
  }
  copies.erase(first, copies.end());
  write(state, s);
}

}  // namespace

void init_mbarrier(uint64_t& state, unsigned arrivals) {
  state = std::bit_cast<uint64_t>(State{.arrivals = arrivals, .missing = arrivals, .bytes = 0, .parity = 0});
  ThreadBlock::current().add_mbarrier(state);
}

void arrive(uint64_t& state, unsigned bytes) {
  State s = read(state);
  if (s.missing == 0)
    ThreadBlock::current().fail_here(
        "an mbarrier gets arrivals of a phase before anybody has waited for the last one");
  --s.missing;
  s.bytes += bytes;
  write(state, s);
}

void wait(uint64_t& state, unsigned parity, Place place) {
  for (;;) {
    const State s = read(state);
    if (s.parity != parity) return;
    if (s.missing == 0) deliver_all(state);
    if (read(state).parity == parity) ThreadBlock::current().wait_for_change(state, place);
  }
}

TensorMap TensorMap::matrix(int h, int b) const {
  check(h >= 0 && h < heads && b >= 0 && b < batches, "load_box: head {} of batch {}", h, b);
  return {data + (h * head_stride + b * batch_stride) * kElement, length, lines, stride};
}

void load_box(const BoxCopy& copy, const void* pc) {
  check(reinterpret_cast<uintptr_t>(copy.shared) % 1024 == 0,
        "load_box: an address that is no multiple of 1024");
  check(copy.at >= 0 && copy.line >= 0, "load_box: element {} of line {}", copy.at, copy.line);
  if (!ThreadBlock::current().is_fenced(*copy.barrier))
    ThreadBlock::current().fail_here("load_box: an mbarrier without a fence_init() since its init()");
  for (int64_t line = 0; line < kBox; ++line) {
    if (const int64_t count = inside(copy, line))
      note_access(source(copy, line), static_cast<size_t>(count), Access::read, pc, kElement);
    note_access(copy.shared + line * kLine, kLine, Access::write, pc);
  }
  std::memset(copy.shared, 0xFF, kBox * kLine);
  ThreadBlock::current().box_copies().push_back(copy);
  note_access(copy.barrier, sizeof(*copy.barrier), Access::atomic_write,
              pc);  // who waits for it sees the box
}

}  // namespace vitrine::emulator
