// Reads a file from its beginning to its end, unpacked if it is a gzip file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace vitrine::nn {

/// The bytes of a file in order. A file that begins with 1F 8B is a gzip file, and its unpacked
/// bytes are read. A path that cannot be opened, a folder, a damaged or a truncated gzip file is an
/// error, which `op` begins. Memory grows with the bytes that have arrived, never with a size that
/// a header claims.
class ByteReader {
 public:
  ByteReader(std::string_view op, const std::string& path);
  ~ByteReader();
  ByteReader(ByteReader&&) noexcept;

  /// Fills `into`, and returns how many bytes it got: fewer only at the end of the file.
  size_t read(std::span<char> into);
  /// The next `bytes` bytes; a file that ends before is an error that names `what`.
  std::string take(uint64_t bytes, std::string_view what);
  uint64_t position() const;  ///< the number of bytes read so far
  /// The number of bytes; nothing for a gzip file, where only reading shows it.
  std::optional<uint64_t> size() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vitrine::nn
