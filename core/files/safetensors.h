// Reading and writing safetensors: 8 bytes of little-endian header length N, N bytes of JSON
// {name: {"dtype", "shape", "data_offsets"}}, then the data.
#pragma once

#include <map>
#include <string>

#include "core/tensor.h"

namespace vitrine {

/// The contents of such a file: tensors by name, and text by key.
struct Safetensors {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;  ///< the header's __metadata__
};

/// Reads the file. A broken file, or a file that is truncated while it is read, is an error that
/// says what is wrong. The memory allocated in addition to the data, and to copies of tensors that
/// are not aligned, is at most 16 times the size of the header.
Safetensors read_safetensors(const std::string& path);

/// Writes to a temporary file next to `path`, syncs it and renames it: even after a crash, `path`
/// is either the old file or the new one.
void write_safetensors(const std::string& path, const Safetensors& content);

}  // namespace vitrine
