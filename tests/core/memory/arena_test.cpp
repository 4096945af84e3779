// The arena alone, with memory from malloc. These tests also run under sanitizers, where the CPU
// allocator bypasses the arena.
#include "core/memory/arena.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "core/random.h"

using namespace vitrine;
using memory::Arena;

namespace {

constexpr size_t kUnit = 64, kSegment = 4096, kGranularity = 1024;

/// Returns memory from malloc up to a limit, and remembers which blocks are in use.
struct Heap {
  std::map<void*, size_t> out;
  size_t limit = SIZE_MAX;

  memory::Source source() {
    return {[this](size_t bytes) -> void* {
              if (held() + bytes > limit) return nullptr;
              void* const data = std::aligned_alloc(kUnit, bytes);
              out[data] = bytes;
              return data;
            },
            [this](void* data, size_t bytes) {
              REQUIRE(out.count(data) == 1);
              CHECK(out[data] == bytes);
              out.erase(data);
              std::free(data);
            },
            kUnit, kSegment, kGranularity};
  }
  size_t held() const {
    size_t sum = 0;
    for (const auto& segment : out) sum += segment.second;
    return sum;
  }
};

struct Scene {
  Heap heap;
  const memory::Source source = heap.source();
  Arena arena{source};

  ~Scene() {
    arena.release_cached();
    CHECK(heap.out.empty());
    CHECK(arena.reserved() == 0);
  }
  char* take(size_t bytes) { return static_cast<char*>(arena.take(bytes)); }
};

}  // namespace

TEST_CASE(
    "an arena takes whole segments from its source, of multiples of the granularity, and says how much") {
  Scene s;
  void* const small = s.take(kUnit);
  CHECK(s.heap.held() == kSegment);
  CHECK(s.arena.reserved() == kSegment);
  void* const large = s.take(kSegment + kUnit);
  CHECK(s.heap.held() == kSegment + (kSegment + kGranularity));
  CHECK(s.arena.reserved() == s.heap.held());
  CHECK(s.arena.give(small));
  CHECK(s.arena.give(large));
  CHECK(s.arena.reserved() == s.heap.held());  // kept for the next
}

TEST_CASE("a block is split: what is left of its segment serves the next ones") {
  Scene s;
  char* const first = s.take(kSegment / 4);
  char* const second = s.take(kSegment / 2);
  char* const third = s.take(kSegment / 4);
  CHECK(second == first + kSegment / 4);
  CHECK(third == second + kSegment / 2);
  CHECK(s.heap.out.size() == 1);
  for (char* block : {first, second, third}) CHECK(s.arena.give(block));
}

