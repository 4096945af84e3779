// The version of the library.
#pragma once

namespace vitrine {

/// "0.1.0": major, minor and patch, as CMakeLists.txt says.
const char* version();

}  // namespace vitrine
