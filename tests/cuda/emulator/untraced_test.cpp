// The warning of a program with kernels that are compiled without VITRINE_TRACE_OPTIONS, as in this
// file.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "core/creation.h"
#include "cuda/launch.h"
#include "tests/folder.h"

using namespace vitrine;

namespace {

__global__ void ones_kernel(float* y) { y[threadIdx.x] = 1; }

}  // namespace

TEST_CASE("an untraced kernel runs") {
  for (int i = 0; i < 2; ++i) {
    Tensor y = zeros({32}, DType::float32, Device::cuda);
    VITRINE_LAUNCH(ones_kernel, 1, 32, 0, y.data<float>());
    CHECK(copy_to(y, Device::cpu).values() == std::vector<double>(32, 1));
  }
}

TEST_CASE("a program with kernels that are not traced says so once, with the option that traces them") {
  const test::Folder folder;
  const std::string log = folder / "log";
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  CHECK(std::system(
            fmt::format("'{}' '--test-case=an untraced kernel runs' > '{}' 2>&1", program, log).c_str()) ==
        0);
  const std::string said = test::bytes_of_file(log),
                    wanted = "untraced_test.cpp are compiled without VITRINE_TRACE_OPTIONS";
  const size_t at = said.find(wanted);
  CHECK_MESSAGE(at != std::string::npos, said);
  CHECK_MESSAGE(said.find("VITRINE_TRACE_OPTIONS", at + wanted.size()) == std::string::npos, said);
}
