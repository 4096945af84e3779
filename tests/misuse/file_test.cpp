// Misuse of files: different kinds of broken files have different errors, and after a failed write
// the old file is complete.
#include <sys/stat.h>

#include <cstring>
#include <map>

#include "core/creation.h"
#include "core/files/npy.h"
#include "core/files/safetensors.h"
#include "core/profiler.h"
#include "nn/report/report.h"
#include "tests/folder.h"
#include "tests/misuse/misuse.h"

using namespace vitrine;
using namespace vitrine::test;
using namespace std::string_literals;

namespace {

std::string safetensors(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\0');
}

std::string npy(const std::string& header, size_t data_bytes) {
  return "\x93NUMPY\x01\0"s + static_cast<char>(header.size()) + '\0' + header +
         std::string(data_bytes, '\0');
}

/// A folder with a good file of either kind.
struct Files : Scene {
  Folder folder;
  Tensor x = tensor({1, 2, 3}), large = zeros({3000});
  std::string good = folder / "good.safetensors", array = folder / "good.npy", other = folder / "other";

  Files() {
    write_safetensors(good, {{{"x", x}}, {{"step", "7"}}});
    write_npy(array, x);
  }
  std::string state() const override {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path))
      files[entry.path().filename()] = entry.is_regular_file() ? bytes_of_file(entry.path()) : "no file";
    std::string text = show(x);
    for (const auto& [name, bytes] : files) text += fmt::format("{}: {:?}\n", name, bytes);
    return text;
  }
  std::string outcome(const Tensor& y) override { return show(y) + state(); }
  Tensor saved() const {
    const Safetensors file = read_safetensors(good);
    return file.tensors.at("x");
  }
};

