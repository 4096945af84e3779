// Checks every gradient on a tape. Each node is checked alone, so that the report names the node
// that is wrong and not the nodes that depend on it.
//
//   Tape tape({.checkable = true});
//   const Tensor loss = cross_entropy(model(x), y);
//   std::cout << check_tape(tape);   // or CHECK(check_tape(tape).passed())
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "core/gradcheck/check_gradients.h"

namespace vitrine {

/// Options of the check. The defaults are for float64.
struct CheckTapeOptions {
  /// The limit for differences. A node in a coarser dtype, of machine epsilon ε, has the limit
  /// min(1000·ε, 0.1).
  double tolerance = 1e-6;
  double dual_tolerance = 1e-10;  ///< for dual numbers; other dtypes as for differences
  /// The error of an input's gradient g is |got − want| / max(‖g‖, |want|, floor), the largest over
  /// 4 directions.
  double floor = 1e-3;
  bool duals = true;  ///< whether dual numbers are used if possible
  uint64_t seed = 7;  ///< seed of the cotangents and directions
};

enum class NodeVerdict {
  right,
  wrong,
  undecided,    ///< the function has no derivative at this point
  cut,          ///< gradients end here, as in detach and comparisons; nothing to check
  not_checked,  ///< the forward cannot run again; NodeCheck::explanation says why
};
std::string_view name(NodeVerdict verdict);

/// The result for one node.
struct NodeCheck {
  size_t index;        ///< index on the tape
  std::string op;      ///< "softmax"
  std::string module;  ///< "blocks.0.attention"; may be empty
  NodeVerdict verdict = NodeVerdict::right;
  /// Error and limit of the comparison whose error is the largest multiple of its limit; −1 if
  /// there was none.
  double error = -1;
  double limit = 0;
  Cause cause = Cause::none;
  /// The likely cause, or why the node was not checked; empty if the node is right.
  std::string explanation = {};
  GradientReport report = {};  ///< the errors per input, by differences and by dual numbers
};

/// The results for all nodes, in the order of the tape.
struct TapeCheck {
  std::vector<NodeCheck> nodes;

  /// True if no node is wrong. Nodes that could not be checked do not count as wrong: see count().
  bool passed() const { return first_wrong() == nullptr; }
  /// The wrong node that ran first; null if there is none.
  const NodeCheck* first_wrong() const;
  size_t count(NodeVerdict verdict) const;
};

/// The first wrong node with its likely cause, then one line per node.
std::string to_string(const TapeCheck& result);
std::ostream& operator<<(std::ostream& out, const TapeCheck& result);

/// Checks every node of a tape that was recorded with TapeOptions::checkable. For a random
/// cotangent of each output, a node's vector-Jacobian product is compared with 4-point central
/// differences of the node's own forward, whose kernels run again in float64. If these kernels (or
/// the kernels of the op's definition) support dual64, the product is also compared with exact dual
/// numbers. Nodes are checked in parallel. The tape, its tensors and the gradients of leaves do not
/// change. Only nodes on the CPU can be checked. Errors: the tape is not checkable, or a backward
/// pass has consumed it.
TapeCheck check_tape(Tape& tape, const CheckTapeOptions& options = {});

}  // namespace vitrine
