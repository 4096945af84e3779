// The JSON header of a safetensors file: {name: {"dtype", "shape", "data_offsets"}, "__metadata__":
// {key: text}}.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>

#include "core/tensor.h"

namespace vitrine::detail {

/// What the format calls its dtypes.
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
  /// In the order of their data; no block of memory holds them all
  std::deque<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

/// Reads it event by event, without a tree of the JSON, so that no block of memory is larger than
/// the text (twice the text where that is a single string), and all blocks, with the tensors made
/// of them, take at most 16 times its size. Every entry lies within the data and has the bytes of
/// its shape; together they fill the data without gaps and overlaps, so that a file cannot stand
/// for more memory than it has bytes. What is broken is an error that names `path`.
SafetensorsHeader read_safetensors_header(std::string_view text, uint64_t data_bytes,
                                          const std::string& path);

}  // namespace vitrine::detail
