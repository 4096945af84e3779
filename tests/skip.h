// How a test says that it did not run.
#pragma once

#include <string_view>

namespace vitrine::test {

/// Says why something is not tested here; ctest then shows the file's test as skipped, not as
/// passed, unless another part of it fails.
void skip(std::string_view reason);

/// True once skip() was called.
bool was_skipped();

}  // namespace vitrine::test
