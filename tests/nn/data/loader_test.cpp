// Batches of a data set: their order, resuming, buckets of similar length, and reading ahead.
#include "nn/data/loader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <numeric>
#include <thread>

#include "core/creation.h"
#include "core/random.h"
#include "nn/data/padding.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

Batch ids_of(std::span<const int64_t> items) {
  return {{index_tensor(items, {std::ssize(items)})}, std::ssize(items)};
}

std::vector<int64_t> numbers(const Batch& batch) {
  std::vector<int64_t> result;
  for (const double x : batch.tensors[0].values()) result.push_back(static_cast<int64_t>(x));
  return result;
}

std::vector<int64_t> sorted_numbers(const std::vector<int64_t>& order) {
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

std::vector<int64_t> up_to(int64_t n) {
  std::vector<int64_t> result(static_cast<size_t>(n));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

std::vector<ItemLength> some_lengths(int64_t count) {
  Generator random(3);
  std::vector<ItemLength> lengths;
  for (int64_t i = 0; i < count; ++i)
    lengths.push_back({1 + random.next_below(60), 1 + random.next_below(60)});
  return lengths;
}

/// The share of the tokens of an epoch that are padding.
double padding(const Epoch& epoch, const std::vector<ItemLength>& lengths) {
  double all = 0, used = 0;
  for (int64_t b = 0; b < epoch.batches(); ++b) {
    ItemLength longest;
    for (const int64_t i : epoch.batch(b)) {
      const ItemLength& item = lengths[static_cast<size_t>(i)];
      longest = {std::max(longest.source, item.source), std::max(longest.target, item.target)};
      used += static_cast<double>(item.source + item.target);
    }
    all += static_cast<double>(std::ssize(epoch.batch(b)) * (longest.source + longest.target));
  }
  return 1 - used / all;
}

}  // namespace

TEST_CASE("an epoch has every item once, in an order that the seed and the epoch determine") {
  const BatchPlan plan = shuffled_batches(10, 4, 7);
  const Epoch first = plan.epoch(0);
  // The same on every machine
  CHECK(first.order == std::vector<int64_t>{1, 0, 7, 5, 6, 9, 8, 4, 3, 2});
  CHECK(first.ends == std::vector<int64_t>{4, 8, 10});
  CHECK(sorted_numbers(first.order) == up_to(10));
  CHECK(plan.epoch(0).order == first.order);
  CHECK(plan.epoch(1).order != first.order);
  CHECK(sorted_numbers(plan.epoch(1).order) == up_to(10));
  CHECK(shuffled_batches(10, 4, 8).epoch(0).order != first.order);
  CHECK(ordered_batches(5, 2).epoch(3).order == up_to(5));
  // Each of the 6 orders of 3 items is as frequent as the others: of 6,000 orders 1,000 ± 3.5 σ
  std::map<std::vector<int64_t>, int> counts;
  const BatchPlan three = shuffled_batches(3, 3, 1);
  for (int64_t epoch = 0; epoch < 6000; ++epoch) ++counts[three.epoch(epoch).order];
  CHECK(counts.size() == 6);
  for (const auto& [order, count] : counts) CHECK(std::abs(count - 1000) < 101);
  CHECK_THROWS_WITH_AS(shuffled_batches(0, 4, 1), doctest::Contains("0 items in batches of 4"), Error);
  CHECK_THROWS_WITH_AS(ordered_batches(4, 0), doctest::Contains("4 items in batches of 0"), Error);
}

TEST_CASE("buckets hold items of similar length within the bounds, and each item once") {
  const auto lengths = some_lengths(1000);
  const LengthBucketOptions options{.tokens = 600, .rows = 30};
  const BatchPlan plan = length_buckets(lengths, options, 5);
  const Epoch epoch = plan.epoch(0);
  CHECK(sorted_numbers(epoch.order) == up_to(1000));
  for (int64_t b = 0; b < epoch.batches(); ++b) {
    ItemLength longest;
    for (const int64_t i : epoch.batch(b)) {
      longest.source = std::max(longest.source, lengths[static_cast<size_t>(i)].source);
      longest.target = std::max(longest.target, lengths[static_cast<size_t>(i)].target);
    }
    const auto rows = std::ssize(epoch.batch(b));
    CHECK(rows > 0);
    CHECK(rows <= 30);
    CHECK(rows * (longest.source + longest.target) <= 600);
  }
  CHECK(plan.epoch(0).order == epoch.order);
  CHECK(plan.epoch(1).order != epoch.order);
  std::vector<int64_t> sources;  // of the first items: the pool was sorted, and its batches are not
  for (int64_t b = 0; b < epoch.batches(); ++b)
    sources.push_back(lengths[static_cast<size_t>(epoch.batch(b)[0])].source);
  CHECK(!std::is_sorted(sources.begin(), sources.end()));
  // A batch is as large as it may be: {1, 9}; {2, 1} and {3, 1}; {4, 1}
  CHECK(length_buckets({{1, 9}, {2, 1}, {3, 1}, {4, 1}}, {.tokens = 10}, 5).epoch(0).batches() == 3);
  // Sorting is what saves padding
  const double unsorted = padding(length_buckets(lengths, {.tokens = 600, .pool = 1}, 5).epoch(0), lengths);
  const double pooled = padding(length_buckets(lengths, {.tokens = 600, .pool = 100}, 5).epoch(0), lengths);
  const double sorted = padding(epoch, lengths);
  CHECK(unsorted == 0);  // a pool of one item is a batch
  CHECK(pooled > sorted);
  CHECK(padding(shuffled_batches(1000, 10, 5).epoch(0), lengths) > 1.5 * sorted);
}

TEST_CASE(
    "the longest items are removed where this is asked for, and an item that fits no batch is an error") {
  std::vector<ItemLength> lengths(10, {5, 5});
  lengths[3] = {500, 1}, lengths[6] = {1, 90};
  CHECK_THROWS_WITH_AS(length_buckets(lengths, {.tokens = 100}, 1),
                       doctest::Contains("item 3 has 501 tokens"), Error);
  const Epoch epoch = length_buckets(lengths, {.tokens = 100, .remove_longest = 0.1}, 1).epoch(0);
  CHECK(sorted_numbers(epoch.order) == std::vector<int64_t>{0, 1, 2, 4, 5, 6, 7, 8, 9});
  const Epoch fewer = length_buckets(lengths, {.tokens = 100, .remove_longest = 0.3}, 1).epoch(0);
  CHECK(sorted_numbers(fewer.order) == std::vector<int64_t>{0, 1, 2, 4, 5, 7, 8});
  CHECK_THROWS_WITH_AS(length_buckets({}, {}, 1), doctest::Contains("no items"), Error);
  CHECK_THROWS_WITH_AS(length_buckets(lengths, {.remove_longest = 1}, 1),
                       doctest::Contains("remove_longest is 1"), Error);
  CHECK_THROWS_WITH_AS(length_buckets({{-1, 2}}, {}, 1), doctest::Contains("item 0 has the lengths -1 and 2"),
                       Error);
  CHECK_THROWS_WITH_AS(length_buckets(lengths, {.pool = 0}, 1), doctest::Contains("pool 0"), Error);
}

TEST_CASE("a restored loader goes on as a run that has never stopped, with and without prefetching") {
  const auto lengths = some_lengths(200);
  for (const BatchPlan& plan : {shuffled_batches(200, 7, 9), length_buckets(lengths, {.tokens = 500}, 9)}) {
    std::vector<std::vector<int64_t>> whole;
    Loader run(plan, ids_of);
    while (run.epoch() < 3) whole.push_back(numbers(run.next()));
    const auto per_epoch = static_cast<size_t>(plan.epoch(0).batches());
    CHECK(whole.size() > 2 * per_epoch);
    for (const int64_t prefetch : {0, 1, 4}) {
      Loader ahead(plan, ids_of, prefetch);
      for (const auto& batch : whole) CHECK(numbers(ahead.next()) == batch);
      for (const size_t stop : {size_t{0}, per_epoch / 2, per_epoch, per_epoch + 3}) {
        LoaderState state;
        {
          Loader stopped(plan, ids_of, prefetch);
          for (size_t i = 0; i < stop; ++i) stopped.next();
          state = stopped.state();
        }
        Loader resumed(plan, ids_of, prefetch);
        resumed.restore(state);
        CHECK(resumed.epoch() == (stop < per_epoch ? 0 : 1));
        for (size_t i = stop; i < whole.size(); ++i) CHECK(numbers(resumed.next()) == whole[i]);
      }
      // By number and in any order, as a trainer asks
      for (const size_t i : {size_t{5}, size_t{6}, size_t{1}, whole.size() - 1, size_t{2}})
        CHECK(numbers(ahead.batch(static_cast<int64_t>(i))) == whole[i]);
      CHECK(ahead.state().next == 3);
    }
  }
  Loader one(shuffled_batches(10, 2, 1), ids_of);
  CHECK_THROWS_WITH_AS(one.restore({2, 10, 0}), doctest::Contains("seed 2 and 10 items"), Error);
  CHECK_THROWS_WITH_AS(one.restore({1, 11, 0}), doctest::Contains("seed 1 and 11 items"), Error);
  CHECK_THROWS_WITH_AS(one.restore({1, 10, -1}), doctest::Contains("-1"), Error);
  CHECK_THROWS_WITH_AS(one.batch(-1), doctest::Contains("no batch -1"), Error);
}

TEST_CASE("a loader collates the items of a data set, and gives whole epochs for validation") {
  const Dataset<std::vector<int64_t>> rows(
      5, [](int64_t i) { return std::vector<int64_t>(static_cast<size_t>(i), i); });
  const auto collate = [](std::span<const std::vector<int64_t>> chosen) {
    const Padded padded = pad_ids(chosen, 0);
    return Batch{{padded.values, padded.lengths}, std::ssize(chosen)};
  };
  Loader loader(rows, ordered_batches(5, 2), collate, 2);
  CHECK(loader.next().tensors[1].values() == std::vector<double>{0, 1});
  const std::vector<Batch> whole = loader.whole();
  CHECK(whole.size() == 3);
  CHECK(whole[2].tokens == 1);
  CHECK(whole[1].tensors[0].shape() == Shape{2, 3});
  CHECK(loader.next().tensors[1].values() == std::vector<double>{2, 3});
  CHECK_THROWS_WITH_AS(Loader(rows, ordered_batches(6, 2), collate), doctest::Contains("plan is for 6 items"),
                       Error);
  CHECK_THROWS_WITH_AS(Loader(ordered_batches(6, 2), ids_of, -1), doctest::Contains("prefetch is -1"), Error);
}

TEST_CASE("what a reader throws reaches the caller of its batch, and the next call tries again") {
  for (const int64_t prefetch : {0, 3}) {
    std::atomic<int> failures = 2;
    Loader loader(
        ordered_batches(10, 1),
        [&](std::span<const int64_t> items) {
          if (items[0] == 4 && failures-- > 0) fail("item {} is damaged", items[0]);
          return ids_of(items);
        },
        prefetch);
    for (int64_t i = 0; i < 4; ++i) CHECK(numbers(loader.next()) == std::vector{i});
    for (int i = 0; i < 2; ++i) CHECK_THROWS_WITH_AS(loader.next(), "item 4 is damaged", Error);
    for (int64_t i = 4; i < 10; ++i) CHECK(numbers(loader.next()) == std::vector{i});
  }
}

TEST_CASE("a batch that the thread reads when the caller goes elsewhere is not given") {
  std::atomic<bool> elsewhere = false;
  Loader loader(
      ordered_batches(10, 1),
      [&](std::span<const int64_t> items) {
        while (items[0] == 1 && !elsewhere) std::this_thread::yield();
        if (items[0] == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return ids_of(items);
      },
      2);
  loader.next();  // the thread then reads batch 1, and waits
  elsewhere = true;
  for (int64_t i = 5; i < 8; ++i) CHECK(numbers(loader.batch(i)) == std::vector{i});
}

TEST_CASE("the thread reads no further than the bound, and ends when the loader does") {
  std::atomic<int> read = 0;
  {
    Loader loader(
        ordered_batches(100, 1),
        [&](std::span<const int64_t> items) {
          ++read;
          return ids_of(items);
        },
        3);
    CHECK(read == 0);  // nothing before the first batch is asked for
    loader.next();
    for (int i = 0; i < 2000 && read < 4; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(read == 4);  // the one that was taken, and three ahead
    Loader moved = std::move(loader);
    CHECK(numbers(moved.next()) == std::vector<int64_t>{1});
  }
  const int after = read;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(read == after);
  // Ends also while the thread waits, reads, or has failed
  for (int i = 0; i < 50; ++i) {
    Loader loader(
        ordered_batches(5, 1),
        [&](std::span<const int64_t> items) -> Batch {
          if (items[0] == 3) fail("damaged");
          return ids_of(items);
        },
        2);
    for (int j = 0; j < i % 4; ++j) loader.next();
  }
}
