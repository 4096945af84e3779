// A task without text: an encoder that reverses sequences. In each row 2 to 6 targets count and the
// others are ignored, so batches with equal numbers of rows have different numbers of tokens.
#pragma once

#include <string>
#include <vector>

#include "core/creation.h"
#include "core/random.h"
#include "nn/attention/multi_head.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/training/task.h"
#include "ops/elementwise.h"
#include "ops/loss.h"

namespace vitrine::test {

class Reverser : public nn::Module {
 public:
  static constexpr int64_t kSymbols = 5, kTime = 6, kWidth = 16;

  Reverser() : tokens(kSymbols, kWidth), out(kWidth, kSymbols), positions(randn({kTime, kWidth})) {
    attentions.emplace_back(nn::MixerOptions{.width = kWidth, .heads = 2, .context = kTime});
  }
  Tensor forward(const Tensor& ids) const {  // [B, T] → [B, T, symbols]
    const Tensor x = tokens.forward(ids) + positions;
    return out.forward(x + attentions[0].forward(x, {}));
  }
  Reverser clone() {
    return clone_into([] { return Reverser(); });
  }
  void fields(nn::Fields& f) override {
    f("tokens", tokens), f("positions", positions), f("attentions", attentions), f("out", out);
  }

  nn::Embedding tokens;
  nn::Linear out;
  Parameter positions;
  std::vector<nn::MultiHeadAttention> attentions;
};

/// One whose weights are drawn from this seed.
inline Reverser seeded_reverser(uint64_t seed) {
  manual_seed(seed);
  return Reverser();
}

/// Rows first, first + 1, …: row n depends only on n.
inline nn::Batch reversals(int64_t first, int64_t rows) {
  constexpr int64_t kTime = Reverser::kTime;
  Tensor ids = zeros({rows, kTime}, DType::int64), targets = full({rows, kTime}, -100, DType::int64);
  int64_t tokens = 0;
  for (int64_t row = 0; row < rows; ++row) {
    Generator generator(1);
    generator.set(1, static_cast<uint64_t>(first + row) << 32);
    const int64_t counted = 2 + generator.next_below(kTime - 1);
    for (int64_t t = 0; t < kTime; ++t) {
      const int64_t symbol = generator.next_below(Reverser::kSymbols);
      ids.data<int64_t>()[row * kTime + t] = symbol;
      if (const int64_t at = kTime - 1 - t; at < counted) targets.data<int64_t>()[row * kTime + at] = symbol;
    }
    tokens += counted;
  }
  return {{ids, targets}, tokens};
}

inline nn::training::Task reversing(Reverser& model, int64_t rows) {
  return {.model = model,
          .batch = [rows](int64_t index) { return reversals(index * rows, rows); },
          .validation =
              [] {
                return std::vector{reversals(1 << 20, 8), reversals(1 << 21, 1)};
              },
          .loss = [&model](const std::vector<Tensor>& x) { return cross_entropy(model.forward(x[0]), x[1]); },
          .setting = {{"rows", std::to_string(rows)}}};
}

}  // namespace vitrine::test
