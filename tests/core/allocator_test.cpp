// The caching allocator: blocks keep what is written into them, are split and joined, and go back to the system.
#include "core/allocator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/random.h"

using namespace vitrine;

namespace {

struct Block {
  uint8_t* data;
  size_t size;
  uint8_t mark;

  bool intact() const {
    return std::all_of(data, data + size, [&](uint8_t byte) { return byte == mark; });
  }
};

}  // namespace

TEST_CASE("ten thousand blocks in random order keep their bytes, and all memory comes back") {
  memory::release_cached();
  const auto before = memory::statistics();
  Generator generator(1);
  std::vector<Block> live;
  const auto release = [&](size_t i) {
    CHECK(live[i].intact());
    memory::release(live[i].data, live[i].size);
    std::swap(live[i], live.back());
    live.pop_back();
  };
  for (int step = 0; step < 10'000; ++step) {
    if (live.size() > 200 || (!live.empty() && generator.next_below(5) < 2)) {
      release(static_cast<size_t>(generator.next_below(static_cast<int64_t>(live.size()))));
      continue;
    }
    // From one byte to megabytes, small ones more often.
    const auto size =
        static_cast<size_t>(1 + generator.next_below(int64_t{1} << (3 * generator.next_below(8))));
    auto* data = static_cast<uint8_t*>(memory::allocate(size));
    REQUIRE(reinterpret_cast<uintptr_t>(data) % 64 == 0);
    live.push_back({data, size, static_cast<uint8_t>(step)});
    std::fill_n(data, size, live.back().mark);
  }
  CHECK(memory::statistics().now > before.now);
  while (!live.empty()) release(live.size() - 1);
  CHECK(memory::statistics().now == before.now);
  memory::release_cached();
  CHECK(memory::statistics().reserved <= before.reserved);
}

TEST_CASE("free neighbours are joined: a block of their size needs no new memory") {
  std::vector<void*> parts;
  constexpr size_t kPart = 1 << 20, kCount = 64;
  for (size_t i = 0; i < kCount; ++i) parts.push_back(memory::allocate(kPart));
  for (size_t i = 0; i < kCount; i += 2) memory::release(parts[i], kPart);
  for (size_t i = 1; i < kCount; i += 2) memory::release(parts[i], kPart);
  [[maybe_unused]] const size_t reserved = memory::statistics().reserved;
  void* whole = memory::allocate(12 * kPart);  // within one segment of 16 MiB
#ifndef VITRINE_SANITIZED                      // where every block comes from malloc
  CHECK(memory::statistics().reserved == reserved);
#else
  CHECK(memory::statistics().reserved > 0);
#endif
  memory::release(whole, 12 * kPart);
}
