// Where the reference cases and data sets lie.
#pragma once

#include <filesystem>
#include <optional>

namespace vitrine::test {

/// The folder named by the environment variable VITRINE_DATA, else `../shared/data` beside the source tree.
/// Nothing when neither is there; the reason is then printed once, so that a test which returns early does
/// not pass unheard. A VITRINE_DATA that is no folder is an error: a folder that was asked for must not be
/// skipped.
std::optional<std::filesystem::path> data_directory();

/// True once data_directory() has returned nothing.
bool data_is_missing();

}  // namespace vitrine::test
