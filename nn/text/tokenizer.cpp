#include "nn/text/tokenizer.h"

#include <array>

#include "core/error.h"
#include "core/files/file.h"
#include "nn/text/read_text.h"
#include "nn/text/utf8.h"

namespace vitrine::nn {

Tokens Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  std::vector<int32_t> ids;
  append_ids(text, special, ids);
  return ids;
}

void Tokenizer::check_id(const Tokens& ids, int64_t position) const {
  const int64_t id = ids[position];
  check(id >= 0 && id < size(), "decode: ids has {} at position {}, outside [0, {})", id, position, size());
}

std::string Tokenizer::decode(const Tokens& ids) const {
  std::string text;
  for (int64_t i = 0; i < ids.size(); ++i) {
    check_id(ids, i);
    text += piece(ids[i], i == 0);
  }
  return text;
}

const std::string& Tokenizer::token(int64_t id) const {
  check(id >= 0 && id < size(), "token: id is {}, outside [0, {})", id, size());
  return text_of(id);
}

std::string Tokenizer::piece(int64_t id, bool) const { return token(id); }

std::string DecodingStream::push(const Tokens& ids) {
  for (int64_t i = 0; i < ids.size(); ++i) {
    tokenizer_->check_id(ids, i);
    waiting_ += tokenizer_->piece(ids[i], first_);
    first_ = false;
  }
  size_t complete = 0;
  while (complete < waiting_.size()) {
    const Utf8Sequence sequence = utf8_sequence(waiting_, complete);
    // The bytes up to the end begin like a character, and the next token may complete it.
    if (!sequence.whole && utf8_may_continue(std::string_view(waiting_).substr(complete))) break;
    complete += sequence.length;
  }
  std::string text = waiting_.substr(0, complete);
  waiting_.erase(0, complete);
  return text;
}

std::string DecodingStream::finish() {
  first_ = true;
  return std::exchange(waiting_, {});
}

void save_tokenizer(const std::string& path, const Tokenizer& tokenizer) {
  const std::string json = tokenizer.to_json();
  write_file("save_tokenizer", path, std::array<std::string_view, 1>{json});
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  return tokenizer_from_json(read_text(path), path);
}

}  // namespace vitrine::nn
