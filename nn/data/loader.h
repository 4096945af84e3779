// Batches of a data set, epoch after epoch, that a run can resume.
//
//   Loader loader(digits, shuffled_batches(digits.size(), 64, seed), image_batch, 2);
//   const Task task{.batch = [&](int64_t index) { return loader.batch(index); }, …};
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "nn/data/batch.h"
#include "nn/data/batch_plan.h"
#include "nn/data/dataset.h"

namespace vitrine::nn {

/// Where a loader is: `next` is the number of its next batch, counted over all epochs.
struct LoaderState {
  uint64_t seed = 0;
  int64_t items = 0, next = 0;
  bool operator==(const LoaderState&) const = default;
};

/// Batches by number: batch i depends on the plan, the data set and i alone, so a run that begins
/// at batch i gives what a run that has never stopped gives. With `prefetch` above 0 a thread reads
/// up to that many batches ahead while the caller works; the batches are the same. What a reader
/// throws in the thread reaches the caller of the batch that it was for; the next call tries again.
/// Destroying the loader ends the thread, after the batch that it reads. Not to be used by several
/// threads.
class Loader {
 public:
  using Read = std::function<Batch(std::span<const int64_t> items)>;

  Loader(BatchPlan plan, Read read, int64_t prefetch = 0);
  /// `collate` makes a batch of items: Batch(std::span<const Item>).
  template <class Item, class Collate>
  Loader(Dataset<Item> items, BatchPlan plan, Collate collate, int64_t prefetch = 0)
      : Loader(
            with_size(std::move(plan), items.size()),
            [items, collate = std::move(collate)](std::span<const int64_t> numbers) {
              std::vector<Item> chosen;
              chosen.reserve(numbers.size());
              for (const int64_t i : numbers) chosen.push_back(items[i]);
              return Batch(collate(std::span<const Item>(chosen)));
            },
            prefetch) {}
  ~Loader();
  Loader(Loader&&) noexcept;

  /// Batch `index` ≥ 0, counted over all epochs; the batch after it is the next one. Batches in
  /// order are those that are prefetched.
  Batch batch(int64_t index);
  Batch next() { return batch(next_); }
  /// All batches of an epoch, for validation. They leave the position as it was.
  std::vector<Batch> whole(int64_t epoch = 0) const;
  /// The epoch of the next batch, from 0.
  int64_t epoch() const;

  LoaderState state() const;
  /// Goes on where the state was taken. A state of another seed or another number of items is an
  /// error.
  void restore(const LoaderState& state);

 private:
  static BatchPlan with_size(BatchPlan plan, int64_t items);
  class Walk;
  class Prefetcher;

  BatchPlan plan_;
  Read read_;
  int64_t next_ = 0;
  std::unique_ptr<Walk> walk_;
  std::unique_ptr<Prefetcher> prefetcher_;  // null without prefetching
};

}  // namespace vitrine::nn
