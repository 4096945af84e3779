// Persistent memory (Sukhbaatar et al. 2019): learned keys and values that every query sees.
#include <cmath>

#include "nn/attention/parts/rows.h"
#include "nn/init.h"

namespace vitrine::nn::parts {
namespace {

/// M keys and values per head. Keys start as N(0, 1/D), so that normal queries give scores of
/// variance 1/D, and values as N(0, 1/M).
class Persistent : public AttentionPart {
 public:
  Persistent(const AttentionSizes& sizes, int64_t count)
      : keys(normal({sizes.heads, count, sizes.head_size}, root(sizes.head_size))),
        values(normal({sizes.heads, count, sizes.head_size}, root(count))) {}
  bool fold(AttentionOptions&, const FoldCall&) const override { return true; }
  Memory memory() const override { return {keys, values}; }
  void fields(Fields& f) override {
    f("keys", keys);
    f("values", values);
  }

  Parameter keys, values;  // [H, M, D]

 private:
  static double root(int64_t size) { return 1 / std::sqrt(static_cast<double>(size)); }
};

}  // namespace

AttentionPartRow persistent() {
  return {
      .name = "persistent",
      .stage = Stage::extend,
      .help = "persistent=m: m learned keys and values per head, which every query sees",
      .formula = "keys and values [m_k; k] and [m_v; v]",
      .source = "Sukhbaatar et al. 2019",
      .options = {{.name = "keys", .help = "their number, m", .initial = "16", .least = 1, .whole = true}},
      .make = [](const AttentionSizes& sizes, const PartValues& values) {
        return std::make_unique<Persistent>(sizes, values.whole("keys"));
      }};
}

}  // namespace vitrine::nn::parts
