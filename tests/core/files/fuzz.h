// Mutated files for the readers of file formats.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace vitrine::test {

/// Mutates the files `whole` in turn (bits, bytes, cuts, repeats, digits, and characters of
/// `alphabet`, to which the format gives a meaning) and reads each mutated file. Each gives tensors
/// no larger than the file, or an Error, within a second, and takes no block of memory larger than
/// the file. Of each file some mutations must be read and some refused. VITRINE_FUZZ_ROUNDS is the
/// number of mutations (10,000), VITRINE_FUZZ_SEED the seed (1).
void fuzz_reader(const std::vector<std::string>& whole, std::string_view alphabet,
                 const std::function<std::vector<Tensor>(const std::string& path)>& read);

/// The bytes of the file that `write` writes.
std::string bytes_written(const std::function<void(const std::string& path)>& write);

}  // namespace vitrine::test
