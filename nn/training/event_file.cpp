#include "nn/training/event_file.h"

#include <array>
#include <bit>
#include <filesystem>

namespace vitrine::nn::training {
namespace {

/// The checks of all bytes. In the reversed order of bits the polynomial is 0x82F63B78.
constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    table[byte] = byte;
    for (int bit = 0; bit < 8; ++bit)
      table[byte] = (table[byte] >> 1) ^ ((table[byte] & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return table;
}();

/// TFRecord masks checks, because a check of data that contain their own check is weak.
uint32_t masked(uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8U; }

template <class Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(Number); ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

/// A whole number in groups of 7 bits, the lowest first; the top bit says that more follow.
std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes + static_cast<char>(number);
}

// A field begins with its number and how it is written: 0 a varint, 1 eight bytes, 2 a length and
// bytes, 5 four bytes.
std::string key(uint64_t field, uint64_t wire) { return varint(field << 3 | wire); }
std::string field(uint64_t number, std::string_view bytes) {
  return key(number, 2) + varint(bytes.size()) + std::string(bytes);
}

std::string time_field(double time) { return key(1, 1) + little_endian(std::bit_cast<uint64_t>(time)); }

std::string path_in(const std::string& folder, int64_t first_step) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  check(!failed, "tensorboard: cannot make the folder {}: {}", folder, failed.message());
  return fmt::format("{}/events.out.tfevents.{:010}.vitrine", folder, first_step);
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

EventFile::EventFile(const std::string& folder, int64_t first_step)
    : file_("tensorboard", path_in(folder, first_step), false) {
  append(field(3, "brain.Event:2"));  // the version, which readers expect first
}

void EventFile::add(int64_t step, double time, const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;
  for (const auto& [name, value] : values)
    summary += field(
        1, field(1, name) + key(2, 5) + little_endian(std::bit_cast<uint32_t>(static_cast<float>(value))));
  append(time_field(time) + key(2, 0) + varint(static_cast<uint64_t>(step)) + field(5, summary));
}

void EventFile::append(const std::string& event) {
  const std::string length = little_endian(static_cast<uint64_t>(event.size()));
  file_.append(length + little_endian(masked(crc32c(length))) + event + little_endian(masked(crc32c(event))));
}

}  // namespace vitrine::nn::training
