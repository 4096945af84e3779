// Where the reference cases and data sets are.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace vitrine::test {

/// The root of the source tree.
std::filesystem::path source_directory();

/// The folder named by the environment variable VITRINE_DATA; a relative path counts from the
/// working directory or from the source tree. Nothing if the variable is not set: the test that
/// asked then counts as skipped. A VITRINE_DATA that is not a folder is an error.
std::optional<std::filesystem::path> data_directory();

/// A file or folder of data_directory(). Nothing if it is not there: the test that asked then
/// counts as skipped.
std::optional<std::filesystem::path> data_file(const std::filesystem::path& name);

/// A folder of reference cases.
struct CaseFolder {
  std::filesystem::path path;
  bool golden;  ///< part of the source tree: its contents are known
};

/// The golden cases `name`, which are in tests/data, and the folder `name` of VITRINE_DATA where
/// there is one: it need not be. A golden folder that is missing is an error.
std::vector<CaseFolder> case_folders(const std::string& name);

}  // namespace vitrine::test
