#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "core/creation.h"
#include "core/safetensors.h"
#include "tests/core/fuzz.h"

using namespace vitrine;

TEST_CASE("10,000 mutated safetensors are read or refused, without allocating beyond the file") {
  const auto path =
      (std::filesystem::temp_directory_path() / fmt::format("vitrine_whole_{}", getpid())).string();
  write_safetensors(
      path,
      {{{"alpha", tensor({1, 2, 3, 4}, {2, 2})}, {"beta", tensor({1, 0}, DType::boolean)}}, {{"k", "v"}}});
  const std::string whole = test::bytes_of_file(path);
  std::filesystem::remove(path);
  test::fuzz_reader(whole, "0123456789{}[]\",:-", [](const std::string& file) {
    std::vector<Tensor> tensors;
    for (const auto& [name, x] : read_safetensors(file).tensors) tensors.push_back(x);
    return tensors;
  });
}
