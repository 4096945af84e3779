// Event files of TensorBoard: values over steps, for its dashboard and the tools that read its
// files.
//
// A file is a sequence of records (TFRecord): the length of the data, 8 bytes; the masked CRC-32C
// of these bytes, 4; the data; their masked CRC-32C. The data are a message Event of protocol
// buffers with four fields, which are written here by hand: a library for them would be longer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/files/file.h"

namespace vitrine::nn::training {

/// The cyclic redundancy check with the polynomial of Castagnoli, 0x1EDC6F41 (RFC 3720).
uint32_t crc32c(std::string_view bytes);

/// An event file that grows during a run.
class EventFile {
 public:
  /// Creates the folder, and in it a file that is named after the first step. A file of that name
  /// is emptied.
  EventFile(const std::string& folder, int64_t first_step);
  /// Adds the values of a step by name, at a time in seconds since 1970. A failed write is an
  /// error.
  void add(int64_t step, double time, const std::vector<std::pair<std::string, double>>& values);

 private:
  void append(const std::string& event);

  AppendedFile file_;
};

}  // namespace vitrine::nn::training
