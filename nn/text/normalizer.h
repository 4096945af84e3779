// Unicode normalization, which text passes through before it is split into words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vitrine::nn {

/// One change of a text.
struct Normalization {
  enum class Kind {
    nfc,            ///< é as one code point, where Unicode has one
    nfd,            ///< é as e and a combining accent
    nfkc,           ///< as nfc, and compatible characters are unified: ﬁ becomes fi
    nfkd,           ///< as nfd, and compatible characters are unified
    lowercase,      ///< each character by itself, in no particular language
    strip_accents,  ///< removes all combining marks; characters that contain an accent stay
    bert            ///< the normalization of BERT, in the order of the four options below
  };
  Kind kind;
  // The options of BERT's.
  bool clean_text = true;  ///< removes control characters; every white space becomes a blank
  bool spaces_around_chinese = true;
  bool strip_accents = true;  ///< decomposes (nfd) and removes the nonspacing marks
  bool lowercase = true;

  bool operator==(const Normalization&) const = default;
};

/// Normalizations, one after another, by ICU. Bytes that are not part of a character become U+FFFD,
/// unless there is no normalization at all.
class Normalizer {
 public:
  Normalizer() = default;  ///< changes nothing
  explicit Normalizer(std::vector<Normalization> steps) : steps_(std::move(steps)) {}

  std::string operator()(std::string_view text) const;
  const std::vector<Normalization>& steps() const { return steps_; }

 private:
  std::vector<Normalization> steps_;
};

/// Whether a code point is white space (Unicode's property White_Space).
bool is_white_space(char32_t c);

}  // namespace vitrine::nn
