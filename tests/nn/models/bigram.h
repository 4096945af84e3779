// A language model whose probabilities a test can choose and compute by hand.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/creation.h"
#include "nn/fixed_state.h"
#include "nn/models/language_model.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/view.h"

namespace vitrine::test {

/// The logits after token t are row t of a table [V, V], plus, if there is a memory [B, S, V], the
/// last valid position of its row.
class Bigram : public nn::LanguageModel {
 public:
  explicit Bigram(const Tensor& logits) : table(clone(logits)) {}
  int64_t vocabulary() const override { return table.shape()[1]; }
  int64_t context() const override { return 64; }
  std::string kind() const override { return "bigram"; }
  nn::OptionValues settings() const override { return {}; }
  Tensor features(const Tensor& ids, const nn::StackCall& call = {}) const override {
    ++passes;
    if (call.state) nn::FixedState::of(call.state, "bigram")->advance(ids.size(1), {});
    const Tensor x = embedding(table, ids);
    if (!call.source.defined()) return x;
    std::vector<Tensor> rows;
    for (int64_t b = 0; b < call.source.size(0); ++b) {
      const auto end = call.source_lengths.defined() ? call.source_lengths.values()[static_cast<size_t>(b)]
                                                     : static_cast<double>(call.source.size(1));
      rows.push_back(slice(slice(call.source, 0, b, b + 1), 1, static_cast<int64_t>(end) - 1,
                           static_cast<int64_t>(end)));
    }
    return x + concat(rows, 0);
  }
  Tensor logits(const Tensor& features) const override { return features; }
  std::unique_ptr<nn::DecodingState> make_state(int64_t) const override {
    return std::make_unique<nn::FixedState>("bigram");
  }
  void fields(nn::Fields& f) override { f("table", table); }

  Parameter table;
  mutable int passes = 0;
};

/// Row b of a memory.
inline nn::Memory row_of(const nn::Memory& memory, size_t b) {
  const auto i = static_cast<int64_t>(b);
  return {.source = slice(memory.source, 0, i, i + 1),
          .lengths = memory.lengths.defined() ? slice(memory.lengths, 0, i, i + 1) : Tensor()};
}

}  // namespace vitrine::test
