// The text that programs read by default.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "nn/text/read_text.h"

namespace vitrine::examples {

/// Vitrine's own source and documentation, in a fixed order.
inline std::string own_source() {
  std::vector<std::filesystem::path> files;
  for (const char* folder : {"core", "ops", "nn", "optim", "cuda", "examples", "docs"}) {
    const auto root = std::filesystem::path(VITRINE_SOURCE_DIR) / folder;
    if (!std::filesystem::exists(root)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
      for (const char* extension : {".h", ".cpp", ".cu", ".md"})
        if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const auto& file : files) text += nn::read_text(file.string());
  check(!text.empty(), "the default text, Vitrine's own source in {}, is not there; give a text with --data",
        VITRINE_SOURCE_DIR);
  return text;
}

}  // namespace vitrine::examples
