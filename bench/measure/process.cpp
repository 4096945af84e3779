#include "bench/measure/process.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "core/error.h"

namespace vitrine::bench {
namespace {

namespace fs = std::filesystem;

/// OpenBLAS built for OpenMP, where Debian puts it; "" if it is not installed.
std::string openblas_openmp() {
  for (const auto& entry : fs::directory_iterator("/usr/lib"))
    if (fs::exists(entry.path() / "openblas-openmp")) return (entry.path() / "openblas-openmp").string();
  return "";
}

/// The kernels that OpenBLAS is to use: of a CPU that is newer than itself it may take those of the
/// oldest.
std::string openblas_kernels() {
  const bool is_told = std::getenv("OPENBLAS_CORETYPE") != nullptr;
  return is_told || !__builtin_cpu_supports("avx512vl") ? "" : "OPENBLAS_CORETYPE=SkylakeX ";
}

/// First one whose torch has a GPU.
std::string python_with_torch() {
  for (const char* wanted : {"import torch; assert torch.cuda.is_available()", "import torch"})
    for (const char* python : {"/usr/bin/python3", "python3"})
      if (std::system(fmt::format("{} -c '{}' 2>/dev/null", python, wanted).c_str()) == 0) return python;
  return "";
}

}  // namespace

nlohmann::json run_for_json(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  check(pipe != nullptr, "bench: cannot start `{}`", command);
  std::string line, last;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) {
    if (c != '\n') {
      line += static_cast<char>(c);
    } else {
      last = std::exchange(line, "");
    }
  }
  const int status = pclose(pipe);
  check(status == 0, "bench: `{}` failed with status {}", command, status);
  return nlohmann::json::parse(last);
}

nlohmann::json run_or_tell(const std::string& what, const std::string& command) {
  try {
    return run_for_json(command);
  } catch (const std::exception& e) {
    fmt::print(stderr, "NOT MEASURED: {}: {}\n", what, e.what());
    return nullptr;
  }
}

std::string this_program() { return fs::read_symlink("/proc/self/exe").string(); }

std::string pytorch(const std::string& script) {
  static const std::string python = python_with_torch();
  static const bool said = [] {
    if (python.empty())
      fmt::print("no python3 with torch here (Debian: python3-torch): nothing to compare with\n");
    return true;
  }();
  static_cast<void>(said);
  if (python.empty()) return "";
  return fmt::format(
      "{}LD_LIBRARY_PATH={}:$LD_LIBRARY_PATH MALLOC_MMAP_THRESHOLD_=4000000000 "
      "MALLOC_TRIM_THRESHOLD_=16000000000 MALLOC_TOP_PAD_=67108864 {} {}/{}",
      openblas_kernels(), openblas_openmp(), python, VITRINE_PYTORCH_DIR, script);
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace vitrine::bench
