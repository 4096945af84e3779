// Mutated files for the readers of file formats.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace vitrine::test {

/// Mutates `whole` 10,000 times (bits, bytes, cuts, repeats, and characters of `alphabet`, which the format gives meaning
/// to) and reads each: every one gives tensors no larger than the file or an Error, and allocates no more than the file
/// holds. Some must be read and some refused.
void fuzz_reader(const std::string& whole, std::string_view alphabet,
                 const std::function<std::vector<Tensor>(const std::string& path)>& read);

/// The bytes of a file.
std::string bytes_of_file(const std::string& path);

}  // namespace vitrine::test
