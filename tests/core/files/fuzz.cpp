#include "tests/core/files/fuzz.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "core/random.h"
#include "tests/environment.h"
#include "tests/folder.h"
#include "tests/memory_use.h"

namespace vitrine::test {

std::string mutated(std::string bytes, std::string_view alphabet, Generator& random) {
  const int64_t edits = 1 + random.next_below(4);
  for (int64_t i = 0; i < edits && !bytes.empty(); ++i) {
    const auto at = static_cast<size_t>(random.next_below(static_cast<int64_t>(bytes.size())));
    switch (random.next_below(7)) {
      case 0: bytes[at] = static_cast<char>(random.next_below(256)); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.next_below(8))); break;
      case 2: bytes.resize(at); break;
      case 3: bytes.erase(at, static_cast<size_t>(1 + random.next_below(4))); break;
      case 4: bytes.insert(at, bytes.substr(at / 2, 16)); break;
      case 5:  // the next number becomes a large one, up to and beyond 2^64
        if (const size_t digit = bytes.find_first_of("0123456789", at); digit != std::string::npos)
          bytes.insert(digit, static_cast<size_t>(1 + random.next_below(20)), '9');
        break;
      default:
        bytes[at] = alphabet[static_cast<size_t>(random.next_below(static_cast<int64_t>(alphabet.size())))];
    }
  }
  return bytes;
}

std::string bytes_written(const std::function<void(const std::string& path)>& write) {
  const Folder folder;
  write(folder / "written");
  return bytes_of_file(folder / "written");
}

void fuzz_reader(const std::vector<std::string>& whole, std::string_view alphabet,
                 const std::function<std::vector<Tensor>(const std::string& path)>& read) {
  constexpr size_t kMessage = 1100;
  const auto rounds = static_cast<size_t>(from_environment("VITRINE_FUZZ_ROUNDS", 10000));
  const Folder folder;
  const std::string path = folder / "mutated";
  Generator random(static_cast<uint64_t>(from_environment("VITRINE_FUZZ_SEED", 1)));
  std::vector<size_t> refused(whole.size(), 0);
  for (size_t round = 0; round < rounds; ++round) {
    const std::string bytes = mutated(whole[round % whole.size()], alphabet, random);
    std::filesystem::remove(path);  // a file that is written over would be flushed to the disk
    write_bytes(path, bytes);
    std::vector<Tensor> tensors;
    const std::clock_t start = std::clock();
    const MemoryUse use = memory_use([&] {
      try {
        tensors = read(path);
      } catch (const Error&) {
        ++refused[round % whole.size()];
      }
    });
    // CPU time of the process, not wall time: other programs may run at the same time as the tests.
    CHECK(std::clock() - start <= CLOCKS_PER_SEC);
    // malloc's: to its next size, and a remainder too small for a block
    constexpr size_t kRounding = 64;
    CHECK_MESSAGE(use.largest <= std::max(bytes.size(), kMessage) + kRounding, fmt::format("{:?}", bytes));
    // The total memory: a message, and a header's tensors and keys, both in order and by name.
    CHECK_MESSAGE(use.peak <= std::max(4 * bytes.size() + 8192, 10 * bytes.size()),
                  fmt::format("{:?}", bytes));
    for (const Tensor& x : tensors) {
      if (x.numel() > 0) CHECK(static_cast<size_t>(x.numel()) <= bytes.size());
      CHECK(x.values().size() == static_cast<size_t>(x.numel()));  // touches every element
    }
  }
  const size_t each = rounds / whole.size();
  for (const size_t count : refused) {
    CHECK(count > each / 10);
    CHECK(count < each);
  }
  std::filesystem::remove(path);
}

}  // namespace vitrine::test
