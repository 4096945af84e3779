// Parallel text for the programs that translate.
#pragma once

#include <fstream>
#include <string>

#include "tests/folder.h"

namespace vitrine::test {

/// Writes 20 pairs for training and 6 for validation into the folder. Returns the options by which
/// a program reads them.
inline std::string parallel_text_in(const Folder& folder) {
  const auto write = [&](const char* name, const char* line, int count) {
    std::ofstream file(folder / name);
    for (int i = 0; i < count; ++i) file << line << " " << i << "\n";
  };
  write("train.de", "ein hund läuft", 20), write("train.en", "a dog runs", 20);
  write("val.de", "ein hund läuft", 6), write("val.en", "a dog runs", 6);
  return " --context 20 --vocabulary 270 --data " + (folder / "train.de") + "," + (folder / "train.en") +
         " --validation " + (folder / "val.de") + "," + (folder / "val.en");
}

}  // namespace vitrine::test
