// Draws the tape for Graphviz.
#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>

#include "core/tape.h"

namespace vitrine {
namespace {

std::string kind(DType dtype, const Shape& shape) { return fmt::format("{}{}", name(dtype), shape); }

}  // namespace

class TapeDrawing {
 public:
  explicit TapeDrawing(const Tape& tape) : tape_(tape), used_(tape.slots_.size(), false) {
    note_users();
    for (size_t i = 0; i < tape.slots_.size(); ++i)
      if (tape.slots_[i].producer < 0) draw_leaf(i);
    for (const auto& [key, constant] : constants_) {
      const std::string style = "shape=box, style=\"filled,rounded\", fillcolor=\"#eeeeee\"";
      frames_.at(constant.module).lines +=
          fmt::format("{} [{}, label=\"{}\"];\n", constant.id, style, kind(std::get<2>(key), constant.shape));
    }
    for (size_t i = 0; i < tape.nodes_.size(); ++i) draw_op(i);
  }

  std::string text() const {
    int number = 0;
    return "digraph tape {\nrankdir=TB; nodesep=0.15; ranksep=0.25; fontname=\"sans-serif\"; fontsize=11; "
           "color=\"#999999\";\nnode [fontname=\"sans-serif\", fontsize=10, height=0.3, margin=\"0.08,0.04\"];\n"
           "edge [fontname=\"sans-serif\", fontsize=8, arrowsize=0.6];\n" +
           frames_.text(number) + edges_ + "}\n";
  }

 private:
  /// A module, with the lines of the drawing inside it.
  struct Frame {
    std::string name, lines;
    std::vector<Frame> inner;  ///< in the order of first use

    /// The frame of a path: "blocks.0.attention" is the frame "attention" inside the frame
    /// "blocks.0".
    Frame& at(std::string_view path) {
      if (path.empty()) return *this;
      size_t end = std::min(path.find('.'), path.size());
      while (end + 1 < path.size() && std::isdigit(static_cast<unsigned char>(path[end + 1])) != 0)
        end = std::min(path.find('.', end + 1), path.size());
      const std::string_view first = path.substr(0, end);
      auto found = std::find_if(inner.begin(), inner.end(), [&](const Frame& f) { return f.name == first; });
      if (found == inner.end()) found = inner.insert(inner.end(), {std::string(first), "", {}});
      return found->at(path.substr(std::min(end + 1, path.size())));
    }

    std::string text(int& number) const {
      std::string result = lines;
      for (const Frame& frame : inner) {
        result += fmt::format("subgraph cluster{} {{ label=\"{}\"; labeljust=l;\n", number++, frame.name);
        result += frame.text(number) + "}\n";
      }
      return result;
    }
  };

  /// A box for memory, and the innermost module that contains all its readers.
  struct Box {
    std::string id, module;
    Shape shape;
    bool first = true;

    void read_in(const std::string& path) {
      module = std::exchange(first, false) ? path : common(module, path);
    }
    static std::string common(const std::string& a, const std::string& b) {
      size_t end = 0;  // the end of the last module that both paths share
      for (size_t i = 0; i <= std::min(a.size(), b.size()); ++i) {
        const bool a_ends = i == a.size() || a[i] == '.', b_ends = i == b.size() || b[i] == '.';
        if (a_ends && b_ends) end = i;
        if (i == a.size() || i == b.size() || a[i] != b[i]) break;
      }
      return a.substr(0, end);
    }
  };
  struct Earlier {  // orders by memory, number of elements and dtype
    bool operator()(const auto& x, const auto& y) const {
      const std::owner_less<> before;
      if (before(std::get<0>(x), std::get<0>(y))) return true;
      if (before(std::get<0>(y), std::get<0>(x))) return false;
      return std::tie(std::get<1>(x), std::get<2>(x)) < std::tie(std::get<1>(y), std::get<2>(y));
    }
  };

