#include "nn/attention/graphs.h"

#include <vector>

#include "core/creation.h"

namespace vitrine::nn {
namespace {

/// A mask that is written pair by pair.
class Pairs {
 public:
  explicit Pairs(int64_t nodes) : nodes_(nodes), seen_(static_cast<size_t>(nodes * nodes), 0) {}
  void add(int64_t query, int64_t key) { seen_[static_cast<size_t>(query * nodes_ + key)] = 1; }
  void add_self() {
    for (int64_t i = 0; i < nodes_; ++i) add(i, i);
  }
  Tensor mask(Device device) const { return tensor(seen_, {nodes_, nodes_}, DType::boolean, device); }

 private:
  int64_t nodes_;
  std::vector<uint8_t> seen_;
};

}  // namespace

Tensor edge_mask(const Tensor& edges, int64_t nodes, const EdgeOptions& options) {
  check(edges.rank() == 2 && edges.size(1) == 2 && edges.dtype() == DType::int64 && nodes >= 0,
        "edge_mask: the edges are {} for {} nodes, wanted int64 [E, 2] and a number ≥ 0", describe(edges),
        nodes);
  Pairs pairs(nodes);
  if (options.self) pairs.add_self();
  const std::vector<double> ends = edges.values();
  for (size_t e = 0; e + 1 < ends.size(); e += 2) {
    const auto query = static_cast<int64_t>(ends[e]), key = static_cast<int64_t>(ends[e + 1]);
    check(query >= 0 && query < nodes && key >= 0 && key < nodes,
          "edge_mask: edge {} is ({}, {}), wanted nodes from 0 to {}", e / 2, query, key, nodes - 1);
    pairs.add(query, key);
    if (options.both_ways) pairs.add(key, query);
  }
  return pairs.mask(edges.device());
}

Tensor tree_mask(std::span<const int64_t> heads, const TreeOptions& options, Device device) {
  const auto nodes = static_cast<int64_t>(heads.size());
  Pairs pairs(nodes);
  pairs.add_self();
  const auto head = [&](int64_t i) { return heads[static_cast<size_t>(i)]; };
  for (int64_t i = 0; i < nodes; ++i)
    check(head(i) >= -1 && head(i) < nodes, "tree_mask: heads[{}] is {}, wanted −1 for a root, or 0 to {}", i,
          head(i), nodes - 1);
  for (int64_t i = 0; i < nodes; ++i) {
    int64_t steps = 0;
    for (int64_t above = head(i); above >= 0; above = head(above)) {
      check(++steps < nodes, "tree_mask: node {} is its own ancestor or below such a node, wanted a tree", i);
      if (options.ancestors) pairs.add(i, above);
      if (options.descendants) pairs.add(above, i);
    }
    for (int64_t j = 0; options.siblings && head(i) >= 0 && j < nodes; ++j)
      if (head(j) == head(i)) pairs.add(i, j);
  }
  return pairs.mask(device);
}

}  // namespace vitrine::nn
