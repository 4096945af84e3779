// Which items form the batches of an epoch.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace vitrine::nn {

/// The batches of one epoch. Batch b has the items order[ends[b − 1]] to order[ends[b] − 1].
struct Epoch {
  std::vector<int64_t> order, ends;

  int64_t batches() const { return std::ssize(ends); }
  std::span<const int64_t> batch(int64_t b) const;
};

/// The batches of every epoch. Epoch e depends on the seed and e alone, and is the same on every
/// machine: an order is a Fisher-Yates shuffle with Philox numbers, in the memory of the n numbers.
struct BatchPlan {
  int64_t items = 0;  ///< items of the data set
  uint64_t seed = 0;
  std::function<Epoch(int64_t epoch)> epoch;
};

/// All items in a random order, other in each epoch; the last batch may be smaller.
BatchPlan shuffled_batches(int64_t items, int64_t batch, uint64_t seed);

/// All items in order, the same in each epoch; the last batch may be smaller. For validation.
BatchPlan ordered_batches(int64_t items, int64_t batch);

/// The numbers of tokens of an item.
struct ItemLength {
  int64_t source = 0, target = 0;  ///< the target is 0 where there is one sequence alone
};

struct LengthBucketOptions {
  /// The bound on the tokens of a batch with its padding: rows · (longest source + longest target).
  int64_t tokens = 4096;
  int64_t rows = 1 << 20;     ///< the bound on its rows
  int64_t pool = 1 << 13;     ///< items that are sorted together; more give less padding, 1 none
  double remove_longest = 0;  ///< the share of the items, the longest ones, that is left out
};

/// Batches of items of similar length. An epoch shuffles the items, sorts each pool of them by
/// length, cuts the pool into batches within the bounds, and shuffles the batches. Removing the
/// longest items bounds the memory of the largest batch, but models generalize poorly to lengths
/// that they have not seen: remove a few that are much longer than the rest. Among equal lengths
/// the later items are removed. An item longer than `tokens` that is not removed is an error.
BatchPlan length_buckets(std::vector<ItemLength> lengths, const LengthBucketOptions& options, uint64_t seed);

}  // namespace vitrine::nn
