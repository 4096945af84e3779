#include "nn/training/text_data.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "core/creation.h"
#include "nn/training/utf8.h"

namespace vitrine::nn::training {

std::string read_text(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  check(file.good(), "read_text: cannot open {}: {}", path, std::strerror(errno));
  std::stringstream text;
  text << file.rdbuf();
  check(!text.str().empty(), "read_text: {} is empty or a folder", path);
  return text.str();
}

std::vector<std::string> split_characters(const std::string& text) {
  std::vector<std::string> result;
  for (size_t i = 0; i < text.size();) {
    const Utf8Sequence sequence = utf8_sequence(text, i);
    const size_t length = sequence.whole ? sequence.length : 1;
    result.push_back(text.substr(i, length));
    i += length;
  }
  return result;
}

CharacterVocabulary::CharacterVocabulary(const std::string& text) {
  const auto all = split_characters(text);
  *this = CharacterVocabulary([&] {
    const std::set<std::string> distinct(all.begin(), all.end());  // UTF-8 sorts as its code points do
    return std::vector<std::string>(distinct.begin(), distinct.end());
  }());
}

CharacterVocabulary::CharacterVocabulary(const std::vector<std::string>& characters)
    : characters_(characters) {
  check(!characters.empty(), "CharacterVocabulary: the text is empty");
  for (const std::string& c : characters_) ids_.emplace(c, static_cast<int64_t>(ids_.size()));
  check(ids_.size() == characters_.size(), "CharacterVocabulary: a character is given twice");
}

std::vector<int64_t> CharacterVocabulary::encode(const std::string& text) const {
  std::vector<int64_t> result;
  for (const std::string& c : split_characters(text)) {
    const auto found = ids_.find(c);
    check(found != ids_.end(),
          "encode: the character \"{}\" at position {} does not occur in the training text", c,
          result.size());
    result.push_back(found->second);
  }
  return result;
}

std::string CharacterVocabulary::decode(const std::vector<int64_t>& ids) const {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    check(ids[i] >= 0 && ids[i] < size(), "decode: ids has {} at position {}, outside [0, {})", ids[i], i,
          size());
    text += characters_[static_cast<size_t>(ids[i])];
  }
  return text;
}

WindowLoader::WindowLoader(std::vector<int64_t> tokens, int64_t batch, int64_t time, uint64_t seed)
    : tokens_(std::move(tokens)), batch_(batch), time_(time), seed_(seed) {
  check(batch > 0 && time > 0, "WindowLoader: wanted a batch and a length above 0, got {} and {}", batch,
        time);
  check(static_cast<int64_t>(tokens_.size()) > time,
        "WindowLoader: {} tokens do not hold one window of {} and what follows it", tokens_.size(), time);
}

Batch WindowLoader::at(const std::vector<int64_t>& starts, int64_t time) const {
  const auto rows = static_cast<int64_t>(starts.size());
  Tensor ids = empty({rows, time}, DType::int64), targets = empty({rows, time}, DType::int64);
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t t = 0; t < time; ++t) {
      const auto from = static_cast<size_t>(starts[static_cast<size_t>(b)] + t);
      ids.data<int64_t>()[b * time + t] = tokens_[from];
      targets.data<int64_t>()[b * time + t] = tokens_[from + 1];
    }
  return {{ids, targets}, rows * time};
}

Batch WindowLoader::batch(int64_t index) const {
  Generator generator(seed_);
  generator.set(seed_, static_cast<uint64_t>(index) << 32);  // far apart, so that batches never share numbers
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < batch_; ++i)
    starts.push_back(generator.next_below(static_cast<int64_t>(tokens_.size()) - time_));
  return at(starts, time_);
}

std::vector<Batch> WindowLoader::whole() const {
  std::vector<Batch> result;
  std::vector<int64_t> starts;
  const int64_t predicted = static_cast<int64_t>(tokens_.size()) - 1, last = predicted - time_;
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
