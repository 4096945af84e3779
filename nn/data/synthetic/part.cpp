#include "nn/data/synthetic/part.h"

#include <sstream>

#include "core/files/file.h"

namespace vitrine::nn::synthetic {

Part part_of(std::string_view content) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, a byte per step
  for (const char c : content) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  // The upper bits depend on all bytes; the lowest bit of FNV-1a does not
  return philox(hash, 0)[0] % 8 == 0 ? Part::held_out : Part::training;
}

std::string content_of(std::span<const int64_t> numbers) {
  std::string text;
  for (const int64_t number : numbers) text += std::to_string(number) + ' ';
  return text;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

std::string with_article(const std::string& words) {
  return (std::string_view("aeiou").find(words.at(0)) == std::string_view::npos ? "a " : "an ") + words;
}

std::string content_of(const Tensor& x) { return std::string(bytes_of(x)); }

}  // namespace vitrine::nn::synthetic