std::vector<Misuse> reading(Files& s) {
  const auto right = [&] { return s.saved(); };
  const auto read = [&] { read_safetensors(s.other); };
  const auto holding = [&](const std::string& bytes) { return [&s, bytes] { write_bytes(s.other, bytes); }; };
  return {
      {"a file that is not there", read, {"read_safetensors: cannot open", "other", "No such file"}, right},
      {"a folder in place of a file",
       read,
       {"read_safetensors", "other is not a file"},
       right,
       [&] { std::filesystem::create_directory(s.other); }},
      {"an empty file", read, {"other is broken: it has 0 bytes"}, right, holding("")},
      {"a file without its last bytes",
       read,
       {"read_safetensors", "x of", "other lies at [0, 12), the data has 11 bytes"},
       right,
       [&] {
         const std::string bytes = bytes_of_file(s.good);
         write_bytes(s.other, bytes.substr(0, bytes.size() - 1));
       }},
      {"a file cut within its header",
       read,
       {"other is broken: a header of", "in a file of 20"},
       right,
       [&] { write_bytes(s.other, bytes_of_file(s.good).substr(0, 20)); }},
      {"a header that is not JSON",
       read,
       {"the header of", "other is not JSON"},
       right,
       holding(safetensors("{\"x\":", 0))},
      {"a dtype that is not known",
       read,
       {"read_safetensors: x of", "other has a dtype that Vitrine does not know"},
       right,
       holding(safetensors(R"({"x":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", 8))},
      {"a shape that the data does not fill",
       read,
       {"x of", "other has the shape [3] but 8 bytes"},
       right,
       holding(safetensors(R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8))},
      {"a negative size in a file",
       read,
       {"wanted a whole number"},
       right,
       holding(safetensors(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8))},
      {"two tensors of the same bytes",
       read,
       {"read_safetensors: y of", "other begins at byte 0 of the data, wanted 8"},
       right,
       holding(safetensors(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                           R"("y":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                           8))},
      {"bytes that belong to no tensor",
       read,
       {"other is broken: its tensors end at byte 8 of 12 bytes of data"},
       right,
       holding(safetensors(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 12))},
  };
}

std::vector<Misuse> reading_npy(Files& s) {
  const auto right = [&] { return read_npy(s.array); };
  const auto read = [&] { read_npy(s.other); };
  const auto holding = [&](const std::string& bytes) { return [&s, bytes] { write_bytes(s.other, bytes); }; };
  return {
      {"an array that is not there", read, {"read_npy: cannot open", "other", "No such file"}, right},
      {"a folder in place of an array",
       read,
       {"read_npy", "other is not a file"},
       right,
       [&] { std::filesystem::create_directory(s.other); }},
      {"safetensors in place of an array",
       [&] { read_npy(s.good); },
       {"read_npy", "is no .npy: it does not begin with 93 \"NUMPY\""},
       right},
      {"an array in place of safetensors",
       [&] { read_safetensors(s.array); },
       {"read_safetensors", "is broken"},
       right},
      {"an array without its last bytes",
       read,
       {"other is broken: 3 elements of float32 for the shape [3], in 11 bytes"},
       right,
       [&] {
         const std::string bytes = bytes_of_file(s.array);
         write_bytes(s.other, bytes.substr(0, bytes.size() - 1));
       }},
      {"an array of Python objects",
       read,
       {"other holds Python objects, wanted numbers"},
       right,
       holding(npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }\n", 16))},
      {"an array of strings",
       read,
       {"elements of type \"<U3\", wanted f2, f4"},
       right,
       holding(npy("{'descr': '<U3', 'fortran_order': False, 'shape': (2,), }\n", 24))},
      {"an array without a shape",
       read,
       {"read_npy", "other is broken", "header wants"},
       right,
       holding(npy("{'descr': '<f4', 'fortran_order': False, }\n", 8))},
  };
}

std::vector<Misuse> writing(Files& s) {
  const auto right = [&] {
    write_safetensors(s.good, {{{"x", s.large}}, {}});
    return s.saved();
  };
  const auto write = [](const std::string& path, const Tensor& x) {
    return [=] { write_safetensors(path, {{{"x", x}}, {}}); };
  };
  const std::string nowhere = s.folder / "none/x";
  return {
      {"a disk that is full",
       [=, &s] { in_poor_child(write(s.good, s.large), 4096); },
       {"write_safetensors: cannot write", "good.safetensors", "File too large"},
       right},
      {"a disk that is full, for an array",
       [&] { in_poor_child([&] { write_npy(s.array, s.large); }, 4096); },
       {"write_npy: cannot write", "good.npy", "File too large"},
       right},
      {"a folder that is read-only",
       [=, &s] { in_poor_child(write(s.good, s.large)); },
       {"write_safetensors: cannot create", "good.safetensors", "Permission denied"},
       right,
       [&] {
         using std::filesystem::perms;
         std::filesystem::permissions(s.folder.path, perms::owner_read | perms::owner_exec);
       }},
      {"a folder that is not there",
       write(nowhere, s.x),
       {"write_safetensors: cannot create", "none/x", "No such file"},
       right},
      {"an array for a folder that is not there",
       [=, &s] { write_npy(nowhere, s.x); },
       {"write_npy: cannot create", "none/x", "No such file"},
       right},
      {"a folder in place of the file",
       write(s.folder.path.string(), s.x),
       {"write_safetensors", "is not a file"},
       right},
      {"a pipe in place of the file",
       write(s.other, s.x),
       {"write_safetensors", "other is not a file"},
       right,
       [&] { REQUIRE(mkfifo(s.other.c_str(), 0600) == 0); }},
      {"an undefined tensor for a file",
       write(s.good, Tensor()),
       {"write_safetensors: x is an undefined tensor"},
       right},
      {"a dtype that the format does not know",
       write(s.good, zeros({2}, DType::dual64)),
       {"write_safetensors: x is dual64[2]", "does not know"},
       right},
      {"a tensor by the name of the metadata",
       [&] {
         write_safetensors(s.good, {{{"__metadata__", s.x}}, {}});
       },
       {"write_safetensors: __metadata__ is float32[3]", "another name"},
       right},
      {"a name that is not UTF-8",
       [&] {
         write_safetensors(s.good, {{{"\xff", s.x}}, {}});
       },
       {"write_safetensors", "not UTF-8"},
       right},
      {"a report for a folder that is not there",
       [=] { nn::report::write_report(nowhere, "title", {{}}); },
       {"write_report", "none/x", "No such file"},
       right},
      {"a report of no runs",
       [&] { nn::report::write_report(s.other, "title", {}); },
       {"there are no runs"},
       right},
  };
}

}  // namespace

TEST_CASE("broken safetensors") { check_all<Files>(reading); }
TEST_CASE("broken arrays") { check_all<Files>(reading_npy); }
TEST_CASE("what cannot be written leaves the old file whole") { check_all<Files>(writing); }
