// Files in folders.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nn/data/dataset.h"

namespace vitrine::nn {

/// The paths of the files in a folder whose names end with `suffix`, in the order of their bytes,
/// which is the same on every machine. Names that begin with a dot, and folders, are left out. A
/// path that is not a folder is an error.
std::vector<std::string> sorted_files(const std::string& folder, std::string_view suffix = "");

/// A file and the class of its folder.
struct LabelledFile {
  std::string path;
  int64_t label = 0;
};

/// A folder for each class.
struct ClassFolders {
  std::vector<std::string> classes;  ///< names of the folders, sorted; the index is the label
  Dataset<LabelledFile> files;       ///< class by class, sorted within a class
};

/// The classes and files of `folder`: its folders are the classes, and their files whose names end
/// with `suffix` are the items. No folders, or one without such a file, is an error.
ClassFolders read_class_folders(const std::string& folder, std::string_view suffix = "");

}  // namespace vitrine::nn