  void note_users() {
    for (const Tape::Node& node : tape_.nodes_) {
      for (int32_t slot : node.inputs)
        if (slot >= 0) {
          used_[static_cast<size_t>(slot)] = true;
          leaves_[slot].read_in(*node.module);
        }
      for (const detail::Constant& c : node.constants) {
        Box& box = constants_[{c.storage, numel(c.shape), c.dtype}];
        if (box.first) box.shape = c.shape, box.id = fmt::format("constant{}", constants_.size());
        box.read_in(*node.module);
      }
    }
  }

  void draw_leaf(size_t i) {
    const Tape::Slot& slot = tape_.slots_[i];
    const std::string& module = leaves_[static_cast<int32_t>(i)].module;
    std::string label = slot.leaf ? slot.leaf->name : "watched";
    if (label.empty()) label = "parameter";
    if (!module.empty() && label.starts_with(module + ".")) label = label.substr(module.size() + 1);
    frames_.at(module).lines +=
        fmt::format("leaf{} [shape=box, style=filled, fillcolor=\"{}\", label=\"{}\\n{}\"];\n", i,
                    slot.leaf ? "#fff2cc" : "#dae8fc", label, slot.shape);
  }

  void draw_op(size_t i) {
    const Tape::Node& node = tape_.nodes_[i];
    if (!node.outputs.empty() && is_folded(static_cast<int32_t>(i))) return;
    Frame& frame = frames_.at(*node.module);
    frame.lines += fmt::format("op{} [label=\"{}\"{}];\n", i, node.op, node.cut ? ", style=dashed" : "");
    for (int32_t slot : node.inputs)
      if (slot >= 0) edges_ += arrow_from(slot, i);
    for (const detail::Constant& c : node.constants)
      edges_ += fmt::format("{} -> op{};\n", constants_.at({c.storage, numel(c.shape), c.dtype}).id, i);
    for (int32_t slot : node.outputs) {
      if (used_[static_cast<size_t>(slot)]) continue;
      const Shape& shape = tape_.slots_[static_cast<size_t>(slot)].shape;
      const bool is_loss = numel(shape) == 1 && i + 1 == tape_.nodes_.size();
      frames_.lines +=
          fmt::format("out{} [shape=octagon, style=filled, fillcolor=\"#f8cecc\", label=\"{}\\n{}\"];\n",
                      slot, is_loss ? "loss" : "result", shape);
      edges_ += fmt::format("op{} -> out{};\n", i, slot);
    }
  }

  /// Whether the op is a view of one tensor whose result another op reads. Such a view is a word on
  /// the arrow between its neighbours, to keep the drawing of a model readable.
  bool is_folded(int32_t producer) const {
    if (producer < 0) return false;
    const Tape::Node& node = tape_.nodes_[static_cast<size_t>(producer)];
    const std::string_view op = node.op;
    return (op == "reshape" || op == "permute" || op == "expand") && node.inputs.size() == 1 &&
           node.inputs[0] >= 0 && used_[static_cast<size_t>(node.outputs[0])];
  }

  std::string arrow_from(int32_t slot, size_t op) const {
    const Shape& shape = tape_.slots_[static_cast<size_t>(slot)].shape;
    std::string views;
    int32_t producer = tape_.slots_[static_cast<size_t>(slot)].producer;
    while (is_folded(producer)) {
      const Tape::Node& view = tape_.nodes_[static_cast<size_t>(producer)];
      views = fmt::format(" {}\\n{}", view.op, views);
      slot = view.inputs[0];
      producer = tape_.slots_[static_cast<size_t>(slot)].producer;
    }
    if (producer < 0 && views.empty()) return fmt::format("leaf{} -> op{};\n", slot, op);
    const std::string source = producer < 0 ? fmt::format("leaf{}", slot) : fmt::format("op{}", producer);
    return fmt::format("{} -> op{} [label=\"{} {}\"];\n", source, op, views, shape);
  }

  const Tape& tape_;
  std::vector<bool> used_;  ///< by slot: some op reads it
  std::map<int32_t, Box> leaves_;
  std::map<std::tuple<std::weak_ptr<Storage>, int64_t, DType>, Box, Earlier> constants_;
  Frame frames_;
  std::string edges_;
};

std::string Tape::to_dot() const { return TapeDrawing(*this).text(); }

}  // namespace vitrine
