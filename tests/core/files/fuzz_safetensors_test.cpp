#include <doctest/doctest.h>

#include <filesystem>

#include "core/creation.h"
#include "core/files/safetensors.h"
#include "tests/core/files/fuzz.h"

using namespace vitrine;

namespace {

std::string file_of(const Safetensors& content) {
  return test::bytes_written([&](const std::string& path) { write_safetensors(path, content); });
}

}  // namespace

TEST_CASE("10,000 mutated safetensors are read or refused, and no block of memory is larger than the file") {
  Safetensors every_dtype;
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16, DType::int64,
                            DType::int32, DType::uint8, DType::boolean})
    every_dtype.tensors.emplace(std::string(name(dtype)), tensor({1, 0, 1}, dtype));
  Safetensors many;
  for (int i = 0; i < 100; ++i) many.tensors.emplace(fmt::format("{}", i), zeros({}, DType::boolean));
  const std::vector<std::string> files = {
      file_of(many),
      file_of({{{"alpha", tensor({1, 2, 3, 4}, {2, 2})}, {"beta", tensor({1, 0}, DType::boolean)}},
               {{"k", "v"}}}),
      file_of(every_dtype),
      file_of(
          {{{"", Tensor(2.5)}, {"none", zeros({0, 3})}, {"\\n ü", ones({1, 1, 2, 1, 1})}}, {{"", "\""}}})};
  test::fuzz_reader(files, "0123456789{}[]\",:-", [](const std::string& file) {
    std::vector<Tensor> tensors;
    if (std::filesystem::file_size(file) % 4 == 0) {  // some of them mapped
      const MappedSafetensors mapped(file);
      for (const auto& entry : mapped.entries()) tensors.push_back(mapped.tensor(entry.first));
      return tensors;
    }
    for (const auto& entry : read_safetensors(file).tensors) tensors.push_back(entry.second);
    return tensors;
  });
}
