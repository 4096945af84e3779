#include "core/files/npy.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "core/creation.h"
#include "tests/core/files/fuzz.h"
#include "tests/folder.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using test::Folder, test::write_bytes;
using namespace std::string_literals;

namespace {

constexpr DType kTypes[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                            DType::int64,   DType::int32,   DType::uint8,    DType::boolean};

/// A file built by hand from the specification of the format.
std::string npy_file(const std::string& header, const std::string& data = "", char major = 1) {
  std::string bytes = "\x93NUMPY"s + major + '\0' + static_cast<char>(header.size() % 256) +
                      static_cast<char>(header.size() / 256);
  if (major > 1) bytes += "\0\0"s;
  return bytes + header + data;
}

std::string dictionary(const std::string& descr, const std::string& shape, const char* fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

std::string npy_error(const std::string& path) {
  return test::error_of([&] { read_npy(path); });
}

/// A Python interpreter that has NumPy, or "".
std::string python() {
  for (const char* name : {"python3", "/usr/bin/python3"})
    if (std::system(fmt::format("{} -c 'import numpy' >/dev/null 2>&1", name).c_str()) == 0) return name;
  return "";
}

/// Writes in.NAME.npy in all the ways that NumPy supports, or checks the files out.NAME.npy that
/// were written from them.
constexpr const char* kScript = R"(
import sys, numpy as np
folder, mode = sys.argv[1:]
def write(name, x, version):
    with open(f'{folder}/in.{name}.npy', 'wb') as f:
        np.lib.format.write_array(f, x, version=version)
for t in ['float32', 'float64', 'float16', 'int64', 'int32', 'uint8', 'bool']:
    for shape in [(), (3,), (0, 4), (2, 3, 4)]:
        x = (np.arange(np.prod(shape, dtype=int)) % 3 - 1).reshape(shape).astype(t)
        for order, y in [('c', x), ('f', np.asarray(x, order='F')), ('big', x.astype(x.dtype.newbyteorder('>')))]:
            for version in [(1, 0), (2, 0), (3, 0)]:
                name = f'{t}.{"x".join(map(str, shape))}.{order}.{version[0]}'
                if mode == 'write':
                    write(name, y, version)
                else:
                    z = np.load(f'{folder}/out.{name}.npy')
                    assert z.dtype == x.dtype and z.shape == x.shape and np.array_equal(z, x), name
                    assert z.flags.aligned, name
)";

}  // namespace

TEST_CASE("npy of every dtype and rank round trip, with the elements at a multiple of 64 bytes") {
  const Folder folder;
  for (DType dtype : kTypes)
    for (const Tensor& x : {tensor({0, 1, 1, 0, 1, 0}, {2, 3}, dtype), tensor({1, 0, 1}, dtype),
                            Tensor(1, dtype), zeros({0, 4}, dtype), zeros({1, 1, 1, 1, 1, 1, 1, 1}, dtype)}) {
      write_npy(folder / "a", x);
      const Tensor y = read_npy(folder / "a");
      CHECK(y.dtype() == dtype);
      CHECK(y.shape() == x.shape());
      CHECK(y.values() == x.values());
      CHECK((std::filesystem::file_size(folder / "a") - static_cast<size_t>(x.numel() * x.element_size())) %
                64 ==
            0);
    }
  write_npy(folder / "a", arange(0, 6).alias({2}, {3}, 1));
  CHECK(read_npy(folder / "a").values() == std::vector<double>{1, 4});
}

TEST_CASE("what is written is, byte for byte, what the format's specification asks for") {
  const Folder folder;
  const auto written = [&](const Tensor& x) {
    write_npy(folder / "a", x);
    return test::bytes_of_file(folder / "a");
  };
  const auto padded = [](std::string header) {
    return header + std::string(117 - header.size(), ' ') + "\n";
  };
  CHECK(written(tensor({1, -2}, DType::int32)) ==
        npy_file(padded("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }"),
                 "\1\0\0\0\xfe\xff\xff\xff"s));
  CHECK(written(tensor({1, 0}, {2, 1}, DType::boolean)) ==
        npy_file(padded("{'descr': '|b1', 'fortran_order': False, 'shape': (2, 1), }"), "\1\0"s));
  CHECK(written(Tensor(1, DType::bfloat16)) ==
        npy_file(padded("{'descr': '<V2', 'fortran_order': False, 'shape': (), }"), "\x80\x3f"s));
}

TEST_CASE("every version, byte order, axis order and spelling of the header is read") {
  const Folder folder;
  const auto values = [&](const std::string& bytes) {
    write_bytes(folder / "a", bytes);
    return read_npy(folder / "a").values();
  };
  const std::string little = "\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0"s, big = "\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4"s;
  const std::vector<double> rows = {1, 2, 3, 4}, columns = {1, 3, 2, 4};
  for (char major : {1, 2, 3}) CHECK(values(npy_file(dictionary("<i4", "(2, 2)"), little, major)) == rows);
  CHECK(values(npy_file(dictionary(">i4", "(2, 2)"), big)) == rows);
  CHECK(values(npy_file(dictionary("<i4", "(2, 2)", "True"), little)) == columns);
  CHECK(values(npy_file(dictionary(">i4", "(2, 2)", "True"), big)) == columns);
  CHECK(values(npy_file(dictionary("<i4", "(4L,)"), little)) == rows);
  CHECK(values(npy_file(R"({"shape":(4,),"fortran_order":False,"descr":"=i4"})", little)) == rows);
  CHECK(values(npy_file(dictionary("|V2", "(1,)"), "\x80\x3f"s)) == std::vector<double>{1});
  const std::string long_header = dictionary("<i4", "(4,)") + std::string(70000, ' ');
  std::string bytes = npy_file(long_header, little, 2);
  bytes[10] = static_cast<char>(long_header.size() >> 16);
  CHECK(values(bytes.replace(
            8, 2, {static_cast<char>(long_header.size()), static_cast<char>(long_header.size() >> 8)})) ==
        rows);
}

