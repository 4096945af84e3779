// The version of the library.
#pragma once

namespace vitrine {

/// "0.1.0": major, minor and patch, as in CMakeLists.txt.
const char* version();

}  // namespace vitrine
