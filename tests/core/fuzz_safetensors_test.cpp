#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/allocator.h"
#include "core/creation.h"
#include "core/random.h"
#include "core/safetensors.h"

using namespace vitrine;

TEST_CASE("10,000 mutated safetensors are read or refused, without allocating beyond the file") {
  const auto path =
      (std::filesystem::temp_directory_path() / fmt::format("vitrine_fuzz_{}", getpid())).string();
  write_safetensors(
      path,
      {{{"alpha", tensor({1, 2, 3, 4}, {2, 2})}, {"beta", tensor({1, 0}, DType::boolean)}}, {{"k", "v"}}});
  std::stringstream buffer;
  buffer << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string whole = buffer.str();
  Generator random(1);
  int refused = 0;
  for (int round = 0; round < 10000; ++round) {
    std::string bytes = whole;
    const int64_t edits = 1 + random.next_below(4);
    for (int64_t i = 0; i < edits && !bytes.empty(); ++i) {
      const auto at = static_cast<size_t>(random.next_below(static_cast<int64_t>(bytes.size())));
      switch (random.next_below(5)) {
        case 0: bytes[at] = static_cast<char>(random.next_below(256)); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.next_below(8))); break;
        case 2: bytes.resize(at); break;
        case 3: bytes.insert(at, bytes.substr(at / 2, 16)); break;
        default: bytes[at] = "0123456789{}[]\",:-"[random.next_below(18)];
      }
    }
    std::ofstream(path, std::ios::binary) << bytes;
    memory::reset_peak();
    const size_t before = memory::statistics().peak;
    try {
      for (const auto& [name, x] : read_safetensors(path).tensors)
        if (x.numel() > 0) CHECK(static_cast<size_t>(x.numel()) <= bytes.size());
    } catch (const Error&) {
      ++refused;
    }
    CHECK(memory::statistics().peak - before <= bytes.size() + 4096);
  }
  CHECK(refused > 1000);
  CHECK(refused < 10000);
  std::filesystem::remove(path);
}