TEST_CASE("writing to a tensor that was read leaves the file alone") {
  const Folder folder;
  write_npy(folder / "a", tensor({1, 2}));
  Tensor x = read_npy(folder / "a");
  x.data<float>()[0] = 7;
  CHECK(read_npy(folder / "a").values() == std::vector<double>{1, 2});
}

TEST_CASE("broken npy files give an error that says what is wrong") {
  const Folder folder;
  const std::string eight = std::string(8, '\0');
  const std::pair<std::string, const char*> cases[] = {
      {"", "does not begin with"},
      {"\x93NUMPZ\1\0"s, "does not begin with"},
      {"\x93NUMPY\1\0\1"s, "ends within the length"},
      {"\x93NUMPY\2\0\1\0\0"s, "ends within the length"},
      {npy_file("{}", "", 4), "version 4.0"},
      {"\x93NUMPY\3\0\xff\xff\xff\xff"s, "a header of 4294967295 bytes in a file of 12"},
      {npy_file("[]"), "wants the '{'"},
      {npy_file("{"), "wants a string"},
      {npy_file("{'descr"), "the end of a string"},
      {npy_file("{'descr' '<f4'}"), "':' after a key"},
      {npy_file("{'descr': '<f4'}"), "all three"},
      {npy_file("{'descr': '<f4', 'descr': '<f4'}"), "each once"},
      {npy_file("{'other': 1}"), "as keys"},
      {npy_file("{'fortran_order': true}"), "True or False"},
      {npy_file(dictionary("<f4", "(2"), eight), "whole number"},
      {npy_file(dictionary("<f4", "(-2,)"), eight), "whole number"},
      {npy_file(dictionary("<f4", "(2.0,)"), eight), "',' or ')'"},
      {npy_file(dictionary("<f4", "(9223372036854775808,)"), eight), "below 2^63"},
      {npy_file(dictionary("<f4", "(1,1,1,1,1,1,1,1,1)"), eight), "at most 8 sizes"},
      {npy_file(dictionary("<f4", "(4294967296, 4294967296)"), eight), "more elements"},
      {npy_file(dictionary("<f4", "(0, 4294967296, 4294967296)")), "more elements"},
      {npy_file(dictionary("<f4", "(4611686018427387904,)"), eight), "4611686018427387904 elements"},
      {npy_file(dictionary("<f4", "(3,)"), eight), "3 elements of float32 for the shape [3], in 8 bytes"},
      {npy_file(dictionary("<f4", "(1,)"), eight), "1 elements of float32"},
      {npy_file(dictionary("<f4", "(2,)") + "1", eight), "nothing after"},
      {npy_file(dictionary("", "(2,)"), eight), "elements of type \"\""},
      {npy_file(dictionary("<c8", "(1,)"), eight), "elements of type \"<c8\""},
      {npy_file(dictionary("|i1", "(8,)"), eight), "astype"},
      {npy_file(dictionary("|O", "(1,)"), eight), "Python objects"},
      {npy_file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", eight), "structured"},
      {npy_file(dictionary("|b1", "(2,)"), "\1\2"), "neither 0 nor 1"},
  };
  for (const auto& broken : cases) {
    write_bytes(folder / "broken", broken.first);
    const std::string error = npy_error(folder / "broken");
    CHECK_MESSAGE(error.find(broken.second) != std::string::npos,
                  fmt::format("wanted {}, got {}", broken.second, error));
  }
  CHECK(npy_error(folder / "missing").find("No such file") != std::string::npos);
  CHECK(npy_error(folder.path.string()).find("is not a file") != std::string::npos);
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(npy_error(folder / "pipe").find("is not a file") != std::string::npos);
}

TEST_CASE("a write that fails says why and leaves no file") {
  const Folder folder;
  std::filesystem::create_directories(folder / "taken");
  CHECK_THROWS_WITH_AS(write_npy(folder / "taken", tensor({1})), doctest::Contains("is not a file"), Error);
  CHECK_THROWS_WITH_AS(write_npy(folder / "no/such", tensor({1})), doctest::Contains("cannot create"), Error);
  CHECK_THROWS_WITH_AS(write_npy(folder / "a", zeros({2}, DType::dual64)), doctest::Contains("dual64"),
                       Error);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
}

TEST_CASE("NumPy's files are read, and NumPy reads what is written") {
  const std::string interpreter = python();
  if (interpreter.empty()) {
    MESSAGE("no python3 with NumPy: only the bytes that the specification asks for were checked");
    return;
  }
  const Folder folder;
  write_bytes(folder / "script.py", kScript);
  const auto run = [&](const char* mode) {
    return std::system(
        fmt::format("{} '{}' '{}' {}", interpreter, folder / "script.py", folder.path.string(), mode)
            .c_str());
  };
  REQUIRE(run("write") == 0);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with("in.")) continue;
    const Tensor x = read_npy(entry.path().string());
    const std::vector<double> values = x.values();
    for (size_t i = 0; i < values.size(); ++i) {
      const double want = static_cast<double>(i % 3) - 1;
      CHECK_MESSAGE(values[i] == (x.dtype() == DType::boolean ? want != 0 : want), name);
    }
    write_npy(folder / name.replace(0, 2, "out"), x);
    ++files;
  }
  CHECK(files == 6 * 4 * 3 * 3);
  CHECK(run("check") == 0);
}
