#include "core/memory/recent_blocks.h"

#include <doctest/doctest.h>

#include <vector>

using vitrine::memory::RecentBlocks;

namespace {

struct alignas(64) SmallBlock {
  char bytes[128];
};

}  // namespace

TEST_CASE("the last block of a size that came is the first to go, and only to who asks for that size") {
  std::vector<SmallBlock> blocks(3);
  RecentBlocks recent;
  CHECK(recent.take(64) == nullptr);
  CHECK(recent.keep(&blocks[0], 64));
  CHECK(recent.keep(&blocks[1], 64));
  CHECK(recent.keep(&blocks[2], 128));
  CHECK(recent.take(64) == &blocks[1]);
  CHECK(recent.take(64) == &blocks[0]);
  CHECK(recent.take(64) == nullptr);
  CHECK(recent.take(128) == &blocks[2]);
}

TEST_CASE("large blocks are not kept, and no more than a megabyte of small ones") {
  constexpr size_t kSize = size_t{64} << 10;
  std::vector<SmallBlock> memory(17 * kSize / sizeof(SmallBlock) + 2);
  auto* const begin = reinterpret_cast<char*>(memory.data());
  RecentBlocks recent;
  CHECK(!recent.keep(begin, kSize + 64));
  CHECK(recent.take(kSize + 64) == nullptr);
  size_t kept = 0;
  while (kept < 17 && recent.keep(begin + kept * kSize, kSize)) ++kept;
  CHECK(kept == 16);
  std::vector<void*> given;
  recent.clear([&](void* data) { given.push_back(data); });
  CHECK(given.size() == 16);
  CHECK(recent.take(kSize) == nullptr);
  CHECK(recent.keep(begin, kSize));  // there is room again
}
