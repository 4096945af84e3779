// Where the reference cases and data sets lie.
#pragma once

#include <filesystem>
#include <optional>

namespace vitrine::test {

/// The root of the source tree.
std::filesystem::path source_directory();

/// The folder named by the environment variable VITRINE_DATA (a relative path counts from the working directory or from the
/// source tree), else `../shared/data` beside the source tree. Nothing when the latter is not there; the test that asked then
/// counts as skipped. A VITRINE_DATA that is no folder is an error: a folder that was asked for must not be skipped.
std::optional<std::filesystem::path> data_directory();

/// True in the default directory, however it is named: its contents are known, so that what is missing there is an error.
bool is_default_data_directory();

/// A file or folder of the data directory. Another directory than the default one need not have it: then nothing, and the test
/// that asked counts as skipped.
std::optional<std::filesystem::path> data_file(const std::filesystem::path& name);

}  // namespace vitrine::test
