// Masks from data: edges, parse trees, and layouts of blocks.
#include "nn/attention/graphs.h"

#include <doctest/doctest.h>

#include <string>

#include "core/creation.h"
#include "core/random.h"
#include "nn/attention/composed.h"
#include "nn/attention/parts/sparse.h"
#include "ops/view.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

std::string text_of(const Tensor& mask) {
  std::string text;
  const auto seen = mask.values();
  for (size_t i = 0; i < seen.size(); ++i) {
    if (i > 0 && i % static_cast<size_t>(mask.size(1)) == 0) text += ' ';
    text += seen[i] != 0 ? 'x' : '.';
  }
  return text;
}

Tensor edges(const std::vector<int64_t>& ends) {
  return index_tensor(ends, {static_cast<int64_t>(ends.size()) / 2, 2});
}

}  // namespace

TEST_CASE("edges: one way or both, with and without self, and a node without edges gives 0") {
  const Tensor path = edges({0, 1, 2, 1});
  CHECK(text_of(edge_mask(path, 4)) == "xx.. xxx. .xx. ...x");
  CHECK(text_of(edge_mask(path, 4, {.both_ways = false})) == "xx.. .x.. .xx. ...x");
  CHECK(text_of(edge_mask(path, 4, {.both_ways = false, .self = false})) == ".x.. .... .x.. ....");
  CHECK(text_of(edge_mask(zeros({0, 2}, DType::int64), 2)) == "x. .x");
  Generator g(1);
  const Tensor x = randn({1, 2, 4, 3}, DType::float64, Device::cpu, 0, 1, g);
  const ComposedAttention attention(parse_attention("standard"), 2, 3, 4);
  const Tensor y = attention.forward(x, x, x, {.allowed = edge_mask(path, 4, {.self = false})});
  for (const double value : slice(y, 2, 3, 4).values()) CHECK(value == 0);
  CHECK(spec::distance(slice(y, 2, 0, 1).values(), slice(x, 2, 1, 2).values(), 1e-3) < 1e-15);
  CHECK_THROWS_WITH_AS(edge_mask(edges({0, 1, 4, 0}), 4),
                       "edge_mask: edge 1 is (4, 0), wanted nodes from 0 to 3", Error);
  CHECK_THROWS_WITH_AS(edge_mask(zeros({3, 3}, DType::int64), 4), doctest::Contains("wanted int64 [E, 2]"),
                       Error);
}

TEST_CASE("trees: ancestors, descendants and siblings, forests, and what is no tree") {
  // 1 is the root of 0 and 3; 3 of 2 and 4
  const std::vector<int64_t> heads = {1, -1, 3, 1, 3};
  const TreeOptions none{.ancestors = false, .siblings = false};
  TreeOptions ancestors = none, descendants = none, siblings = none;
  ancestors.ancestors = descendants.descendants = siblings.siblings = true;
  CHECK(text_of(tree_mask(heads, none)) == "x.... .x... ..x.. ...x. ....x");
  CHECK(text_of(tree_mask(heads, ancestors)) == "xx... .x... .xxx. .x.x. .x.xx");
  CHECK(text_of(tree_mask(heads, descendants)) == "x.... xxxxx ..x.. ..xxx ....x");
  CHECK(text_of(tree_mask(heads, siblings)) == "x..x. .x... ..x.x x..x. ..x.x");
  CHECK(text_of(tree_mask(heads)) == "xx.x. .x... .xxxx xx.x. .xxxx");
  const std::vector<int64_t> forest = {-1, -1, 0}, chain = {-1, 0, 1, 2};
  CHECK(text_of(tree_mask(forest)) == "x.. .x. x.x");
  CHECK(text_of(tree_mask(chain)) == "x... xx.. xxx. xxxx");
  CHECK(tree_mask({}).shape() == Shape{0, 0});
  const std::vector<int64_t> cycle = {-1, 2, 3, 1}, own = {0}, far = {-1, 2};
  CHECK_THROWS_WITH_AS(tree_mask(cycle), doctest::Contains("node 1 is its own ancestor"), Error);
  CHECK_THROWS_WITH_AS(tree_mask(own), doctest::Contains("wanted a tree"), Error);
  CHECK_THROWS_WITH_AS(tree_mask(far), doctest::Contains("heads[1] is 2, wanted −1 for a root, or 0 to 1"),
                       Error);
}

TEST_CASE("layouts of blocks: given, by name, and registered as a part; queries after the keys of a cache") {
  const Tensor layout = tensor({1, 0, 1, 1}, {2, 2}, DType::boolean);
  CHECK(text_of(block_pattern({4, 4}, layout, 2)) == "xx.. xx.. xxxx xxxx");
  CHECK(text_of(block_pattern({1, 3}, layout, 2)) == "xxx");       // the query is at position 2
  CHECK(text_of(block_pattern({3, 2}, layout, 2)) == ".. xx xx");  // no position before 0
  CHECK(text_of(block_layout(4, 0, 1)) == "xxxx xx.. x.x. x..x");
  CHECK(text_of(block_layout(4, 1, 0)) == "xx.. xxx. .xxx ..xx");
  CHECK_THROWS_WITH_AS(block_pattern({5, 5}, layout, 2),
                       doctest::Contains("5 positions are in 2 blocks of 2"), Error);
  CHECK_THROWS_WITH_AS(block_pattern({2, 2}, slice(layout, 0, 0, 1), 2),
                       doctest::Contains("wanted bool [blocks, blocks]"), Error);
  CHECK_THROWS_WITH_AS(block_layout(2, -1, 0), doctest::Contains("wanted numbers ≥ 0"), Error);
  register_attention_part(pattern_part("two_blocks", "blocks of a test", [layout](const PatternSize& size) {
    return block_pattern(size, layout, 3);
  }));
  Generator g(2);
  const auto random = [&] { return randn({1, 2, 6, 3}, DType::float64, Device::cpu, 0, 1, g); };
  const Tensor q = random(), k = random(), v = random();
  const auto run = [&](const char* name, const AttentionMask& mask) {
    return ComposedAttention(parse_attention(name), 2, 3, 6).forward(q, k, v, mask).values();
  };
  CHECK(run("two_blocks", {}) == run("standard", {.allowed = block_pattern({6, 6}, layout, 3)}));
  CHECK(run("blocks=size=2:window=1:global=1", {}) ==
        run("standard", {.allowed = block_pattern({6, 6}, block_layout(3, 1, 1), 2)}));
  CHECK(run("blocks=size=2", {}) == run("standard", {}));  // 3 blocks: all are near or global
  CHECK(run("blocks=size=1", {}) != run("standard", {}));
}
