// Shows the tape: a table, and the answer to "why has this tensor no gradient?".
#include <algorithm>
#include <iostream>

#include <fmt/ostream.h>

#include "core/tape.h"

namespace vitrine {

Tape::NodeInfo Tape::info(size_t index) const {
  check(index < nodes_.size(), "info: node {} was asked for, the tape has {}", index, nodes_.size());
  const Node& node = nodes_[index];
  NodeInfo result{node.op,
                  *node.module,
                  node.input_shapes,
                  {},
                  node.inputs,
                  node.outputs,
                  DType::float32,
                  node.bytes_saved,
                  static_cast<double>(node.microseconds),
                  !node.cut && !node.backward};
  for (int32_t slot : node.outputs) {
    const Slot& s = slots_[static_cast<size_t>(slot)];
    result.outputs.push_back(s.shape);
    if (result.outputs.size() == 1) result.dtype = s.dtype;
  }
  return result;
}

void Tape::print(std::ostream& out, size_t max_rows) const {
  fmt::print(out, "{:>5}  {:<20} {:<26} {:<26} {:<18} {:>12} {:>9}\n", "op", "name", "module", "inputs",
             "output", "saved bytes", "us");
  const size_t rows = std::min(max_rows, nodes_.size());
  size_t saved = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const NodeInfo node = info(i);
    saved += node.bytes_saved;
    if (i >= rows) continue;
    std::vector<std::string> inputs, outputs;
    for (const Shape& shape : node.inputs) inputs.push_back(to_string(shape));
    for (const Shape& shape : node.outputs) outputs.push_back(to_string(shape));
    fmt::print(out, "{:>5}  {:<20} {:<26} {:<26} {:<18} {:>12} {:>9.1f}\n", i, node.op, node.module,
               fmt::to_string(fmt::join(inputs, " ")),
               nodes_[i].cut ? "(cut)" : fmt::to_string(fmt::join(outputs, " ")), node.bytes_saved,
               node.microseconds);
  }
  if (rows < nodes_.size()) fmt::print(out, "  … {} more ops\n", nodes_.size() - rows);
  fmt::print(out, "{} ops, {} bytes saved by them (what several save is counted several times)\n",
             nodes_.size(), saved);
}

void Tape::print() const { print(std::cout); }

std::string Tape::explain(const Tensor& x, const Tensor& loss) const {
  const int32_t start = slot_of(x), end = slot_of(loss);
  const std::string what = describe(x).text();
  const auto dead_read =
      std::find_if(nodes_.begin(), nodes_.end(), [](const Node& n) { return n.reads_dead_tape; });
  const std::string hint = dead_read == nodes_.end() ? ""
                                                     : fmt::format(
                                                           "; note that op {} ({}) read a tensor recorded on "
                                                           "a tape that has ended, which is a constant here",
                                                           dead_read - nodes_.begin(), dead_read->op);
  if (end < 0)
    return fmt::format("the loss was not recorded on this tape{}",
                       was_on_dead_tape(loss) ? ": it was on one that has ended" : ", so it is a constant");
  if (start < 0) {
    if (was_on_dead_tape(x)) return what + " was recorded on a tape that has ended, so it is a constant here";
    if (!x.requires_grad())
      return what +
             " is a constant: it does not require a gradient, is not watched and is no output of this tape";
    return what + " was never used by an op on this tape" + hint;
  }
  std::vector<bool> reached(slots_.size(), false);
  reached[static_cast<size_t>(start)] = true;
  std::string first_cut, last_use;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const bool hit = std::any_of(node.inputs.begin(), node.inputs.end(), [&](int32_t slot) {
      return slot >= 0 && reached[static_cast<size_t>(slot)];
    });
    if (!hit) continue;
    last_use = fmt::format("op {} ({})", i, node.op);
    if (node.cut && first_cut.empty())
      first_cut = std::string_view(node.op) == "detach"
                      ? fmt::format("it is cut by detach at op {}", i)
                      : fmt::format("its path ends in {} at op {}, which has no gradient", node.op, i);
    for (int32_t slot : node.outputs) reached[static_cast<size_t>(slot)] = true;
  }
  if (reached[static_cast<size_t>(end)]) return what + " has a gradient: the loss depends on it";
  if (!first_cut.empty()) return what + " has no gradient: " + first_cut;
  if (last_use.empty()) return what + " was never used by an op on this tape" + hint;
  return fmt::format("{} has no gradient: it is used, last by {}, but the loss does not depend on that{}",
                     what, last_use, hint);
}

}  // namespace vitrine
