#include "core/files/safetensors.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/creation.h"
#include "tests/folder.h"
#include "tests/memory_use.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using test::Folder, test::write_bytes;

namespace {

Safetensors sample() {
  Safetensors s;
  for (DType t : {DType::float32, DType::float64, DType::bfloat16, DType::float16, DType::int64, DType::int32,
                  DType::uint8, DType::boolean})
    s.tensors[std::string(name(t))] = tensor({0, 1, 1, 0, 1, 0}, {2, 3}, t);
  s.tensors["empty"] = zeros({0, 4});
  s.tensors["scalar"] = Tensor(2.5);
  s.tensors["view"] = arange(0, 6).alias({2}, {3}, 1);
  s.metadata["made by"] = "a test";
  return s;
}

std::string safetensors_file(const std::string& header, size_t data_bytes = 0) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\0');
}

std::string safetensors_error(const std::string& path) {
  return test::error_of([&] { read_safetensors(path); });
}

}  // namespace

TEST_CASE("what a link leads to is written, and the link stays") {
  const Folder folder;
  namespace fs = std::filesystem;
  write_safetensors(folder / "file", sample());
  fs::create_symlink("file", folder / "link");
  write_safetensors(folder / "link", {{{"x", tensor({7})}}, {}});
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(read_safetensors(folder / "file").tensors.at("x").values() == std::vector<double>{7});
  fs::create_symlink("link", folder / "far");
  fs::remove(folder / "file");  // it leads, by another one, to nothing yet
  write_safetensors(folder / "far", {{{"x", tensor({8})}}, {}});
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(read_safetensors(folder / "file").tensors.at("x").values() == std::vector<double>{8});
  fs::create_symlink("round", folder / "round");
  CHECK_THROWS_WITH_AS(write_safetensors(folder / "round", sample()),
                       doctest::Contains("round is a link that leads to itself"), Error);
}

TEST_CASE("safetensors of every dtype round trip") {
  const Folder folder;
  const Safetensors want = sample();
  write_safetensors(folder / "a", want);
  const Safetensors got = read_safetensors(folder / "a");
  CHECK(got.metadata == want.metadata);
  REQUIRE(got.tensors.size() == want.tensors.size());
  for (const auto& [name, x] : want.tensors) {
    CHECK(got.tensors.at(name).dtype() == x.dtype());
    CHECK(got.tensors.at(name).shape() == x.shape());
    CHECK(got.tensors.at(name).values() == x.values());
  }
}

TEST_CASE("writing to a tensor that was read leaves the file alone") {
  const Folder folder;
  write_safetensors(folder / "a", {{{"x", tensor({1, 2})}}, {}});
  read_safetensors(folder / "a").tensors.at("x").data<float>()[0] = 7;
  CHECK(read_safetensors(folder / "a").tensors.at("x").values() == std::vector<double>{1, 2});
}

TEST_CASE("a mapped file has the same tensors, keeps what it has, and gives its memory back") {
  const Folder folder;
  const std::string path = folder / "x";
  Safetensors content = sample();
  content.tensors["large"] = ones({1 << 20});
  write_safetensors(path, content);
  const std::string before = test::bytes_of_file(path);
  const auto resident = [] {  // kB of files that this process has in memory
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
      if (word == "RssFile:") return status >> word, std::stol(word);
    return -1L;
  };
  const MappedSafetensors file(path);
  CHECK(file.entries().size() == content.tensors.size());
  for (const auto& [name, tensor] : content.tensors) {
    const Tensor mapped = file.tensor(name);
    CHECK(mapped.dtype() == tensor.dtype());
    CHECK(mapped.shape() == tensor.shape());
    CHECK(mapped.values() == tensor.values());
    CHECK(file.entries().at(name).dtype == tensor.dtype());
    CHECK(file.entries().at(name).shape == tensor.shape());
  }
  const long touched = resident();
  file.release("large");
  CHECK(touched - resident() >= 4000);
  file.tensor("float32").data<float>()[0] = 7;
  CHECK(test::bytes_of_file(path) == before);
  CHECK(file.tensor("large").values() == content.tensors.at("large").values());
  CHECK_THROWS_WITH_AS(file.tensor("none"), doctest::Contains("has no tensor called none"), Error);

  // A header that does not align its data
  write_bytes(path, safetensors_file(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} )", 4));
  CHECK(MappedSafetensors(path).tensor("x").item() == 0);
}

