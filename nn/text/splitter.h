// Splits text into words by regular expressions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine::nn {

/// GPT-2's pattern. A word keeps the blank before it, so that the words of a text joined are the
/// text: "It's here." is split into It, 's, ␣here and a full stop.
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// A regular expression of PCRE2, compiled for Unicode, with a machine-code matcher where the
/// machine allows one. \s is Unicode's White_Space.
class Pattern {
 public:
  /// A text that is not a regular expression is an error with the position and the reason.
  explicit Pattern(std::string text);
  /// Calls f with the first byte and the end of each match in valid UTF-8, in order. Empty matches
  /// are left out. A text on which the pattern needs too many steps is an error.
  void for_each_match(std::string_view text, const std::function<void(size_t begin, size_t end)>& f) const;
  const std::string& text() const { return text_; }

 private:
  struct Code;
  std::string text_;
  std::shared_ptr<const Code> code_;
};

/// What remains of a text after a split by a pattern.
enum class Remains {
  all,      ///< the matches and the text between matches, each a word
  between,  ///< the text between matches: the pattern describes separators
  matches   ///< the matches: the pattern describes words
};

/// Splits a text by one pattern, then each part by the next one.
class Splitter {
 public:
  struct Step {
    Pattern pattern;
    Remains remains = Remains::all;
  };
  Splitter() = default;  ///< the whole text is one word
  explicit Splitter(std::vector<Step> steps) : steps_(std::move(steps)) {}

  /// Calls f with each word in order. Bytes that are not part of a character are words of their
  /// own, and the text on either side of them is split alone.
  void split(std::string_view text, const std::function<void(std::string_view word)>& f) const;
  const std::vector<Step>& steps() const { return steps_; }

 private:
  void split_from(size_t step, std::string_view text, const std::function<void(std::string_view)>& f) const;
  std::vector<Step> steps_;
};

}  // namespace vitrine::nn
