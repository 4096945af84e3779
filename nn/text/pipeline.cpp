#include "nn/text/pipeline.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "core/error.h"
#include "nn/text/utf8.h"

namespace vitrine::nn {
namespace {

/// Encodes the parts of one text. A word is encoded where it occurs first; later its ids are
/// copied from there.
class Encoder {
 public:
  Encoder(const Pipeline& stages, const AddedTokens& normalized, SpecialTokens special,
          std::vector<int32_t>& ids)
      : stages_(stages), normalized_(normalized), special_(special), ids_(ids) {}

  /// Text without added tokens. It must outlive the encoder.
  void add_text(std::string_view text) {
    if (!stages_.normalizer.steps().empty()) text = keep(stages_.normalizer(text));
    normalized_.split(text, special_, [&](std::string_view part, const AddedToken* token) {
      if (token != nullptr) return ids_.push_back(static_cast<int32_t>(token->id));
      if (stages_.blank_first && part[0] != ' ') part = keep(" " + std::string(part));
      stages_.splitter.split(part, [&](std::string_view word) { add_word(word); });
    });
  }

 private:
  struct Range {
    size_t begin, end;
  };

  void add_word(std::string_view word) {
    const auto [known, is_new] = known_.try_emplace(word, Range{ids_.size(), 0});
    if (is_new) {
      stages_.model->append_ids(word, ids_);
      known->second.end = ids_.size();
      return;
    }
    for (size_t i = known->second.begin; i < known->second.end; ++i) {
      const int32_t id = ids_[i];  // not a reference: push_back may move the ids
      ids_.push_back(id);
    }
  }
  std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }

  const Pipeline& stages_;
  const AddedTokens& normalized_;
  const SpecialTokens special_;
  std::vector<int32_t>& ids_;
  std::deque<std::string> kept_;  ///< normalized text, to which the words refer
  std::unordered_map<std::string_view, Range> known_;
};

}  // namespace

PipelineTokenizer::PipelineTokenizer(Pipeline stages) : stages_(std::move(stages)) {
  check(stages_.model != nullptr, "PipelineTokenizer: there is no model");
  const VocabularyTable& vocabulary = stages_.model->vocabulary();
  check(vocabulary.size() > 0, "PipelineTokenizer: the vocabulary is empty");
  std::sort(stages_.added.begin(), stages_.added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  std::vector<AddedToken> as_given, normalized;
  for (const AddedToken& token : stages_.added) {
    check(utf8_valid_length(token.text, 0) == token.text.size(),
          "PipelineTokenizer: the added token {} is not valid UTF-8", token.id);
    const auto known = vocabulary.find(token.text);
    const int64_t expected = known ? *known : size();
    check(token.id == expected, "PipelineTokenizer: the added token {} has the id {}, wanted {}", token.text,
          token.id, expected);
    if (!known) beyond_model_.push_back(token.text);
    (token.normalized ? normalized : as_given).push_back(token);
    if (token.normalized) normalized.back().text = stages_.normalizer(token.text);
  }
  for (const auto* ends : {&stages_.front, &stages_.back})
    for (const int64_t id : *ends)
      check(id >= 0 && id < size(), "PipelineTokenizer: a text begins or ends with {}, outside [0, {})", id,
            size());
  as_given_ = AddedTokens(std::move(as_given));
  normalized_ = AddedTokens(std::move(normalized));
}

void PipelineTokenizer::append_ids(std::string_view text, SpecialTokens special,
                                   std::vector<int32_t>& ids) const {
  Encoder encoder(stages_, normalized_, special, ids);
  as_given_.split(text, special, [&](std::string_view part, const AddedToken* token) {
    if (token != nullptr) return ids.push_back(static_cast<int32_t>(token->id));
    encoder.add_text(part);
  });
}

const std::string& PipelineTokenizer::text_of(int64_t id) const {
  const VocabularyTable& vocabulary = stages_.model->vocabulary();
  if (id < vocabulary.size()) return vocabulary[id];
  return beyond_model_[static_cast<size_t>(id - vocabulary.size())];
}

std::optional<int64_t> PipelineTokenizer::find(std::string_view token) const {
  if (const auto id = stages_.model->vocabulary().find(token)) return *id;
  const auto found = std::find(beyond_model_.begin(), beyond_model_.end(), token);
  if (found == beyond_model_.end()) return std::nullopt;
  return stages_.model->vocabulary().size() + (found - beyond_model_.begin());
}

std::vector<int64_t> PipelineTokenizer::special_tokens() const {
  std::vector<int64_t> ids;
  for (const AddedToken& token : stages_.added)
    if (token.special) ids.push_back(token.id);
  return ids;
}

std::string PipelineTokenizer::piece(int64_t id, bool first) const {
  return stages_.model->piece(token(id), first);
}

Tokens PipelineTokenizer::with_ends(const Tokens& ids) const {
  std::vector<int64_t> all = stages_.front;
  all.insert(all.end(), ids.begin(), ids.end());
  all.insert(all.end(), stages_.back.begin(), stages_.back.end());
  return all;
}

}  // namespace vitrine::nn