TEST_CASE("a tensor that is made late must be what was announced, and an error leaves the old file") {
  const Folder folder;
  const std::string path = folder / "x";
  write_safetensors(path, sample());
  const std::string before = test::bytes_of_file(path);
  const std::map<std::string, LateTensor> wrong = {
      {"x", {.dtype = DType::float32, .shape = {2}, .make = [] { return zeros({3}); }}}};
  CHECK_THROWS_WITH_AS(stream_safetensors(path, wrong),
                       "write_safetensors: x is float32[3] on cpu, and float32[2] was announced", Error);
  CHECK(test::bytes_of_file(path) == before);
}

TEST_CASE("broken safetensors give an error that says what is wrong") {
  const Folder folder;
  const std::pair<std::string, const char*> cases[] = {
      {"abc", "3 bytes"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8), "a header of"},
      {safetensors_file("{"), "not JSON"},
      {safetensors_file("[1]"), "no JSON object"},
      {safetensors_file(R"({"x":{"a":{"b":{"c":{"d":{"e":1}}}}}})"), "nested deeper"},
      {safetensors_file(R"({"x":{"dtype":"F32","shape":[2]}})"), "wants dtype, shape and data_offsets"},
      {safetensors_file(R"({"x":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", 8), "does not know"},
      {safetensors_file(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "whole number"},
      {safetensors_file(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,16]}})", 8),
       "the data has 8 bytes"},
      {safetensors_file(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "lies at [8, 0)"},
      {safetensors_file(R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), "but 8 bytes"},
      {safetensors_file(
           R"({"x":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8]}})", 8),
       "more elements"},
      {safetensors_file(R"({"__metadata__":{"a":1}})"), "no string"},
      {safetensors_file(R"({"__metadata__":{"a":{}}})"), "no string"},
      {safetensors_file(R"({"__metadata__":[]})"), "__metadata__ of"},
      {safetensors_file(R"({"x":3})"), "the entry x of"},
      {safetensors_file(R"({"x":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", 8), "does not know"},
      {safetensors_file(R"({"x":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", 8), "wants a shape"},
      {safetensors_file(R"({"x":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", 8), "a size of x of"},
      {safetensors_file(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4,8]}})", 8),
       "wants two data_offsets"},
      {safetensors_file(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8),
       "wants two data_offsets"},
      {safetensors_file(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":{"a":0}}})", 8),
       "wants two data_offsets"},
      {safetensors_file(R"({"x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
                        R"("x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})"),
       "two tensors called x"},
  };
  for (const auto& [bytes, part] : cases) {
    write_bytes(folder / "broken", bytes);
    CHECK_MESSAGE(safetensors_error(folder / "broken").find(part) != std::string::npos,
                  safetensors_error(folder / "broken"));
  }
  CHECK(safetensors_error(folder / "missing").find("No such file") != std::string::npos);
  CHECK(safetensors_error(folder.path.string()).find("is not a file") != std::string::npos);
}

TEST_CASE(
    "fields that the format does not have are passed over, and a long header costs a few times its length") {
  const Folder folder;
  write_bytes(folder / "more",
              safetensors_file(R"({"x":{"note":{"a":[1,"b"]},"dtype":"F32","more":[[1]],"shape":[2],)"
                               R"("data_offsets":[0,8],"n":null}})",
                               8));
  CHECK(read_safetensors(folder / "more").tensors.at("x").shape() == Shape{2});
  std::string lists = "{";
  for (int i = 0; i < 20000; ++i)
    lists += fmt::format(R"("{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}},)", i);
  lists.back() = '}';
  for (const std::string& header : {lists, R"({"x":{"note":[)" + std::string(1 << 20, '1') + "]}}",
                                    "{\"" + std::string(1 << 20, 'k') + "\":0}", R"({"x":{"note":[)" + [] {
                                      std::string zeros;
                                      for (int i = 0; i < 1 << 19; ++i) zeros += "0,";
                                      return zeros;
                                    }() + "0]}}"}) {
    write_bytes(folder / "long", safetensors_file(header));
    const auto use = test::memory_use([&] {
      const std::string error = safetensors_error(folder / "long");
      CHECK(error.empty() == (header == lists));
      CHECK(error.size() < 1000);
    });
    CHECK(use.peak <= 16 * header.size());
    CHECK(use.largest <= 2 * header.size() + 1024);  // a string grows by doubling
  }
}

TEST_CASE("a disk that is full leaves the old file whole and no temporary one") {
  const Folder folder;
  write_safetensors(folder / "a", {{{"x", tensor({1, 2})}}, {}});
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_safetensors(folder / "a", {{{"x", tensor(std::vector<double>(4000), {4000})}}, {}});
    } catch (const Error& e) {
      _exit(std::strstr(e.what(), "cannot write") ? 0 : 2);
    }
    _exit(1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(read_safetensors(folder / "a").tensors.at("x").values() == std::vector<double>{1, 2});
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
}
