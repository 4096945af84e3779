#include "nn/data/synthetic/sequences.h"

#include <algorithm>

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

}  // namespace vitrine::nn::synthetic
