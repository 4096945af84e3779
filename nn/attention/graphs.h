// Masks from data: which pairs of positions an edge list or a parse tree connects. A mask is bool
// [T, T], for AttentionMask::allowed: a row per query, a column per key.
#pragma once

#include <span>

#include "core/tensor.h"

namespace vitrine::nn {

/// Which pairs an edge connects, besides the query and the key that it names.
struct EdgeOptions {
  bool both_ways = true;  ///< the key also sees the query
  bool self = true;       ///< each node sees itself
};
/// bool [nodes, nodes]: query a sees key b for each edge (a, b) of `edges`, int64 [E, 2]. Attention
/// with this mask is attention over a graph (Veličković et al. 2018). A node outside [0, nodes) is
/// an error that names the edge.
Tensor edge_mask(const Tensor& edges, int64_t nodes, const EdgeOptions& options = {});

/// Which nodes of a parse tree a node sees besides itself.
struct TreeOptions {
  bool ancestors = true;     ///< its head, the head of its head, …, the root
  bool descendants = false;  ///< the nodes whose ancestor it is
  bool siblings = true;      ///< the nodes with the same head; roots are no siblings
};
/// bool [T, T] for a tree or several. heads[i] is the head (parent) of node i; a root has −1. A
/// head outside [−1, T) and a cycle are errors.
Tensor tree_mask(std::span<const int64_t> heads, const TreeOptions& options = {},
                 Device device = Device::cpu);

}  // namespace vitrine::nn
