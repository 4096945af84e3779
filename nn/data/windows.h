// Windows of a token sequence as batches, in a seeded order that a checkpoint can resume.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/data/batch.h"
#include "nn/text/tokens.h"

namespace vitrine::nn {

/// Random windows of a token sequence. The windows of batch i depend only on the seed and i. A
/// batch has two tensors, ids and targets, each [B, T]. The targets are the ids shifted by one
/// position.
class WindowLoader {
 public:
  /// Batches of `batch` windows of `time` tokens. The sequence must have more than `time` tokens.
  WindowLoader(Tokens tokens, int64_t batch, int64_t time, uint64_t seed);
  Batch batch(int64_t index) const;  ///< any index ≥ 0, in any order
  /// All windows in order, without overlap, in batches; the remaining tokens are a shorter window.
  /// Use this for the loss over a whole split.
  std::vector<Batch> whole() const;
  /// A short text that identifies the tokens; other tokens are very unlikely to have the same.
  std::string fingerprint() const;

 private:
  Batch at(const std::vector<int64_t>& starts, int64_t time) const;
  Tokens tokens_;
  int64_t batch_, time_;
  uint64_t seed_;
};

}  // namespace vitrine::nn
