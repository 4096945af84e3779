// Sequences of symbols: reverse them, copy them, remember them, count their ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/data/batch.h"
#include "nn/data/synthetic/part.h"

namespace vitrine::nn::synthetic {

struct Sequences {
  std::vector<int64_t> input, target;
};

struct SequenceOptions {
  int64_t symbols = 10;   ///< symbols are 0 … symbols − 1
  int64_t shortest = 16;  ///< lengths are uniform in [shortest, longest]
  int64_t longest = 16;
};

/// The target is the input from its end to its beginning.
Dataset<Sequences> reversals(Part part, int64_t size, const SequenceOptions& options = {}, uint64_t seed = 0);
/// The target is the input.
Dataset<Sequences> copies(Part part, int64_t size, const SequenceOptions& options = {}, uint64_t seed = 0);
/// Bits; target[t] is the sum of input[0 … t] modulo 2. The last one is the parity of all.
Dataset<Sequences> parities(Part part, int64_t size, int64_t shortest, int64_t longest, uint64_t seed = 0);

/// The long copy (Hochreiter and Schmidhuber 1997): `remembered` symbols from 1 to symbols, then
/// `delay` blanks, which are 0, then the sign symbols + 1 and remembered − 1 blanks. The target is
/// blank, up to the sign, and there the remembered symbols begin:
///   input   3 1 2 0 0 0 9 0 0
///   target  0 0 0 0 0 0 3 1 2
struct LongCopyOptions {
  int64_t symbols = 8, remembered = 10, delay = 100;
};
Dataset<Sequences> long_copies(Part part, int64_t size, const LongCopyOptions& options = {},
                               uint64_t seed = 0);

/// A target that no loss counts: the ignore_index of cross_entropy.
constexpr int64_t kIgnored = -100;

/// The same sequences for a model that predicts the next token: the input, a separator, and the
/// target except its last symbol. Only the targets from the separator on count:
///   input   3 1 2 S 3 1
///   target  - - - 3 1 2
Dataset<Sequences> written_after(Dataset<Sequences> items, int64_t separator);

/// The same sequences, of whose targets only those from position `first` on count.
Dataset<Sequences> counted_from(Dataset<Sequences> items, int64_t first);

/// Inputs and targets, int64 [B, T]. The loss is a mean over the targets that count. Sequences of
/// different lengths are an error.
Batch batch_of(std::span<const Sequences> sequences);

}  // namespace vitrine::nn::synthetic
