// Text files, line by line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/data/byte_reader.h"
#include "nn/data/dataset.h"

namespace vitrine::nn {

/// The lines of a text file in order, plain or gzip. A line ends with a line feed, which is not
/// part of it, nor is a carriage return before it; the last line may have no line feed. A byte
/// order mark at the beginning of the file is left out. Bytes that are not UTF-8 are an error with
/// line and byte. Only one line is in memory.
class LineReader {
 public:
  LineReader(std::string_view op, const std::string& path);
  std::optional<std::string> next();      ///< nothing after the last line
  int64_t line() const { return line_; }  ///< the number of the line that next() gave, from 1
  /// The bytes [begin, end) of that line, with its line feed, in the unpacked file.
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return bytes_.position() - (end_ - at_); }

 private:
  bool fill();
  std::string op_, path_;
  ByteReader bytes_;
  std::string buffer_;
  size_t at_ = 0, end_ = 0;
  int64_t line_ = 0;
  uint64_t begin_ = 0;
};

/// The lines of a text file. Opening it reads the file once, and checks it, to find where its lines
/// begin: 8 bytes per line. The text stays in the file; a gzip file is unpacked into memory. `op`
/// begins the errors.
Dataset<std::string> read_lines(const std::string& path, std::string_view op = "read_lines");

/// A sentence and its translation, or any two texts that belong together.
struct SentencePair {
  std::string source, target;
};

/// Line n of `source` with line n of `target`. A file that ends before the other is an error with
/// the number of the line.
Dataset<SentencePair> read_parallel_text(const std::string& source, const std::string& target);

/// A text and its class.
struct LabelledText {
  std::string text;
  int64_t label = 0;
};

/// The lines of several files, one file after the other. The label of a line is the number of its
/// file. No files are an error.
Dataset<LabelledText> read_classes(const std::vector<std::string>& paths);

}  // namespace vitrine::nn
