// Texts that a model continues together: what generation and beam search share.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nn/models/language_model.h"

namespace vitrine::nn {

/// Texts that grow by one token at a time, with one decoding state. The texts end at the same
/// position of the state, so shorter ones begin with padding. When the state is full, the older
/// half of the context is dropped, and the state is computed again.
class TextBatch {
 public:
  /// Row b of the memory belongs to prompt b. Errors, whose messages begin with `op`: an empty
  /// prompt; a memory with another number of rows.
  TextBatch(const char* op, const LanguageModel& model, Device device,
            const std::vector<std::vector<int64_t>>& prompts, const Memory& memory = {});

  size_t size() const { return rows_.size(); }
  const std::vector<int64_t>& text(size_t i) const { return rows_[i].tokens; }
  /// The logits [B, V] of the token after each text. To be called once after each extend.
  Tensor next_logits();
  /// Text i becomes a copy of text parents[i] with tokens[i] at its end. A text may have any number
  /// of successors, and the batch may shrink or grow. To be called after next_logits.
  void extend(const std::vector<int64_t>& parents, const std::vector<int64_t>& tokens);

 private:
  struct Row {
    std::vector<int64_t> tokens;
    size_t begin;    ///< the model sees the tokens from here on
    int64_t source;  ///< its row of the memory

    size_t seen() const { return tokens.size() - begin; }
  };

  void start();
  void reorder(const std::vector<int64_t>& parents);

  const LanguageModel& model_;
  Device device_;
  std::vector<Row> rows_;
  std::unique_ptr<DecodingState> state_;
  std::vector<int64_t> fresh_;  ///< the tokens [B, T] that are not in the state
  Tensor padding_;              ///< as in StackCall
  Memory memory_, of_rows_;     ///< as given, and with a row for each text
};

}  // namespace vitrine::nn
