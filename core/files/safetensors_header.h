// The JSON header of a safetensors file: {name: {"dtype", "shape", "data_offsets"}, "__metadata__":
// {key: text}}.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>

#include "core/tensor.h"

namespace vitrine::detail {

/// The format's names of the dtypes.
inline constexpr std::pair<DType, const char*> kSafetensorsDTypes[] = {
    {DType::float32, "F32"}, {DType::float64, "F64"}, {DType::bfloat16, "BF16"}, {DType::float16, "F16"},
    {DType::int64, "I64"},   {DType::int32, "I32"},   {DType::uint8, "U8"},      {DType::boolean, "BOOL"}};

/// A tensor in the file: bytes [begin, end) of its data.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::float32;
  Shape shape = {};
  uint64_t begin = 0, end = 0;
};

struct SafetensorsHeader {
  /// In the order of their data; a deque, so that no single block of memory holds them all.
  std::deque<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

/// Parses the header event by event, without a JSON tree. No block of memory is larger than the
/// text (or twice the text, if that is a single string), and all blocks together, including the
/// tensors made from them, use at most 16 times its size. Each entry must lie within the data and
/// have the bytes of its shape. Together the entries must fill the data without gaps or overlaps,
/// so a file cannot claim more memory than it has bytes. A broken header is an error that names
/// `path`.
SafetensorsHeader read_safetensors_header(std::string_view text, uint64_t data_bytes,
                                          const std::string& path);

}  // namespace vitrine::detail