TEST_CASE("free neighbours are joined, whichever of them comes back last") {
  for (const auto& order : {std::vector{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {2, 1, 0}}) {
    Scene s;
    std::vector<char*> parts;
    for (const size_t size : {kSegment / 4, kSegment / 4, kSegment / 2}) parts.push_back(s.take(size));
    for (const int i : order) CHECK(s.arena.give(parts[static_cast<size_t>(i)]));
    char* const whole = s.take(kSegment);
    CHECK(whole == parts[0]);
    CHECK(s.heap.out.size() == 1);
    CHECK(s.arena.give(whole));
  }
}

TEST_CASE("blocks of two segments are not joined, even where these lie side by side") {
  // One piece of memory returned as two neighbouring segments, in either order.
  for (const bool ascending : {true, false}) {
    std::vector<char> memory(2 * kSegment);
    std::vector<char*> segments = {memory.data(), memory.data() + kSegment};
    if (ascending) std::swap(segments[0], segments[1]);
    const memory::Source source{[&](size_t) -> void* {
                                  char* const last = segments.back();
                                  segments.pop_back();
                                  return last;
                                },
                                [](void*, size_t bytes) { CHECK(bytes == kSegment); }, kUnit, kSegment,
                                kGranularity};
    Arena arena(source);
    void* const x = arena.take(kSegment);
    void* const y = arena.take(kSegment);
    CHECK(arena.give(x));
    CHECK(arena.give(y));
    arena.release_cached();
    CHECK(arena.reserved() == 0);
  }
}

TEST_CASE("the smallest free block that is large enough is taken") {
  Scene s;
  std::vector<char*> blocks;  // free ones of 10, 6 and 8 units, with live ones in between
  for (const size_t units : {10, 1, 6, 1, 8, 1}) blocks.push_back(s.take(units * kUnit));
  char* const rest = s.take(kSegment - 27 * kUnit);
  for (const size_t i : {0, 2, 4}) CHECK(s.arena.give(blocks[i]));
  CHECK(s.take(7 * kUnit) == blocks[4]);
  CHECK(s.take(6 * kUnit) == blocks[2]);
  CHECK(s.take(9 * kUnit) == blocks[0]);
  CHECK(s.heap.out.size() == 1);
  for (char* block : {blocks[0], blocks[1], blocks[2], blocks[3], blocks[4], blocks[5], rest})
    CHECK(s.arena.give(block));
}

TEST_CASE("release_cached gives back segments without a live block, and no others") {
  Scene s;
  char* const small = s.take(kUnit);
  char* const large = s.take(2 * kSegment);
  CHECK(s.arena.give(large));
  s.arena.release_cached();
  CHECK(s.arena.reserved() == kSegment);
  CHECK(s.heap.held() == kSegment);
  std::memset(small, 1, kUnit);
  CHECK(s.arena.give(small));
}

TEST_CASE("a source that has no more is told by nullptr, and the arena goes on; strange blocks are refused") {
  Scene s;
  s.heap.limit = kSegment;
  char* const block = s.take(kUnit);
  CHECK(s.arena.take(kSegment) == nullptr);
  CHECK(s.arena.reserved() == kSegment);
  char* const next = s.take(kUnit);
  CHECK(next == block + kUnit);
  char here = 0;
  CHECK(!s.arena.give(&here));
  CHECK(!s.arena.give(block + 1));
  CHECK(s.arena.holds(block));
  CHECK(s.arena.give(block));
  CHECK(!s.arena.holds(block));
  CHECK(!s.arena.give(block));  // twice
  CHECK(s.arena.give(next));
}

namespace {

/// A source whose segments can grow, and that takes back single pages.
struct Ground {
  static constexpr size_t kPage = 256, kMost = 400 * kSegment;
  char* const begin = static_cast<char*>(std::aligned_alloc(kSegment, kMost));
  std::vector<bool> taken = std::vector<bool>(kMost / kPage, false);
  int segments = 0;

  ~Ground() { std::free(begin); }
  size_t held() const { return kPage * static_cast<size_t>(std::count(taken.begin(), taken.end(), true)); }
  /// Marks pages as taken or not; false if that would change nothing for one of them.
  bool mark(void* data, size_t bytes, bool as) {
    const auto first = static_cast<size_t>(static_cast<char*>(data) - begin) / kPage, count = bytes / kPage;
    for (size_t i = first; i < first + count; ++i)
      if (i >= taken.size() || taken[i] == as) return false;
    for (size_t i = first; i < first + count; ++i) taken[i] = as;
    return true;
  }
  memory::Source source() {
    return {.take = [this](size_t bytes) -> void* {
              for (size_t at = 0; at < kMost; at += kSegment)  // the first place that is free
                if (mark(begin + at, bytes, true)) return ++segments, begin + at;
              return nullptr;
            },
            .give = [this](void* data, size_t bytes) { REQUIRE(mark(data, bytes, false)); },
            .alignment = kUnit,
            .segment = kSegment,
            .granularity = kGranularity,
            .extend = [this](void* end, size_t bytes) { return mark(end, bytes, true); },
            .page = kPage};
  }
};

struct GrowingScene {
  Ground ground;
  const memory::Source source = ground.source();
  Arena arena{source};

  ~GrowingScene() {
    arena.release_cached();
    CHECK(ground.held() == 0);
    CHECK(arena.reserved() == 0);
  }
  char* take(size_t bytes) { return static_cast<char*>(arena.take(bytes)); }
};

}  // namespace

TEST_CASE("the last segment grows by what its free end lacks, so that a block lies across the old end") {
  GrowingScene s;
  char* const first = s.take(kSegment / 2);
  char* const second = s.take(2 * kSegment);
  CHECK(second == first + kSegment / 2);
  CHECK(s.ground.segments == 1);
  CHECK(s.arena.reserved() == kSegment + kSegment / 2 + kSegment);
  CHECK(s.arena.give(first));
  CHECK(s.arena.give(second));
  CHECK(s.take(s.arena.reserved()) == first);  // all of it is one block
  char* const next = s.take(kSegment);         // the last block is in use
  for (char* block : {first, next}) CHECK(s.arena.give(block));
  CHECK(s.take(s.arena.reserved()) == first);
  CHECK(s.ground.segments == 1);
  CHECK(s.arena.give(first));
}

TEST_CASE("a segment that cannot grow is followed by another, to which it is not joined") {
  GrowingScene s;
  char* const first = s.take(kSegment);
  REQUIRE(s.ground.mark(first + kSegment, kSegment, true));  // somebody else's
  char* const second = s.take(kSegment);
  CHECK(s.ground.segments == 2);
  CHECK(second == first + 2 * kSegment);
  REQUIRE(s.ground.mark(first + kSegment, kSegment, false));
  for (char* block : {first, second}) CHECK(s.arena.give(block));
  char* const large = s.take(2 * kSegment);
  CHECK(large == second);
  CHECK(s.arena.give(large));
}

TEST_CASE("release_cached gives back the free pages of a segment, and no byte of a live block") {
  GrowingScene s;
  std::vector<char*> blocks;  // 3 units, 3 pages, 5 units, 2 pages less a unit, 1 unit
  const size_t page = Ground::kPage;
  for (const size_t size : {3 * kUnit, 3 * page, 5 * kUnit, 2 * page - kUnit, kUnit}) {
    blocks.push_back(s.take(size));
    std::memset(blocks.back(), 7, size);
  }
  for (const size_t i : {1, 3}) CHECK(s.arena.give(blocks[i]));
  s.arena.release_cached();
  CHECK(s.ground.held() == s.arena.reserved());
  CHECK(s.ground.held() == 4 * page);  // 3 of the 7 are free from end to end
  for (const size_t i : {0, 2, 4})
    for (size_t k = 0; k < (i == 0 ? 3 : i == 2 ? 5 : 1) * kUnit; ++k) REQUIRE(blocks[i][k] == 7);
  char* const again = s.take(3 * page);  // fits none of the remaining blocks
  CHECK((again < blocks[0] || again > blocks[2]));
  for (char* block : {blocks[0], blocks[2], blocks[4], again}) CHECK(s.arena.give(block));
}

TEST_CASE_TEMPLATE("ten thousand blocks in random order neither overlap nor lose a byte", Any, Scene,
                   GrowingScene) {
  Any s;
  Generator generator(1);
  struct MemoryBlock {
    char* data;
    size_t size;
    char mark;
  };
  std::vector<MemoryBlock> live;
  const auto release = [&](size_t i) {
    const MemoryBlock block = live[i];
    size_t intact = 0;
    for (size_t k = 0; k < block.size; ++k) intact += block.data[k] == block.mark;
    CHECK(intact == block.size);
    CHECK(s.arena.give(block.data));
    live[i] = live.back();
    live.pop_back();
  };
  for (int step = 0; step < 10'000; ++step) {
    if (live.size() > 100 || (!live.empty() && generator.next_below(5) < 2)) {
      release(static_cast<size_t>(generator.next_below(static_cast<int64_t>(live.size()))));
      continue;
    }
    const size_t size = kUnit * static_cast<size_t>(1 + generator.next_below(step % 20 == 0 ? 200 : 20));
    live.push_back({s.take(size), size, static_cast<char>(step)});
    std::memset(live.back().data, live.back().mark, size);
    if (step % 100 == 0) s.arena.release_cached();
  }
  while (!live.empty()) release(live.size() - 1);
}
