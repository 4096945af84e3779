#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "core/creation.h"
#include "core/npy.h"
#include "tests/core/fuzz.h"

using namespace vitrine;

namespace {

void fuzz(const std::string& whole) {
  test::fuzz_reader(whole, "0123456789{}(),:'<>|=fibVTFL ",
                    [](const std::string& path) { return std::vector<Tensor>{read_npy(path)}; });
}

}  // namespace

TEST_CASE("10,000 mutated npy files are read or refused, without allocating beyond the file") {
  const auto path =
      (std::filesystem::temp_directory_path() / fmt::format("vitrine_whole_{}", getpid())).string();
  write_npy(path, tensor({0, 1, 1, 0, 1, 0}, {2, 3}));
  // Half of the padding goes, so that more of the edits hit what has a meaning.
  std::string whole = test::bytes_of_file(path);
  whole.erase(72, 52);
  whole[8] = static_cast<char>(whole[8] - 52);
  std::filesystem::remove(path);
  fuzz(whole);
}

TEST_CASE("so are 10,000 mutated ones of version 2.0 in Fortran order, most significant byte first") {
  using namespace std::string_literals;
  const std::string header = "{'descr': '>f8', 'fortran_order': True, 'shape': (2, 3), }  \n";
  fuzz("\x93NUMPY\x02\0"s + static_cast<char>(header.size()) + "\0\0\0"s + header + std::string(48, '\0'));
}
