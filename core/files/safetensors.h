// Reading and writing safetensors: 8 bytes of little-endian header length N, N bytes of JSON
// {name: {"dtype", "shape", "data_offsets"}}, then the data.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

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

/// A file whose tensors stay in the file, which is mapped into memory (see InputFile::mapped).
class MappedSafetensors {
 public:
  /// A broken file is an error, as in read_safetensors.
  explicit MappedSafetensors(const std::string& path);
  struct Entry {
    DType dtype;
    Shape shape;
    size_t offset;  ///< in the file, in bytes
  };
  const std::map<std::string, Entry>& entries() const { return entries_; }  ///< by name
  /// A tensor of entries(). It shares the mapped memory, unless the file has not aligned it: then
  /// it is a copy.
  Tensor tensor(const std::string& name) const;
  /// Gives the memory of a tensor back to the system, except pages that it shares with other
  /// tensors. The next reading is from the file again.
  void release(const std::string& name) const;

 private:
  const Entry& entry(const std::string& name) const;

  std::string path_;
  std::shared_ptr<Storage> memory_;
  std::map<std::string, Entry> entries_;
};

/// Writes to a temporary file next to `path`, syncs it and renames it: even after a crash, `path`
/// is either the old file or the new one.
void write_safetensors(const std::string& path, const Safetensors& content);

/// A tensor that is made when it is written, and released afterwards.
struct LateTensor {
  DType dtype = DType::float32;
  Shape shape = {};
  std::function<Tensor()> make = {};  ///< of this dtype and shape, on any device
};
/// The same file, without all of its tensors in memory at a time.
void stream_safetensors(const std::string& path, const std::map<std::string, LateTensor>& tensors,
                        const std::map<std::string, std::string>& metadata = {});

}  // namespace vitrine
