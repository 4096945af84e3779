// Windows of a token sequence as batches, in a seeded order that a checkpoint can resume.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/data/batch.h"
#include "nn/text/tokens.h"

namespace vitrine::nn {

/// Random windows of a token sequence. Which windows batch i has depends on the seed and i alone.
/// The tensors of a batch are ids and targets, [B, T] each; targets are the ids one further.
class WindowLoader {
 public:
  /// Windows of `time` tokens, `batch` at a time; more tokens than `time` are wanted, else an
  /// error.
  WindowLoader(Tokens tokens, int64_t batch, int64_t time, uint64_t seed);
  Batch batch(int64_t index) const;  ///< any index ≥ 0, in any order
  /// All windows one after another, without overlap, in batches, and what is left over as a shorter
  /// one: for the loss over a whole split.
  std::vector<Batch> whole() const;
  /// Says which tokens these are, in a few words that other tokens hardly share.
  std::string fingerprint() const;

 private:
  Batch at(const std::vector<int64_t>& starts, int64_t time) const;
  Tokens tokens_;
  int64_t batch_, time_;
  uint64_t seed_;
};

}  // namespace vitrine::nn
