// The tasks of copy_and_parity.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "examples/copy_and_parity_settings.h"
#include "nn/data/dataset.h"
#include "nn/data/loader.h"
#include "nn/data/synthetic/sequences.h"

namespace vitrine::examples {

constexpr int64_t kSymbols = 8, kRemembered = 10, kMany = int64_t{1} << 31;

/// A task. Its items are sequences of one length each.
struct Problem {
  std::string name;
  int64_t vocabulary, length, shortest;  ///< training goes from short lengths to `length`
  std::function<nn::Dataset<nn::synthetic::Sequences>(nn::synthetic::Part part, int64_t length)> items;
  /// Held-out items of twice the length
  std::optional<nn::Dataset<nn::synthetic::Sequences>> longer;
  std::string what, expectation;  ///< for the report
};

inline Problem problem_named(const std::string& name, const MemorySettings& s) {
  const uint64_t seed = s.run.seed;
  if (name == "copy") {
    const auto items = [seed](nn::synthetic::Part part, int64_t length) {
      return nn::synthetic::written_after(
          nn::synthetic::copies(part, kMany, {kSymbols, length, length}, seed), kSymbols);
    };
    return {
        name,
        kSymbols + 1,
        s.copied,
        2,
        items,
        items(nn::synthetic::Part::held_out, 2 * s.copied),
        fmt::format("A string of {} symbols, a separator, and the string again.", s.copied),
        "An attention looks up each symbol. A recurrence has to carry the whole string in a state of fixed "
        "size, so it needs more training and fails first when strings become longer."};
  }
  if (name == "long_copy") {
    const auto items = [seed](nn::synthetic::Part part, int64_t length) {
      const int64_t delay = length - 2 * kRemembered;
      return nn::synthetic::counted_from(
          nn::synthetic::long_copies(part, kMany, {kSymbols, kRemembered, delay}, seed),
          length - kRemembered);
    };
    return {
        name,
        kSymbols + 2,
        s.total,
        32,
        items,
        {},
        fmt::format("{} symbols, {} blanks, a sign, and the symbols again.", kRemembered,
                    s.total - 2 * kRemembered),
        "A recurrence has to keep its state over all blanks. The cost of standard attention grows with the "
        "square of the length, that of the Reformer and of recurrences in proportion to it."};
  }
  check(name == "parity", "there is no task {}, wanted copy, long_copy or parity", name);
  const auto items = [seed](nn::synthetic::Part part, int64_t length) {
    return nn::synthetic::parities(part, kMany, length, length, seed);
  };
  return {
      name,
      2,
      s.bits,
      2,
      items,
      nn::synthetic::counted_from(items(nn::synthetic::Part::held_out, 2 * s.bits), s.bits),
      fmt::format("At each of {} bits, the sum modulo 2 of the bits so far.", s.bits),
      "Attention of a fixed depth does not count longer strings than it was trained on. A recurrence whose "
      "state only decays, such as RWKV-4 or Mamba, does not either: a bit 1 has to change the sign of a "
      "state. RWKV-7 can do that."};
}

inline int64_t positions_of(const nn::Dataset<nn::synthetic::Sequences>& items) {
  return std::ssize(items[0].input);
}

/// The number of sequences of a batch.
inline int64_t rows_of(const nn::Dataset<nn::synthetic::Sequences>& items, int64_t tokens) {
  return std::max<int64_t>(1, tokens / positions_of(items));
}

/// The length of training after this share of the run. Each length has an equal part of the run,
/// and the last one two.
inline int64_t length_at(const Problem& p, double share) {
  int64_t lengths = 0;
  while ((p.length >> lengths) >= p.shortest) ++lengths;
  const auto at = static_cast<int64_t>(share * static_cast<double>(lengths + 1));
  return p.length >> std::max<int64_t>(0, lengths - 1 - at);
}

inline nn::Batch training_batch(const Problem& p, const MemorySettings& s, int64_t index) {
  const int64_t count = s.run.training.steps * s.run.training.accumulate;
  const auto items = p.items(nn::synthetic::Part::training,
                             length_at(p, static_cast<double>(index) / static_cast<double>(count)));
  const int64_t rows = rows_of(items, s.tokens);
  std::vector<nn::synthetic::Sequences> chosen;
  for (const nn::synthetic::Sequences& item : nn::subset(items, index * rows, (index + 1) * rows))
    chosen.push_back(item);
  return nn::synthetic::batch_of(chosen);
}

inline std::vector<nn::Batch> held_out_batches(const nn::Dataset<nn::synthetic::Sequences>& items,
                                               const MemorySettings& s) {
  const int64_t rows = rows_of(items, s.tokens), count = rows * s.held_out;
  return nn::Loader(nn::subset(items, 0, count), nn::ordered_batches(count, rows), nn::synthetic::batch_of)
      .whole();
}

}  // namespace vitrine::examples
