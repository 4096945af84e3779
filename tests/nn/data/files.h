// Files that tests of readers write, byte by byte.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace vitrine::test {

/// A number of `count` bytes, the least significant first.
inline std::string little_endian(uint64_t value, int count = 4) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> 8 * i & 255);
  return bytes;
}

/// A gzip file of the bytes (RFC 1952), in blocks that are stored and not compressed.
inline std::string gzip(const std::string& bytes) {
  std::string file("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  size_t at = 0;
  do {
    const std::string part = bytes.substr(at, 65535);
    at += part.size();
    file += static_cast<char>(at == bytes.size());
    file += little_endian(part.size(), 2) + little_endian(~part.size(), 2) + part;
  } while (at < bytes.size());
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc % 2 == 1 ? 0xEDB88320u : 0u);
  }
  return file + little_endian(~crc) + little_endian(bytes.size());
}

/// An IDX file.
inline std::string idx(int type, const std::vector<uint32_t>& sizes, const std::string& elements) {
  std::string file = {0, 0, static_cast<char>(type), static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes)
    for (int byte = 3; byte >= 0; --byte) file += static_cast<char>(size >> 8 * byte & 255);
  return file + elements;
}

struct WavFile {
  uint32_t channels = 1, rate = 8000, bits = 16;
  uint32_t format = 1;  ///< 1: whole numbers, 3: floating point
  std::string data = {};
};

/// A WAV file: its header has 44 bytes.
inline std::string wav(const WavFile& file) {
  const uint32_t frame = file.channels * file.bits / 8;
  const std::string format = little_endian(file.format, 2) + little_endian(file.channels, 2) +
                             little_endian(file.rate) + little_endian(file.rate * frame) +
                             little_endian(frame, 2) + little_endian(file.bits, 2);
  const std::string pad(file.data.size() % 2, '\0');
  const std::string chunks = "WAVEfmt " + little_endian(format.size()) + format + "data" +
                             little_endian(file.data.size()) + file.data + pad;
  return "RIFF" + little_endian(chunks.size()) + chunks;
}

}  // namespace vitrine::test
