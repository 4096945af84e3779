#include "nn/data/synthetic/sequences.h"

#include <algorithm>
#include <iterator>

#include "core/creation.h"

namespace vitrine::nn::synthetic {
namespace {

/// Sequences of one part whose target is a function of the input.
template <class Target>
Dataset<Sequences> sequences(std::string_view op, Part part, int64_t size, const SequenceOptions& o,
                             uint64_t seed, Target target) {
  check(o.symbols > 0 && o.shortest > 0 && o.longest >= o.shortest,
        "{}: {} symbols and lengths from {} to {}, wanted at least 1, in this order", op, o.symbols,
        o.shortest, o.longest);
  return drawn<Sequences>(
      part, size, seed,
      [=](Generator& random) {
        Sequences item;
        item.input.resize(static_cast<size_t>(o.shortest + random.next_below(o.longest - o.shortest + 1)));
        for (int64_t& symbol : item.input) symbol = random.next_below(o.symbols);
        item.target = target(item.input);
        return item;
      },
      [](const Sequences& item) { return content_of(item.input); });
}

}  // namespace

Dataset<Sequences> reversals(Part part, int64_t size, const SequenceOptions& options, uint64_t seed) {
  return sequences("reversals", part, size, options, seed, [](const std::vector<int64_t>& input) {
    return std::vector<int64_t>(input.rbegin(), input.rend());
  });
}

Dataset<Sequences> copies(Part part, int64_t size, const SequenceOptions& options, uint64_t seed) {
  return sequences("copies", part, size, options, seed,
                   [](const std::vector<int64_t>& input) { return input; });
}

Dataset<Sequences> parities(Part part, int64_t size, int64_t shortest, int64_t longest, uint64_t seed) {
  return sequences("parities", part, size, {2, shortest, longest}, seed,
                   [](const std::vector<int64_t>& input) {
                     std::vector<int64_t> target;
                     for (int64_t parity = 0; const int64_t bit : input) target.push_back(parity ^= bit);
                     return target;
                   });
}

Dataset<Sequences> long_copies(Part part, int64_t size, const LongCopyOptions& o, uint64_t seed) {
  check(o.symbols > 0 && o.remembered > 0 && o.delay >= 0,
        "long_copies: symbols {}, remembered {} and delay {}, wanted 1, 1 and 0 at least", o.symbols,
        o.remembered, o.delay);
  return drawn<Sequences>(
      part, size, seed,
      [o](Generator& random) {
        const int64_t length = 2 * o.remembered + o.delay;
        Sequences item{std::vector<int64_t>(static_cast<size_t>(length), 0),
                       std::vector<int64_t>(static_cast<size_t>(length), 0)};
        const auto sign = static_cast<size_t>(o.remembered + o.delay);
        for (size_t i = 0; i < static_cast<size_t>(o.remembered); ++i)
          item.target[sign + i] = item.input[i] = 1 + random.next_below(o.symbols);
        item.input[sign] = o.symbols + 1;
        return item;
      },
      [](const Sequences& item) { return content_of(item.input); });
}

Dataset<Sequences> written_after(Dataset<Sequences> items, int64_t separator) {
  return mapped(std::move(items), [separator](Sequences item) {
    std::vector<int64_t> target(item.input.size(), kIgnored);
    target.insert(target.end(), item.target.begin(), item.target.end());
    item.input.push_back(separator);
    item.input.insert(item.input.end(), item.target.begin(), std::prev(item.target.end()));
    return Sequences{std::move(item.input), std::move(target)};
  });
}

Dataset<Sequences> counted_from(Dataset<Sequences> items, int64_t first) {
  return mapped(std::move(items), [first](Sequences item) {
    const int64_t count = std::min(first, std::ssize(item.target));
    std::fill_n(item.target.begin(), count, kIgnored);
    return item;
  });
}

Batch batch_of(std::span<const Sequences> sequences) {
  check(!sequences.empty(), "batch_of: there are no sequences");
  std::vector<int64_t> inputs, targets;
  for (const Sequences& s : sequences) {
    check(s.input.size() == sequences[0].input.size() && s.target.size() == s.input.size(),
          "batch_of: a sequence has {} symbols and {} targets, wanted {} like the first", s.input.size(),
          s.target.size(), sequences[0].input.size());
    inputs.insert(inputs.end(), s.input.begin(), s.input.end());
    targets.insert(targets.end(), s.target.begin(), s.target.end());
  }
  const Shape shape = {std::ssize(sequences), std::ssize(sequences[0].input)};
  return {{index_tensor(inputs, shape), index_tensor(targets, shape)},
          std::ssize(targets) - std::count(targets.begin(), targets.end(), kIgnored)};
}

}  // namespace vitrine::nn::synthetic
