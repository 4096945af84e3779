// One backward pass over a tape. Internal.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/record.h"
#include "core/tape.h"

namespace vitrine {

struct Tape::Pass {
  const char* name;
  bool to_leaves;  ///< add into leaves (backward), or return gradients (gradient)
  bool recorded;   ///< the pass is itself recorded
  bool keep;
  std::vector<Tensor> gradients;  ///< by slot
  std::vector<bool> needed;       ///< by slot
  std::vector<bool> wanted;       ///< by slot: requested from gradient(), or seen by hooks alone
  struct Change {
    Leaf* leaf;
    bool was_stale;
  };
  std::vector<Change>
      changed;      ///< leaves added to so far, marked as stale until the pass has come to its end
  size_t node = 0;  ///< the node whose backward runs; no node once all have run

  void will_change(Leaf& leaf) {
    // A leaf that is not stale cannot be in the list yet, so only a stale one is looked up.
    if (leaf.stale &&
        std::any_of(changed.begin(), changed.end(), [&](const Change& c) { return c.leaf == &leaf; }))
      return;
    changed.push_back({&leaf, std::exchange(leaf.stale, true)});
  }
};

namespace detail {

/// While this object lives, messages and the profiler name the op and the module whose backward
/// runs.
class BackwardScope {
 public:
  BackwardScope(const char* op, const std::string* module);
  ~BackwardScope();
  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;

 private:
  ModuleScope module_;
  const char* op_;
  int64_t start_;  ///< 0 where no profiler is active
};

/// Whether a gradient may be returned to the user: no other handle sees its memory, and no two of
/// its elements share memory.
bool is_owned(const Tensor& gradient);

}  // namespace detail
}  // namespace vitrine
