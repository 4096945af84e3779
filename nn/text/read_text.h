// Text files.
#pragma once

#include <string>

namespace vitrine::nn {

/// The content of a file or pipe. An empty one is an error.
std::string read_text(const std::string& path);

}  // namespace vitrine::nn
