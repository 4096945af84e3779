#include "nn/training/text_data.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "core/creation.h"
#include "nn/training/utf8.h"

namespace vitrine::nn::training {

namespace {

/// Calls f with each character of a UTF-8 text, and with each byte that belongs to none.
template <class F>
void for_each_character(std::string_view text, F f) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Sequence sequence = utf8_sequence(text, i);
    const size_t length = sequence.whole ? sequence.length : 1;
    f(text.substr(i, length));
    i += length;
  }
}

size_t byte_of(std::string_view character) { return static_cast<unsigned char>(character[0]); }

}  // namespace

Tokens::Tokens(std::vector<int32_t> ids)
    : ids_(std::make_shared<const std::vector<int32_t>>(std::move(ids))),
      first_(ids_->data()),
      size_(std::ssize(*ids_)) {}

Tokens::Tokens(const std::vector<int64_t>& ids)
    : Tokens([&] {
        for (const int64_t id : ids)
          check(id == static_cast<int32_t>(id), "Tokens: {} is larger than an int32", id);
        return std::vector<int32_t>(ids.begin(), ids.end());
      }()) {}

Tokens Tokens::slice(int64_t begin, int64_t end) const {
  check(0 <= begin && begin <= end && end <= size_, "Tokens: there is no [{}, {}) in {} tokens", begin, end,
        size_);
  Tokens part = *this;
  part.first_ += begin;
  part.size_ = end - begin;
  return part;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  check(file.good(), "read_text: cannot open {}: {}", path, std::strerror(errno));
  std::error_code unknown;  // of a pipe
  const auto size = std::filesystem::file_size(path, unknown);
  std::string text;
  if (!unknown) text.reserve(size);
  std::vector<char> part(1 << 16);
  while (file.read(part.data(), std::ssize(part)) || file.gcount() > 0)
    text.append(part.data(), static_cast<size_t>(file.gcount()));
  check(!text.empty(), "read_text: {} is empty or a folder", path);
  return text;
}

std::vector<std::string> split_characters(const std::string& text) {
  std::vector<std::string> result;
  for_each_character(text, [&](std::string_view c) { result.emplace_back(c); });
  return result;
}

CharacterVocabulary::CharacterVocabulary(const std::string& text)
    : CharacterVocabulary([&] {
        std::set<std::string, std::less<>> distinct;  // UTF-8 sorts as its code points do
        std::array<bool, 256> seen{};
        for_each_character(text, [&](std::string_view c) {
          if (c.size() == 1 ? std::exchange(seen[byte_of(c)], true) : distinct.contains(c)) return;
          distinct.emplace(c);
        });
        return std::vector<std::string>(distinct.begin(), distinct.end());
      }()) {}

CharacterVocabulary::CharacterVocabulary(const std::vector<std::string>& characters)
    : characters_(characters) {
  check(!characters.empty(), "CharacterVocabulary: the text is empty");
  ids_of_bytes_.fill(-1);
  for (const std::string& c : characters_) {
    const auto id = static_cast<int32_t>(ids_.size());
    ids_.emplace(c, id);
    if (c.size() == 1) ids_of_bytes_[byte_of(c)] = id;
  }
  check(ids_.size() == characters_.size(), "CharacterVocabulary: a character is given twice");
}

Tokens CharacterVocabulary::encode(std::string_view text) const {
  std::vector<int32_t> result;
  result.reserve(text.size());
  for_each_character(text, [&](std::string_view c) {
    const auto found = c.size() == 1 ? ids_.end() : ids_.find(c);
    const int32_t id = c.size() == 1 ? ids_of_bytes_[byte_of(c)] : found == ids_.end() ? -1 : found->second;
    check(id >= 0, "encode: the character \"{}\" at position {} does not occur in the training text", c,
          result.size());
    result.push_back(id);
  });
  return result;
}

std::string CharacterVocabulary::decode(const Tokens& ids) const {
  std::string text;
  for (int64_t i = 0; i < ids.size(); ++i) {
    check(ids[i] >= 0 && ids[i] < size(), "decode: ids has {} at position {}, outside [0, {})", ids[i], i,
          size());
    text += characters_[static_cast<size_t>(ids[i])];
  }
  return text;
}

WindowLoader::WindowLoader(Tokens tokens, int64_t batch, int64_t time, uint64_t seed)
    : tokens_(std::move(tokens)), batch_(batch), time_(time), seed_(seed) {
  check(batch > 0 && time > 0, "WindowLoader: wanted a batch and a length above 0, got {} and {}", batch,
        time);
  check(tokens_.size() > time, "WindowLoader: {} tokens do not hold one window of {} and what follows it",
        tokens_.size(), time);
}

Batch WindowLoader::at(const std::vector<int64_t>& starts, int64_t time) const {
  const auto rows = static_cast<int64_t>(starts.size());
  Tensor ids = empty({rows, time}, DType::int64), targets = empty({rows, time}, DType::int64);
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t t = 0; t < time; ++t) {
      const int64_t from = starts[static_cast<size_t>(b)] + t;
      ids.data<int64_t>()[b * time + t] = tokens_[from];
      targets.data<int64_t>()[b * time + t] = tokens_[from + 1];
    }
  return {{ids, targets}, rows * time};
}

Batch WindowLoader::batch(int64_t index) const {
  Generator generator(seed_);
  generator.set(seed_, static_cast<uint64_t>(index) << 32);  // far apart, so that batches never share numbers
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < batch_; ++i) starts.push_back(generator.next_below(tokens_.size() - time_));
  return at(starts, time_);
}

std::vector<Batch> WindowLoader::whole() const {
  std::vector<Batch> result;
  std::vector<int64_t> starts;
  const int64_t predicted = tokens_.size() - 1, last = predicted - time_;
  for (int64_t start = 0; start <= last; start += time_) {
    starts.push_back(start);
    if (static_cast<int64_t>(starts.size()) == batch_ || start + time_ > last)
      result.push_back(at(std::exchange(starts, {}), time_));
  }
  if (const int64_t rest = predicted % time_; rest > 0) result.push_back(at({predicted - rest}, rest));
  return result;
}

std::string WindowLoader::fingerprint() const {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, a token at a time
  for (const int64_t token : tokens_) hash = (hash ^ static_cast<uint64_t>(token)) * 0x100000001b3;
  return fmt::format("{} tokens of hash {:016x}", tokens_.size(), hash);
}

}  // namespace vitrine::nn::training
