// The caching allocator: blocks keep their contents, are split and joined, and are returned to the
// system.
#include "core/memory/allocator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <thread>
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
    // Sizes from one byte to megabytes; small sizes are more frequent.
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

TEST_CASE("threads take and give back blocks side by side, also each other's") {
  memory::release_cached();
  const size_t before = memory::statistics().now;
  constexpr int kThreads = 4, kBlocks = 500;
  std::vector<std::vector<Block>> left(kThreads);
  std::vector<int> spoilt(kThreads, 0);
  const auto together = [](const auto& body) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) threads.emplace_back(body, t);
  };
  together([&](int t) {
    Generator generator(static_cast<uint64_t>(t));
    for (int i = 0; i < 4 * kBlocks; ++i) {
      const size_t size = 1 + static_cast<size_t>(generator.next_below(20'000));
      const Block block{static_cast<uint8_t*>(memory::allocate(size)), size,
                        static_cast<uint8_t>(16 * t + i % 16)};
      std::fill_n(block.data, size, block.mark);
      left[t].push_back(block);
      if (i % 4 == 3) continue;  // stays
      const size_t any = static_cast<size_t>(generator.next_below(static_cast<int64_t>(left[t].size())));
      std::swap(left[t][any], left[t].back());
      spoilt[t] += left[t].back().intact() ? 0 : 1;
      memory::release(left[t].back().data, left[t].back().size);
      left[t].pop_back();
    }
  });
  together([&](int t) {  // another thread's
    for (const Block& block : left[(t + 1) % kThreads]) {
      spoilt[t] += block.intact() ? 0 : 1;
      memory::release(block.data, block.size);
    }
  });
  for (int t = 0; t < kThreads; ++t) {
    CHECK(left[t].size() == kBlocks);
    CHECK(spoilt[t] == 0);
  }
  CHECK(memory::statistics().now == before);
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

#ifndef VITRINE_SANITIZED  // where every block comes from malloc
TEST_CASE("a large block lies where many small ones were, and free pages between live blocks go back") {
  memory::release_cached();
  constexpr size_t kPart = 3 << 20, kCount = 40;
  std::vector<void*> parts;
  for (size_t i = 0; i < kCount; ++i) parts.push_back(memory::allocate(kPart));
  for (void* part : parts) memory::release(part, kPart);
  const size_t reserved = memory::statistics().reserved;
  void* whole = memory::allocate(kPart * kCount);
  CHECK(memory::statistics().reserved == reserved);
  memory::release(whole, kPart * kCount);

  for (void*& part : parts) part = memory::allocate(kPart);
  for (size_t i = 1; i < kCount; i += 2) memory::release(parts[i], kPart);
  memory::release_cached();
  CHECK(memory::statistics().reserved < memory::statistics().now + (1 << 20));
  for (size_t i = 0; i < kCount; i += 2) memory::release(parts[i], kPart);
  memory::release_cached();
}
#endif
