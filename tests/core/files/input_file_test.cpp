// Reading files that other processes write or truncate at the same time.
#include "core/files/input_file.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "core/creation.h"
#include "core/files/npy.h"
#include "core/files/safetensors.h"
#include "tests/folder.h"

using namespace vitrine;
using test::Folder, test::write_bytes;

TEST_CASE("what was read from a file stays when the file is cut, overwritten or deleted") {
  const Folder folder;
  const std::vector<double> values(5000, 7);
  const Tensor x = tensor(values, {5000});
  write_safetensors(folder / "a", {{{"x", x}}, {}});
  write_npy(folder / "b", x);
  const Tensor read[] = {read_safetensors(folder / "a").tensors.at("x"), read_npy(folder / "b")};
  for (const char* file : {"a", "b"}) std::filesystem::resize_file(folder / file, 0);
  for (const Tensor& y : read) CHECK(y.values() == values);
}

TEST_CASE("a file that is cut between opening and reading is an error") {
  const Folder folder;
  write_bytes(folder / "a", std::string(10000, '\1'));
  const InputFile file("read", folder / "a");
  CHECK(file.bytes() == 10000);
  std::filesystem::resize_file(folder / "a", 5000);
  CHECK(file.text(4990, 10) == std::string(10, '\1'));
  CHECK_THROWS_WITH(file.block(4000, 2000), doctest::Contains("has been cut to 5000 bytes"));
  CHECK_THROWS_WITH(file.text(9000, 1), doctest::Contains("since it was opened with 10000"));
}
