// Text as training data: characters as tokens, batches in a seeded order that a checkpoint can resume.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nn/training/task.h"

namespace vitrine::nn::training {

/// Token ids, 4 bytes each. Copies and slices share the memory.
class Tokens {
 public:
  Tokens() = default;
  Tokens(std::vector<int32_t> ids);
  Tokens(const std::vector<int64_t>& ids);  ///< an id that no int32 holds is an error
  Tokens(std::initializer_list<int64_t> ids) : Tokens(std::vector<int64_t>(ids)) {}

  int64_t size() const { return size_; }
  int64_t operator[](int64_t i) const { return first_[i]; }
  const int32_t* begin() const { return first_; }
  const int32_t* end() const { return first_ + size_; }
  Tokens slice(int64_t begin,
               int64_t end) const;  ///< tokens [begin, end); a range that is not there is an error

 private:
  std::shared_ptr<const std::vector<int32_t>> ids_;
  const int32_t* first_ = nullptr;
  int64_t size_ = 0;
};

/// The distinct characters (Unicode code points) of a text, in order of their code; their places are the token ids.
class CharacterVocabulary {
 public:
  explicit CharacterVocabulary(const std::string& text);  ///< an empty text is an error
  /// In this order, as characters() gave them; one given twice is an error.
  explicit CharacterVocabulary(const std::vector<std::string>& characters);

  Tokens encode(std::string_view text) const;   ///< an unknown character is an error that names it
  std::string decode(const Tokens& ids) const;  ///< an id outside [0, size) is an error
  int64_t size() const { return static_cast<int64_t>(characters_.size()); }
  const std::vector<std::string>& characters() const { return characters_; }

 private:
  std::vector<std::string> characters_;
  std::map<std::string, int32_t, std::less<>> ids_;
  std::array<int32_t, 256> ids_of_bytes_;  ///< of characters of one byte; −1: none
};

/// The bytes of a file, or of a pipe; an error if there are none.
std::string read_text(const std::string& path);

/// The characters of a UTF-8 text, one string each; bytes that are not UTF-8 stand alone.
std::vector<std::string> split_characters(const std::string& text);

/// Random windows of a token sequence. Which windows batch i has depends on the seed and i alone. The tensors of a batch are ids
/// and targets, [B, T] each; targets are the ids one further.
class WindowLoader {
 public:
  /// Windows of `time` tokens, `batch` at a time; more tokens than `time` are wanted, else an error.
  WindowLoader(Tokens tokens, int64_t batch, int64_t time, uint64_t seed);
  Batch batch(int64_t index) const;  ///< any index ≥ 0, in any order
  /// All windows one after another, without overlap, in batches, and what is left over as a shorter one: for the loss over
  /// a whole split.
  std::vector<Batch> whole() const;
  /// Says which tokens these are, in a few words that other tokens hardly share.
  std::string fingerprint() const;

 private:
  Batch at(const std::vector<int64_t>& starts, int64_t time) const;
  Tokens tokens_;
  int64_t batch_, time_;
  uint64_t seed_;
};

}  // namespace vitrine::nn::training
