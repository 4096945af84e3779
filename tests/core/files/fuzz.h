// Mutated files for the readers of file formats.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.h"
#include "core/tensor.h"

namespace vitrine::test {

/// The bytes after one to four edits: bits, bytes, cuts, repeats, digits, and characters of
/// `alphabet`, which have a meaning in the format.
std::string mutated(std::string bytes, std::string_view alphabet, Generator& random);

/// Mutates the files `whole` in turn and reads each mutated file. Each read returns
/// tensors no larger than the file, or throws an Error, within a second, and allocates no block of
/// memory larger than the file. Some mutations of each file must be readable and some must be
/// refused. VITRINE_FUZZ_ROUNDS is the number of mutations (10,000), VITRINE_FUZZ_SEED the seed
/// (1).
void fuzz_reader(const std::vector<std::string>& whole, std::string_view alphabet,
                 const std::function<std::vector<Tensor>(const std::string& path)>& read);

/// The bytes of the file that the function `write` writes.
std::string bytes_written(const std::function<void(const std::string& path)>& write);

}  // namespace vitrine::test
