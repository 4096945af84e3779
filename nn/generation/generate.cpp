#include "nn/generation/generate.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/creation.h"
#include "core/tape.h"
#include "ops/index.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// A text that is being continued.
struct Row {
  size_t number;  ///< of its prompt
  std::vector<int64_t> tokens;
  size_t begin;  ///< the model sees the tokens from here on
  Generator generator;

  size_t seen() const { return tokens.size() - begin; }
};

/// Texts that are continued together, one token at a time. The texts end at the same position of
/// the state, so shorter ones begin with padding.
class Batch {
 public:
  Batch(const LanguageModel& model, Device device, std::vector<Row> rows)
      : model_(model), device_(device), rows_(std::move(rows)) {}

  std::vector<Row>& rows() { return rows_; }
  /// The logits [V] of the next token of each row.
  std::vector<Tensor> next_logits() {
    if (!state_ || state_->length() >= state_->capacity()) start();
    const auto batch = static_cast<int64_t>(rows_.size());
    const Tensor ids = index_tensor(fresh_, {batch, static_cast<int64_t>(fresh_.size()) / batch}, device_);
    const Tensor features = model_.features(ids, {.padding = padding_, .state = state_.get()});
    const Tensor last = slice(features, 1, features.size(1) - 1);
    const Tensor logits = reshape(model_.logits(last), {batch, model_.vocabulary()});
    std::vector<Tensor> each;
    for (int64_t b = 0; b < batch; ++b) each.push_back(select(logits, 0, b));
    return each;
  }
  /// Keeps the rows with these indices, to each of which a token has been added.
  void keep(const std::vector<int64_t>& kept) {
    if (kept.size() < rows_.size()) {
      const Tensor index = index_tensor(kept, {static_cast<int64_t>(kept.size())}, device_);
      if (!kept.empty()) state_->reorder(index);
      if (padding_.defined()) padding_ = index_select(padding_, 0, index);
      std::vector<Row> rows;
      for (const int64_t b : kept) rows.push_back(std::move(rows_[static_cast<size_t>(b)]));
      rows_ = std::move(rows);
    }
    fresh_.clear();
    for (const Row& row : rows_) fresh_.push_back(row.tokens.back());
  }

 private:
  /// A new state, and all tokens that the model shall see. A row that fills the state by itself is
  /// cut to the newer half of the context.
  void start() {
    const auto context = static_cast<size_t>(model_.context());
    const bool first = state_ == nullptr;
    state_ = model_.make_state(static_cast<int64_t>(rows_.size()));
    size_t longest = 0;
    for (Row& row : rows_) {
      if (static_cast<int64_t>(row.seen()) > state_->capacity())
        row.begin = row.tokens.size() - (first ? context : std::max<size_t>(1, context / 2));
      longest = std::max(longest, row.seen());
    }
    std::vector<int64_t> padding;
    fresh_.clear();
    for (const Row& row : rows_) {
      padding.push_back(static_cast<int64_t>(longest - row.seen()));
      fresh_.insert(fresh_.end(), longest - row.seen(), 0);
      fresh_.insert(fresh_.end(), row.tokens.begin() + static_cast<int64_t>(row.begin), row.tokens.end());
    }
    const bool padded = std::any_of(padding.begin(), padding.end(), [](int64_t n) { return n > 0; });
    padding_ = padded ? index_tensor(padding, {static_cast<int64_t>(padding.size())}, device_) : Tensor();
  }

  const LanguageModel& model_;
  Device device_;
  std::vector<Row> rows_;
  std::unique_ptr<DecodingState> state_;
  std::vector<int64_t> fresh_;  ///< the tokens [B, T] that are not in the state
  Tensor padding_;              ///< as in StackCall
};

}  // namespace

std::vector<std::vector<int64_t>> generate_batch(LanguageModel& model,
                                                 std::vector<std::vector<int64_t>> prompts, int64_t count,
                                                 const SamplingOptions& options,
                                                 const std::vector<int64_t>& stop) {
  check(count >= 0, "generate: {} tokens are wanted, and the number must be at least 0", count);
  for (size_t i = 0; i < prompts.size(); ++i)
    check(!prompts[i].empty(), "generate: prompt {} of {} is empty, wanted at least one token", i + 1,
          prompts.size());
  const Tape::Pause pause;
  const ModeScope evaluation(model, false);
  std::vector<Row> rows;
  for (size_t i = 0; i < prompts.size(); ++i) rows.push_back({i, prompts[i], 0, Generator(options.seed + i)});
  Batch batch(model, model.device(), std::move(rows));
  for (int64_t step = 0; step < count && !batch.rows().empty(); ++step) {
    const std::vector<Tensor> logits = batch.next_logits();
    std::vector<int64_t> unfinished;
    for (size_t b = 0; b < logits.size(); ++b) {
      Row& row = batch.rows()[b];
      const int64_t token = sample_token(logits[b], options, row.generator);
      row.tokens.push_back(token);
      if (std::find(stop.begin(), stop.end(), token) == stop.end())
        unfinished.push_back(static_cast<int64_t>(b));
      else
        prompts[row.number] = std::move(row.tokens);
    }
    batch.keep(unfinished);
  }
  for (Row& row : batch.rows()) prompts[row.number] = std::move(row.tokens);
  return prompts;
}

std::vector<int64_t> generate(LanguageModel& model, std::vector<int64_t> prompt, int64_t count,
                              const SamplingOptions& options, const std::vector<int64_t>& stop) {
  return generate_batch(model, {std::move(prompt)}, count, options, stop).front();
}

}  // namespace vitrine::nn
