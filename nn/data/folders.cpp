#include "nn/data/folders.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace vitrine::nn {
namespace {

namespace fs = std::filesystem;

/// The names in a folder, sorted, of its folders or of its files.
std::vector<std::string> names_in(std::string_view op, const std::string& folder, bool folders) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code unknown;
    const bool wanted = folders ? entry->is_directory(unknown) : entry->is_regular_file(unknown);
    if (wanted && !name.starts_with('.')) names.push_back(name);
  }
  check(!error, "{}: cannot read the folder {}: {}", op, folder, error.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> files_in(std::string_view op, const std::string& folder, std::string_view suffix) {
  std::vector<std::string> paths;
  for (const std::string& name : names_in(op, folder, false))
    if (name.ends_with(suffix)) paths.push_back((fs::path(folder) / name).string());
  return paths;
}

}  // namespace

std::vector<std::string> sorted_files(const std::string& folder, std::string_view suffix) {
  return files_in("sorted_files", folder, suffix);
}

ClassFolders read_class_folders(const std::string& folder, std::string_view suffix) {
  constexpr std::string_view kOp = "read_class_folders";
  std::vector<LabelledFile> files;
  const std::vector<std::string> classes = names_in(kOp, folder, true);
  check(!classes.empty(), "{}: {} has no folders: wanted one for each class", kOp, folder);
  for (int64_t label = 0; label < std::ssize(classes); ++label) {
    const std::string path = (fs::path(folder) / classes[static_cast<size_t>(label)]).string();
    const auto found = files_in(kOp, path, suffix);
    check(!found.empty(), "{}: the class {} has no file that ends with \"{}\"", kOp, path, suffix);
    for (const std::string& file : found) files.push_back({file, label});
  }
  return {classes, Dataset<LabelledFile>(std::move(files))};
}

}  // namespace vitrine::nn
