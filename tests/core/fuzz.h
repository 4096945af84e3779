// Mutated files for the readers of file formats.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace vitrine::test {

/// Mutates the files `whole`, each in its turn, 10,000 times (bits, bytes, cuts, repeats, digits, and characters of `alphabet`,
/// which the format gives meaning to) and reads each: every one gives tensors no larger than the file or an Error, in a second
/// at most, and asks for no block of memory larger than the file. Of each some must be read and some refused.
void fuzz_reader(const std::vector<std::string>& whole, std::string_view alphabet,
                 const std::function<std::vector<Tensor>(const std::string& path)>& read);

/// The bytes of the file that `write` writes.
std::string bytes_written(const std::function<void(const std::string& path)>& write);

}  // namespace vitrine::test
