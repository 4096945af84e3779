// Reading and writing safetensors: 8 bytes of little-endian header length N, N bytes of JSON
// {name: {"dtype", "shape", "data_offsets"}}, then the data.
#pragma once

#include <map>
#include <string>

#include "core/tensor.h"

namespace vitrine {

/// What such a file holds: tensors by name, and words about them by key.
struct Safetensors {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;  ///< the header's __metadata__
};

/// Reads the file. A broken file is an error that says what is wrong with it, and so is one that is
/// cut while it is read. Beyond the data, and copies of tensors that are not aligned in it, at most
/// 16 times the header is allocated.
Safetensors read_safetensors(const std::string& path);

/// Writes to a temporary file beside `path`, syncs, and renames: whatever happens, `path` is the
/// old file or the new one.
void write_safetensors(const std::string& path, const Safetensors& content);

}  // namespace vitrine
