// Text files.
#pragma once

#include <string>

namespace vitrine::nn {

/// The bytes of a file, or of a pipe; an error if there are none.
std::string read_text(const std::string& path);

}  // namespace vitrine::nn
