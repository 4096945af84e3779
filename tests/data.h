// Where the reference cases and data sets lie.
#pragma once

#include <filesystem>
#include <optional>

namespace vitrine::test {

/// The folder named by the environment variable VITRINE_DATA, else `../shared/data` beside the source tree.
/// Nothing when neither is there; the test that asked then counts as skipped. A VITRINE_DATA that is no folder is an error: a folder that was asked for must not be
/// skipped.
std::optional<std::filesystem::path> data_directory();

}  // namespace vitrine::test
