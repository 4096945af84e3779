#include "tests/core/fuzz.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/allocator.h"
#include "core/random.h"

namespace vitrine::test {
namespace {

std::string mutated(std::string bytes, std::string_view alphabet, Generator& random) {
  const int64_t edits = 1 + random.next_below(4);
  for (int64_t i = 0; i < edits && !bytes.empty(); ++i) {
    const auto at = static_cast<size_t>(random.next_below(static_cast<int64_t>(bytes.size())));
    switch (random.next_below(6)) {
      case 0: bytes[at] = static_cast<char>(random.next_below(256)); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.next_below(8))); break;
      case 2: bytes.resize(at); break;
      case 3: bytes.erase(at, static_cast<size_t>(1 + random.next_below(4))); break;
      case 4: bytes.insert(at, bytes.substr(at / 2, 16)); break;
      default:
        bytes[at] = alphabet[static_cast<size_t>(random.next_below(static_cast<int64_t>(alphabet.size())))];
    }
  }
  return bytes;
}

}  // namespace

std::string bytes_of_file(const std::string& path) {
  std::stringstream buffer;
  buffer << std::ifstream(path, std::ios::binary).rdbuf();
  return buffer.str();
}

void fuzz_reader(const std::string& whole, std::string_view alphabet,
                 const std::function<std::vector<Tensor>(const std::string& path)>& read) {
  const auto path =
      (std::filesystem::temp_directory_path() / fmt::format("vitrine_fuzz_{}", getpid())).string();
  Generator random(1);
  int refused = 0;
  for (int round = 0; round < 10000; ++round) {
    const std::string bytes = mutated(whole, alphabet, random);
    std::ofstream(path, std::ios::binary) << bytes;
    memory::reset_peak();
    const size_t before = memory::statistics().peak;
    std::vector<Tensor> tensors;
    try {
      tensors = read(path);
    } catch (const Error&) {
      ++refused;
    }
    CHECK(memory::statistics().peak - before <= bytes.size() + 4096);
    for (const Tensor& x : tensors) {
      if (x.numel() > 0) CHECK(static_cast<size_t>(x.numel()) <= bytes.size());
      CHECK(x.values().size() == static_cast<size_t>(x.numel()));  // touches every element
    }
  }
  CHECK(refused > 1000);
  CHECK(refused < 10000);
  std::filesystem::remove(path);
}

}  // namespace vitrine::test
