// Sparse attention: parts that let a query see the keys of a pattern, which is a mask of all pairs.
// A CPU skips blocks of keys that no query of a tile sees. A causal window with global tokens needs
// no mask, and computes no hidden pairs but those at its edges.
#include "nn/attention/parts/sparse.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/creation.h"
#include "nn/attention/parts/rows.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/view.h"

namespace vitrine::nn::parts {
namespace {

class Sparse : public AttentionPart {
 public:
  explicit Sparse(MakePattern make) : make_(std::move(make)) {
    make_({1, 1});  // checks the options
  }
  bool fold(AttentionOptions&, const FoldCall&) const override { return true; }
  AttentionMask restrict(AttentionMask mask, int64_t queries, int64_t keys, Device device) const override {
    const Tensor seen =
        mask.start.defined() ? by_row(mask.start, queries, keys, device) : make_({queries, keys, device});
    mask.allowed = mask.allowed.defined() ? logical_and(mask.allowed, seen) : seen;
    return mask;
  }

 private:
  /// [B, 1, Tq, Tk]: the pattern of each row for its own positions. The CPU reads `start`.
  Tensor by_row(const Tensor& start, int64_t queries, int64_t keys, Device device) const {
    std::vector<Tensor> rows;
    for (const double first : start.values()) {
      const int64_t before = std::min(static_cast<int64_t>(first), keys);
      const Tensor own = make_({queries, keys - before, device});
      // A negative start: the first keys of the pattern are no longer there
      rows.push_back(before < 0 ? slice(own, 1, -before)
                                : concat({zeros({queries, before}, DType::boolean, device), own}, 1));
    }
    return unsqueeze(stack(rows, 0), 1);
  }

  MakePattern make_;
};

class Global : public Sparse {
 public:
  Global(int64_t tokens, int64_t window)
      : Sparse([=](const PatternSize& size) {
          std::vector<int64_t> first(static_cast<size_t>(std::min(tokens, size.keys)));
          std::iota(first.begin(), first.end(), 0);
          return global_pattern(size, window, first);
        }),
        tokens_(tokens),
        window_(window) {}
  AttentionMask restrict(AttentionMask mask, int64_t queries, int64_t keys, Device device) const override {
    if (mask.causal && !mask.start.defined()) return mask.within(window_, tokens_, queries, keys, device);
    return Sparse::restrict(std::move(mask), queries, keys, device);
  }

 private:
  int64_t tokens_, window_;
};

using Make = std::function<std::unique_ptr<AttentionPart>(const PartValues&)>;

Make from_pattern(std::function<MakePattern(const PartValues&)> make) {
  return
      [make = std::move(make)](const PartValues& values) { return std::make_unique<Sparse>(make(values)); };
}

/// A row whose options are whole numbers.
AttentionPartRow row(const std::string& name, const std::string& help, const std::string& formula,
                     const std::string& source, std::vector<PartOption> options, Make make) {
  for (PartOption& option : options) option.least = 1, option.whole = true;
  return {.name = name,
          .stage = Stage::mask,
          .help = help,
          .formula = formula,
          .source = source,
          .options = std::move(options),
          .make = [make = std::move(make)](const AttentionSizes&, const PartValues& values) {
            return make(values);
          }};
}

}  // namespace

AttentionPartRow blocks() {
  return row(
      "blocks", "blocks of positions see near blocks, and the first blocks see all and are seen by all",
      "key j is visible if |b_i − b_j| ≤ window, b_i < global or b_j < global, for the blocks b = ⌊i/size⌋",
      "Zaheer et al. 2020",
      {{.name = "size", .help = "the number of positions of a block", .initial = "8"},
       {.name = "window", .help = "the number of blocks on each side", .initial = "1"},
       {.name = "global", .help = "the number of the first blocks", .initial = "1"}},
      from_pattern([](const PartValues& values) -> MakePattern {
        return [block = values.whole("size"), window = values.whole("window"),
                global = values.whole("global")](const PatternSize& size) {
          return block_pattern(size, block_layout((size.keys + block - 1) / block, window, global), block);
        };
      }));
}

AttentionPartRow dilated() {
  return row("dilated", "a query sees keys whose distance is a multiple of the dilation",
             "key j is visible if |i − j| = m·dilation and m ≤ window", "Beltagy et al. 2020",
             {{.name = "window", .help = "the number of these keys on each side", .initial = "8"},
              {.name = "dilation", .help = "the distance between them", .initial = "2"}},
             from_pattern([](const PartValues& values) -> MakePattern {
               return [window = values.whole("window"), dilation = values.whole("dilation")](
                          const PatternSize& size) { return dilated_pattern(size, window, dilation); };
             }));
}

AttentionPartRow global() {
  AttentionPartRow global =
      row("global", "the first tokens see all and are seen by all; other queries also see a window",
          "key j is visible if |i − j| ≤ window, i < tokens or j < tokens",
          "Beltagy et al. 2020; Xiao et al. 2023",
          {{.name = "tokens", .help = "the number of the first tokens", .initial = "1"},
           {.name = "window", .help = "the number of keys on each side", .initial = "8"}},
          [](const PartValues& values) {
            return std::make_unique<Global>(values.whole("tokens"), values.whole("window"));
          });
  global.linear_as = "global=window=32";
  return global;
}

AttentionPartRow strided() {
  return row("strided", "a query sees the last keys, and before them one key in each stride",
             "key j is visible if |i − j| < stride or stride divides i − j", "Child et al. 2019",
             {{.name = "stride", .help = "the number of the last keys", .initial = "8"}},
             from_pattern([](const PartValues& values) -> MakePattern {
               return [stride = values.whole("stride")](const PatternSize& size) {
                 return strided_pattern(size, stride);
               };
             }));
}

AttentionPartRow fixed() {
  return row(
      "fixed", "a query sees its own block, and the last keys of all blocks",
      "key j is visible if its block is that of i, or j mod stride ≥ stride − summary", "Child et al. 2019",
      {{.name = "stride", .help = "the size of a block", .initial = "8"},
       {.name = "summary", .help = "the number of the last keys of a block", .initial = "1"}},
      from_pattern([](const PartValues& values) -> MakePattern {
        return [stride = values.whole("stride"), summary = values.whole("summary")](const PatternSize& size) {
          return fixed_pattern(size, stride, summary);
        };
      }));
}

}  // namespace vitrine::nn::parts

namespace vitrine::nn {

AttentionPartRow pattern_part(const std::string& name, const std::string& help, MakePattern pattern) {
  return parts::row(name, help, "", "", {},
                    parts::from_pattern([pattern](const PartValues&) { return pattern; }));
}

}  // namespace vitrine::nn
