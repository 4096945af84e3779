// Tokenizers: text as a sequence of token ids, and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/text/tokens.h"

namespace vitrine::nn {

/// What a special token such as <|endoftext|> means when it occurs in a text.
enum class SpecialTokens {
  as_text,   ///< nothing: it is spelled like any other text. For text of unknown origin
  as_tokens  ///< the special token itself
};

/// Text as token ids. A tokenizer does not change after its construction, so several threads may
/// use it at the same time.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The ids of a text. Text that the vocabulary cannot express is an error, or the unknown token
  /// if the vocabulary has one.
  Tokens encode(std::string_view text, SpecialTokens special = SpecialTokens::as_text) const;
  /// The text of the ids: the pieces of all tokens in order. An id outside [0, size) is an error.
  std::string decode(const Tokens& ids) const;

  /// "characters", "bpe", "word_piece" or "words".
  virtual std::string kind() const = 0;
  virtual int64_t size() const = 0;  ///< the number of tokens; their ids are 0 … size − 1
  /// The text of one token as the vocabulary lists it, such as " the" or "##ing". It is a part of a
  /// character if the token is. An id outside [0, size) is an error.
  const std::string& token(int64_t id) const;
  /// The id of the token with this text.
  virtual std::optional<int64_t> find(std::string_view token) const = 0;
  virtual std::vector<int64_t> special_tokens() const { return {}; }  ///< their ids
  /// The bytes that a token adds to the decoded text. `first`: the token begins the text, which
  /// matters where decoding puts spaces between words.
  virtual std::string piece(int64_t id, bool first) const;
  /// A text from which tokenizer_from_json makes the same tokenizer.
  virtual std::string to_json() const = 0;

 protected:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = default;
  Tokenizer& operator=(const Tokenizer&) = default;
  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;
  virtual void append_ids(std::string_view text, SpecialTokens special, std::vector<int32_t>& ids) const = 0;
  virtual const std::string& text_of(int64_t id) const = 0;  ///< of an id in [0, size)

 private:
  friend class DecodingStream;
  void check_id(const Tokens& ids, int64_t position) const;
};

/// Decodes tokens one after another, as a model generates them. A character may be spread over
/// several tokens: its first bytes are kept until the last one has come.
///
///   DecodingStream stream(tokenizer);
///   for (int64_t id : generated) std::cout << stream.push(id);
///   std::cout << stream.finish();
class DecodingStream {
 public:
  /// The tokenizer must outlive the stream.
  explicit DecodingStream(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  /// The text that is complete now and was not before: whole characters, and bytes that cannot
  /// become a part of a character. All results joined are decode() of all ids.
  std::string push(const Tokens& ids);
  std::string push(int64_t id) { return push(Tokens{id}); }
  std::string finish();  ///< the bytes that still wait for the rest of their character

 private:
  const Tokenizer* tokenizer_;
  std::string waiting_;
  bool first_ = true;
};

/// Reads what to_json() returned, or the content of a tokenizer.json (nn/text/tokenizer_json.h).
/// `what` begins the errors. Errors: broken JSON with its line, and a value that is not supported
/// with its JSON pointer.
std::unique_ptr<Tokenizer> tokenizer_from_json(const std::string& json, const std::string& what);

void save_tokenizer(const std::string& path, const Tokenizer& tokenizer);  ///< writes to_json()
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

}  // namespace vitrine::nn
