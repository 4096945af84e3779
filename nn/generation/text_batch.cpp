#include "nn/generation/text_batch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/creation.h"
#include "core/error.h"
#include "core/print.h"
#include "ops/index.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

void check_memory_rows(const char* op, const Memory& memory, int64_t count) {
  if (!memory.source.defined()) return;
  check(memory.source.rank() == 3 && memory.source.size(0) == count,
        "{}: the memory is {}, wanted [{}, S, C], a row for each prompt", op, describe(memory.source), count);
  check(!memory.lengths.defined() ||
            (memory.lengths.dtype() == DType::int64 && memory.lengths.shape() == Shape{count}),
        "{}: the lengths of the memory are {}, wanted int64 [{}]", op, describe(memory.lengths), count);
  const Shape places = {count, memory.source.size(1)};
  check(!memory.ids.defined() || (memory.ids.dtype() == DType::int64 && memory.ids.shape() == places),
        "{}: the ids of the memory are {}, wanted int64 {}", op, describe(memory.ids), places);
}

}  // namespace

TextBatch::TextBatch(const char* op, const LanguageModel& model, Device device,
                     const std::vector<std::vector<int64_t>>& prompts, const Memory& memory)
    : model_(model), device_(device), memory_(memory), of_rows_(memory) {
  for (size_t i = 0; i < prompts.size(); ++i) {
    check(!prompts[i].empty(), "{}: prompt {} of {} is empty, wanted at least one token", op, i + 1,
          prompts.size());
    rows_.push_back({prompts[i], 0, static_cast<int64_t>(i)});
  }
  check_memory_rows(op, memory, static_cast<int64_t>(prompts.size()));
}

Tensor TextBatch::next_logits() {
  if (!state_ || state_->length() >= state_->capacity()) start();
  const auto batch = static_cast<int64_t>(rows_.size());
  const Tensor ids = index_tensor(fresh_, {batch, static_cast<int64_t>(fresh_.size()) / batch}, device_);
  const Tensor features = model_.features(ids, {.padding = padding_,
                                                .source = of_rows_.source,
                                                .source_lengths = of_rows_.lengths,
                                                .source_ids = of_rows_.ids,
                                                .state = state_.get()});
  const Tensor last = slice(features, 1, features.size(1) - 1);
  return reshape(model_.logits(last), {batch, model_.vocabulary()});
}

void TextBatch::extend(const std::vector<int64_t>& parents, const std::vector<int64_t>& tokens) {
  std::vector<int64_t> unchanged(rows_.size());
  std::iota(unchanged.begin(), unchanged.end(), 0);
  if (parents != unchanged) reorder(parents);
  for (size_t i = 0; i < rows_.size(); ++i) rows_[i].tokens.push_back(tokens[i]);
  fresh_ = tokens;
}

void TextBatch::reorder(const std::vector<int64_t>& parents) {
  std::vector<Row> rows;
  std::vector<int64_t> before, after;  // rows of the memory
  for (const Row& row : rows_) before.push_back(row.source);
  for (const int64_t parent : parents) {
    rows.push_back(rows_[static_cast<size_t>(parent)]);
    after.push_back(rows.back().source);
  }
  rows_ = std::move(rows);
  if (rows_.empty()) return;
  const Shape shape = {static_cast<int64_t>(parents.size())};
  const Tensor index = index_tensor(parents, shape, device_);
  state_->reorder(index);
  if (padding_.defined()) padding_ = index_select(padding_, 0, index);
  if (!memory_.source.defined() || before == after) return;
  const Tensor sources = index_tensor(after, shape, device_);
  of_rows_.source = index_select(memory_.source, 0, sources);
  if (memory_.lengths.defined()) of_rows_.lengths = index_select(memory_.lengths, 0, sources);
  if (memory_.ids.defined()) of_rows_.ids = index_select(memory_.ids, 0, sources);
}

/// A new state, and all tokens that the model shall see. A row that fills the state by itself is
/// cut to the newer half of the context.
void TextBatch::start() {
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

}  // namespace vitrine::nn
