// JSON lines: a text file with a JSON object in each line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nn/data/dataset.h"

namespace vitrine::nn {

/// The object of a line. A field that is missing or of another type is an error that names the
/// file, the line and the field.
class JsonRecord {
 public:
  /// The object in `line`, which is line `number` of the file `path`.
  JsonRecord(const std::string& line, const std::string& path, int64_t number);
  bool has(std::string_view field) const;
  std::string text(std::string_view field) const;
  int64_t whole(std::string_view field) const;  ///< a whole number that an int64 holds
  double number(std::string_view field) const;
  bool truth(std::string_view field) const;
  std::vector<std::string> texts(std::string_view field) const;
  std::vector<int64_t> wholes(std::string_view field) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// The records of a file, plain or gzip. Lines are found and checked as in read_lines, and a line
/// is parsed when its item is asked for. A line that is not a JSON object is an error.
Dataset<JsonRecord> read_json_lines(const std::string& path);

}  // namespace vitrine::nn
