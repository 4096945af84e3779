#include "nn/text/characters.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.h"
#include "nn/text/utf8.h"

namespace vitrine::nn {

namespace {

/// Calls f with each character of a UTF-8 text, and with each byte that is not part of a character.
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

std::vector<std::string> split_characters(const std::string& text) {
  std::vector<std::string> result;
  for_each_character(text, [&](std::string_view c) { result.emplace_back(c); });
  return result;
}

int64_t count_characters(std::string_view text) {
  int64_t count = 0;
  for_each_character(text, [&](std::string_view) { ++count; });
  return count;
}

size_t position_of_character(std::string_view text, int64_t index) {
  size_t position = 0;
  for_each_character(text, [&](std::string_view c) { position += index-- > 0 ? c.size() : 0; });
  return position;
}

CharacterVocabulary::CharacterVocabulary(const std::string& text)
    : CharacterVocabulary([&] {
        std::set<std::string, std::less<>> distinct;  // UTF-8 sorts like its code points
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

std::string CharacterVocabulary::to_json() const {
  auto list = nlohmann::json::array();
  for (const std::string& c : characters_) {
    if (utf8_sequence(c, 0).whole) {
      list.push_back(c);
    } else {
      list.push_back(byte_of(c));
    }
  }
  return list.dump();
}

CharacterVocabulary CharacterVocabulary::from_json(const std::string& text) {
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, false);
  check(list.is_array(), "CharacterVocabulary: the text is no list of characters in JSON");
  std::vector<std::string> characters;
  for (const auto& item : list) {
    std::string c;
    if (item.is_string()) c = item.get<std::string>();
    if (item.is_number_unsigned() && item.get<uint64_t>() < 256) c = static_cast<char>(item.get<int>());
    const bool single = item.is_string() ? split_characters(c).size() == 1 : !c.empty();
    check(single, "CharacterVocabulary: {} is in the list, wanted one character or a byte from 0 to 255",
          item.is_primitive() ? item.dump() : item.type_name());  // dump would recurse
    characters.push_back(std::move(c));
  }
  return CharacterVocabulary(characters);
}

std::optional<int64_t> CharacterVocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional<int64_t>(found->second);
}

void CharacterVocabulary::append_ids(std::string_view text, SpecialTokens, std::vector<int32_t>& ids) const {
  ids.reserve(text.size());
  for_each_character(text, [&](std::string_view c) {
    const auto found = c.size() == 1 ? ids_.end() : ids_.find(c);
    const int32_t id = c.size() == 1 ? ids_of_bytes_[byte_of(c)] : found == ids_.end() ? -1 : found->second;
    check(id >= 0, "encode: the character \"{}\" at position {} does not occur in the training text", c,
          ids.size());
    ids.push_back(id);
  });
}

}  // namespace vitrine::nn
