// A tokenizer of several stages: normalization, a split into words, and a model of tokens.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/text/added_tokens.h"
#include "nn/text/normalizer.h"
#include "nn/text/splitter.h"
#include "nn/text/token_model.h"
#include "nn/text/tokenizer.h"

namespace vitrine::nn {

/// The stages of a PipelineTokenizer.
struct Pipeline {
  Normalizer normalizer = {};
  bool blank_first = false;  ///< a text that does not begin with a blank gets one
  Splitter splitter = {};
  std::shared_ptr<const TokenModel> model = {};
  /// Those that the vocabulary of the model does not have take the next ids, without a gap.
  std::vector<AddedToken> added = {};
  std::vector<int64_t> front = {}, back = {};  ///< ids around a text: [CLS] … [SEP]
};

/// The tokenizer that a tokenizer.json describes. Added tokens are found first. The text between
/// them is normalized and split into words, and the model turns each word into ids.
class PipelineTokenizer final : public Tokenizer {
 public:
  /// Errors: no model; an added token whose id is taken by another token or leaves a gap.
  explicit PipelineTokenizer(Pipeline stages);

  std::string kind() const override { return stages_.model->kind(); }
  int64_t size() const override { return stages_.model->vocabulary().size() + std::ssize(beyond_model_); }
  std::optional<int64_t> find(std::string_view token) const override;
  std::vector<int64_t> special_tokens() const override;
  std::string piece(int64_t id, bool first) const override;
  std::string to_json() const override;  ///< a tokenizer.json

  /// The ids between those of the front and of the back: [CLS] ids [SEP].
  Tokens with_ends(const Tokens& ids) const;
  const Pipeline& stages() const { return stages_; }

 protected:
  void append_ids(std::string_view text, SpecialTokens special, std::vector<int32_t>& ids) const override;
  const std::string& text_of(int64_t id) const override;

 private:
  Pipeline stages_;
  AddedTokens as_given_, normalized_;      ///< searched before and after the normalization
  std::vector<std::string> beyond_model_;  ///< tokens that follow those of the model
};

}  // namespace vitrine::nn
