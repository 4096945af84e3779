#include "nn/data/batch_plan.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/random.h"

namespace vitrine::nn {
namespace {

/// The numbers of an epoch: far from those of every other epoch.
Generator generator_of(uint64_t seed, int64_t epoch) {
  Generator generator;
  generator.set(seed, static_cast<uint64_t>(epoch) << 36);
  return generator;
}

void shuffle(std::vector<int64_t>& order, Generator& generator) {
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<size_t>(generator.next_below(static_cast<int64_t>(i)))]);
}

Epoch in_order(int64_t items, int64_t batch) {
  Epoch epoch;
  epoch.order.resize(static_cast<size_t>(items));
  std::iota(epoch.order.begin(), epoch.order.end(), 0);
  for (int64_t end = 0; end < items;) epoch.ends.push_back(end = std::min(end + batch, items));
  return epoch;
}

void check_sizes(std::string_view op, int64_t items, int64_t batch) {
  check(items > 0 && batch > 0, "{}: {} items in batches of {}, wanted at least 1 of each", op, items, batch);
}

/// The items that remain without the longest, in order.
std::vector<int64_t> kept_items(const std::vector<ItemLength>& lengths, const LengthBucketOptions& options) {
  std::vector<int64_t> kept(lengths.size());
  std::iota(kept.begin(), kept.end(), 0);
  const auto total = [&](int64_t i) {
    return lengths[static_cast<size_t>(i)].source + lengths[static_cast<size_t>(i)].target;
  };
  std::stable_sort(kept.begin(), kept.end(), [&](int64_t a, int64_t b) { return total(a) < total(b); });
  const auto removed = static_cast<size_t>(options.remove_longest * static_cast<double>(kept.size()));
  kept.resize(kept.size() - removed);
  check(
      !kept.empty() && total(kept.back()) <= options.tokens,
      "length_buckets: item {} has {} tokens, and a batch at most {}: wanted a larger bound or remove_longest",
      kept.empty() ? 0 : kept.back(), kept.empty() ? 0 : total(kept.back()), options.tokens);
  std::sort(kept.begin(), kept.end());
  return kept;
}

/// Appends to `ends` the batches of the sorted items [begin, end) of the order.
void cut(const std::vector<ItemLength>& lengths, const LengthBucketOptions& options, Epoch& epoch,
         size_t begin, size_t end) {
  ItemLength longest;
  for (size_t i = begin, first = begin; i < end; ++i) {
    const ItemLength& item = lengths[static_cast<size_t>(epoch.order[i])];
    const ItemLength grown{std::max(longest.source, item.source), std::max(longest.target, item.target)};
    const auto rows = static_cast<int64_t>(i - first) + 1;
    const bool fits = rows <= options.rows && rows * (grown.source + grown.target) <= options.tokens;
    if (!fits) {
      epoch.ends.push_back(static_cast<int64_t>(i));
      first = i;
    }
    longest = fits ? grown : item;
  }
  epoch.ends.push_back(static_cast<int64_t>(end));
}

/// The same batches in a random order.
Epoch with_shuffled_batches(const Epoch& epoch, Generator& generator) {
  std::vector<int64_t> numbers(epoch.ends.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  shuffle(numbers, generator);
  Epoch result;
  result.order.reserve(epoch.order.size());
  for (const int64_t b : numbers) {
    const auto items = epoch.batch(b);
    result.order.insert(result.order.end(), items.begin(), items.end());
    result.ends.push_back(std::ssize(result.order));
  }
  return result;
}

}  // namespace

std::span<const int64_t> Epoch::batch(int64_t b) const {
  const int64_t begin = b == 0 ? 0 : ends[static_cast<size_t>(b) - 1];
  return std::span(order).subspan(static_cast<size_t>(begin),
                                  static_cast<size_t>(ends[static_cast<size_t>(b)] - begin));
}

BatchPlan shuffled_batches(int64_t items, int64_t batch, uint64_t seed) {
  check_sizes("shuffled_batches", items, batch);
  return {items, seed, [=](int64_t number) {
            Epoch epoch = in_order(items, batch);
            Generator generator = generator_of(seed, number);
            shuffle(epoch.order, generator);
            return epoch;
          }};
}

BatchPlan ordered_batches(int64_t items, int64_t batch) {
  check_sizes("ordered_batches", items, batch);
  return {items, 0, [=](int64_t) { return in_order(items, batch); }};
}

BatchPlan length_buckets(std::vector<ItemLength> lengths, const LengthBucketOptions& options, uint64_t seed) {
  const int64_t items = std::ssize(lengths);
  check(items > 0, "length_buckets: there are no items");
  check(options.tokens > 0 && options.rows > 0 && options.pool > 0,
        "length_buckets: tokens {}, rows {} and pool {} must be above 0", options.tokens, options.rows,
        options.pool);
  check(options.remove_longest >= 0 && options.remove_longest < 1,
        "length_buckets: remove_longest is {}, wanted a share from 0 to below 1", options.remove_longest);
  for (int64_t i = 0; i < items; ++i) {
    const ItemLength& item = lengths[static_cast<size_t>(i)];
    constexpr int64_t kLargest = int64_t{1} << 31;
    check(item.source >= 0 && item.target >= 0 && item.source < kLargest && item.target < kLargest,
          "length_buckets: item {} has the lengths {} and {}, wanted 0 to 2^31", i, item.source, item.target);
  }
  auto kept = std::make_shared<const std::vector<int64_t>>(kept_items(lengths, options));
  auto shared = std::make_shared<const std::vector<ItemLength>>(std::move(lengths));
  return {items, seed, [=](int64_t number) {
            Generator generator = generator_of(seed, number);
            Epoch epoch{*kept, {}};
            shuffle(epoch.order, generator);
            const auto shorter = [&](int64_t a, int64_t b) {
              const ItemLength &x = (*shared)[static_cast<size_t>(a)], &y = (*shared)[static_cast<size_t>(b)];
              return std::pair(x.source, x.target) < std::pair(y.source, y.target);
            };
            const auto pool = static_cast<size_t>(options.pool);
            for (size_t begin = 0; begin < epoch.order.size(); begin += pool) {
              const size_t end = std::min(begin + pool, epoch.order.size());
              const auto from = epoch.order.begin();
              std::stable_sort(from + static_cast<int64_t>(begin), from + static_cast<int64_t>(end), shorter);
              cut(*shared, options, epoch, begin, end);
            }
            return with_shuffled_batches(epoch, generator);
          }};
}

}  // namespace vitrine::nn
