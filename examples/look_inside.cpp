// Looking inside a tape: one attention head is recorded, printed, drawn, stepped through backwards
// and profiled, and a missing gradient is explained.
//
//   look_inside [--out FOLDER]    FOLDER is for the drawing and the trace
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "core/creation.h"
#include "core/files/file.h"
#include "core/profiler.h"
#include "core/random.h"
#include "core/record.h"
#include "core/tape.h"
#include "examples/command_line.h"
#include "nn/layers/linear.h"
#include "nn/options.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

using namespace vitrine;

namespace {

/// softmax(q·kᵀ/√d)·v with d = 4 channels.
struct Head : nn::Module {
  Tensor forward(const Tensor& x) const {
    const ModuleScope scope("head");  // names the following rows
    const Tensor q = query.forward(x), k = key.forward(x), v = value.forward(x);
    return matmul(softmax(matmul(q, transpose(k)) / 2.0), v);
  }
  void fields(nn::Fields& f) override { f("query", query), f("key", key), f("value", value); }
  nn::Linear query{8, 4}, key{8, 4}, value{8, 4};
};

struct Settings {
  std::string out = "reports/look_inside";

  void list(nn::OptionList& o) {
    o.group("Output");
    o("out", out, "folder of the drawing and the trace");
  }
};

void look_inside(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  manual_seed(1);
  Head head;
  head.named_parameters();  // gives the parameters their names in tables and drawings
  const Tensor x = randn({3, 8}), aside = randn({8});

  std::cout << "The tape: each op, its inputs, and the memory that is kept for the backward pass.\n\n";
  Tape tape;
  const Tensor watched = tape.watch(aside);
  const Tensor loss = mean(square(head.forward(x + detach(watched))));
  tape.print();

  const std::string drawing = tape.to_dot();
  const std::string_view parts[] = {drawing};
  const std::string dot = (folder / "tape.dot").string(), trace = (folder / "trace.json").string();
  write_file("look_inside", dot, parts);
  fmt::print("\nIts drawing is in {0}: dot -Tsvg {0} -o tape.svg (Debian: graphviz)\n\n", dot);

  fmt::print("Why has `watched` no gradient?\n  {}\n\n", tape.explain(watched, loss));

  std::cout
      << "Backwards, step by step: the norms of the gradient that arrives at each op and of those that it passes on.\n\n";
  const auto size = [](const Tensor& g) {
    return g.defined() ? fmt::format("{:.2e}", sqrt(sum(square(g))).item()) : std::string("-");
  };
  tape.on_step([&](const Tape::Step& step) {
    fmt::print("{:>5}  {:<10} {:>10}  →", step.node, step.op, size(step.dy[0]));
    for (const Tensor& dx : step.dx) fmt::print("  {:>8}", size(dx));
    fmt::print("\n");
  });
  tape.backward(loss);

  fmt::print("\nWhere time and memory go, by op and by module; {} is for chrome://tracing.\n\n", trace);
  Profiler profiler;
  {
    Tape another;
    another.backward(mean(square(head.forward(x))));
  }
  profiler.print(std::cout);
  profiler.write_chrome_trace(trace);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("look_inside", [&] {
    Settings s;
    nn::OptionList options = nn::options_of(s);
    examples::CommandLine line("look_inside", "Records one attention head, and shows its tape.",
                               "  look_inside --out tape\n");
    if (const auto code = line.parse(options, argc, argv)) return *code;
    look_inside(s.out);
    return 0;
  });
}
