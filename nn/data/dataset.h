// Data sets: items by number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"

namespace vitrine::nn {

/// A data set: its size, and a function that gives item i, 0 ≤ i < size. Item i is the same in
/// every call, so an order of the numbers is an order of the items. Readers keep only what they
/// need to find an item (lines of a file, paths), and read the item when it is asked for. Copies
/// share the function. The readers of nn/data may be called on several threads at once.
template <class Item>
class Dataset {
 public:
  Dataset() = default;
  Dataset(int64_t size, std::function<Item(int64_t)> item) : size_(size), item_(std::move(item)) {
    check(size >= 0, "Dataset: the size is {}, wanted at least 0", size);
  }
  /// Items in memory.
  Dataset(std::vector<Item> items)
      : size_(std::ssize(items)),
        item_([all = std::make_shared<const std::vector<Item>>(std::move(items))](int64_t i) {
          return (*all)[static_cast<size_t>(i)];
        }) {}

  int64_t size() const { return size_; }
  /// Item `index`; an index outside [0, size) is an error.
  Item operator[](int64_t index) const {
    check(index >= 0 && index < size_, "Dataset: there is no item {} among {}", index, size_);
    return item_(index);
  }

  /// Visits the items in order: for (const auto& item : dataset).
  struct Iterator {
    const Dataset* dataset;
    int64_t index;
    Item operator*() const { return (*dataset)[index]; }
    Iterator& operator++() {
      ++index;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return index != other.index; }
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size_}; }

 private:
  int64_t size_ = 0;
  std::function<Item(int64_t)> item_;
};

/// The data set of f(item), computed when an item is asked for.
template <class Item, class F>
Dataset<std::invoke_result_t<F, Item>> mapped(Dataset<Item> items, F f) {
  const int64_t size = items.size();
  return {size, [items = std::move(items), f = std::move(f)](int64_t i) { return f(items[i]); }};
}

/// Items [begin, end) of a data set; a range that is not there is an error.
template <class Item>
Dataset<Item> subset(Dataset<Item> items, int64_t begin, int64_t end) {
  check(begin >= 0 && begin <= end && end <= items.size(), "subset: there are no items [{}, {}) among {}",
        begin, end, items.size());
  return {end - begin, [items = std::move(items), begin](int64_t i) { return items[begin + i]; }};
}

/// A data set in two parts: `held_out` has the last of every `period` items, and `training` the
/// others. A period below 2 is an error.
template <class Item>
struct Split {
  Dataset<Item> training, held_out;
};
template <class Item>
Split<Item> held_out_split(const Dataset<Item>& items, int64_t period) {
  check(period >= 2, "held_out_split: the period is {}, wanted at least 2", period);
  const int64_t held_out = items.size() / period;
  return {{items.size() - held_out, [=](int64_t i) { return items[i + i / (period - 1)]; }},
          {held_out, [=](int64_t i) { return items[(i + 1) * period - 1]; }}};
}

/// The items of several data sets, one set after the other.
template <class Item>
Dataset<Item> concatenated(std::vector<Dataset<Item>> sets) {
  std::vector<int64_t> ends;
  for (const auto& set : sets) ends.push_back(set.size() + (ends.empty() ? 0 : ends.back()));
  const int64_t size = ends.empty() ? 0 : ends.back();
  return {size, [sets = std::move(sets), ends = std::move(ends)](int64_t i) {
            const auto which =
                static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), i) - ends.begin());
            return sets[which][i - (which == 0 ? 0 : ends[which - 1])];
          }};
}

}  // namespace vitrine::nn
