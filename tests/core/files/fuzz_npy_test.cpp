#include <doctest/doctest.h>

#include "core/creation.h"
#include "core/files/npy.h"
#include "tests/core/files/fuzz.h"

using namespace vitrine;

namespace {

void fuzz(const std::vector<std::string>& files) {
  test::fuzz_reader(files, "0123456789{}(),:'<>|=fibVTFL ",
                    [](const std::string& path) { return std::vector<Tensor>{read_npy(path)}; });
}

/// Removes half of the padding, so that more edits hit characters with a meaning.
std::string file_of(const Tensor& x) {
  std::string bytes = test::bytes_written([&](const std::string& path) { write_npy(path, x); });
  bytes.erase(72, 52);
  bytes[8] = static_cast<char>(bytes[8] - 52);
  return bytes;
}

}  // namespace

TEST_CASE("10,000 mutated npy files are read or refused, and no block of memory is larger than the file") {
  std::vector<std::string> files;
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16, DType::int64,
                            DType::int32, DType::uint8, DType::boolean})
    files.push_back(file_of(tensor({0, 1, 1, 0, 1, 0}, {2, 3}, dtype)));
  fuzz(files);
}

TEST_CASE(
    "so are 10,000 mutated ones of versions 2.0 and 3.0, in Fortran order, most significant byte first") {
  using namespace std::string_literals;
  std::vector<std::string> files;
  for (const char version : {'\2', '\3'})
    for (const char* descr : {">f8", ">f2", ">i4", ">i8"}) {
      const std::string header =
          fmt::format("{{'descr': '{}', 'fortran_order': True, 'shape': (2, 3), }}  \n", descr);
      files.push_back("\x93NUMPY"s + version + '\0' + static_cast<char>(header.size()) + "\0\0\0"s + header +
                      std::string(static_cast<size_t>(6 * (descr[2] - '0')), '\0'));
    }
  fuzz(files);
}
