// Where a generated text ends: tokens and texts to stop at.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace vitrine::nn {

/// A continuation ends with the first token that is in `tokens`, or that completes one of `texts`
/// in the text of the continuation. The prompt does not count.
struct Stop {
  std::vector<int64_t> tokens = {};
  std::vector<std::string> texts = {};
  /// The text of a token, required if there are `texts`. The text of several tokens is their texts,
  /// joined.
  std::function<std::string(int64_t token)> text_of = {};

  /// True if the continuation ends with `token`, given the tokens before it: text[begin], …
  bool ends(const std::vector<int64_t>& text, size_t begin, int64_t token) const;
  /// Throws an error that begins with `op` for tokens outside [0, vocabulary), for an empty text,
  /// and for texts without text_of.
  void validate(const char* op, int64_t vocabulary) const;
};

/// A text that arrives in pieces, such as the texts of tokens, and ends before the first of some
/// stop texts. A piece of text is released as soon as no stop text can begin in it.
///
///   TextStream stream({"\n\n"});
///   on_token = [&](int64_t, int64_t token) { std::cout << stream.add(text_of(token)); };
///   …
///   std::cout << stream.rest();
class TextStream {
 public:
  explicit TextStream(std::vector<std::string> stops = {});
  /// Adds a piece and returns what is released by it. After a stop text that is nothing.
  std::string add(const std::string& piece);
  /// Releases all, at the end of the pieces.
  std::string rest();
  bool stopped() const { return stopped_; }  ///< a stop text has arrived

 private:
  std::vector<std::string> stops_;
  std::string held_;  ///< what may be the beginning of a stop text
  bool stopped_ = false;
};

}  // namespace vitrine::nn
