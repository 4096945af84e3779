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

/// The Python of bench/pytorch/install, or another one that has torch; one whose torch has a GPU
/// comes first. "" if there is none.
std::string python_with_torch() {
  const std::string own = std::string(VITRINE_PYTORCH_DIR) + "/../../build-pytorch/bin/python";
  for (const char* required : {"import torch; assert torch.cuda.is_available()", "import torch"})
    for (const std::string& python : {own, std::string("python3")})
      if (std::system(fmt::format("{} -c '{}' 2>/dev/null", python, required).c_str()) == 0) return python;
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
  static const std::string python = [] {
    std::string found = python_with_torch();
    if (found.empty())
      fmt::print("no PyTorch to compare with: `make bench` installs it\n");
    else
      fmt::print("PyTorch {}\n",
                 run_for_json(found + " -c 'import json, torch; print(json.dumps(torch.__version__))'")
                     .get<std::string>());
    return found;
  }();
  if (python.empty()) return "";
  return fmt::format(
      "MALLOC_MMAP_THRESHOLD_=4000000000 MALLOC_TRIM_THRESHOLD_=16000000000 MALLOC_TOP_PAD_=67108864 {} {}/{}",
      python, VITRINE_PYTORCH_DIR, script);
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace vitrine::bench
