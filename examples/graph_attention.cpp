// Attention over a graph: which community does a node belong to? A random graph has many edges
// within a community and few between two. The features of a node say little, and few labels are
// known. The same encoder is trained twice: with a mask from the list of edges, so that a node sees
// its neighbours, and without, so that it sees all nodes.
//
//   graph_attention [--seeds N]
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "core/creation.h"
#include "core/random.h"
#include "examples/command_line.h"
#include "nn/attention/graphs.h"
#include "nn/layers/linear.h"
#include "nn/options.h"
#include "nn/transformer/stack.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "optim/optimizers.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

constexpr int64_t kCommunities = 4, kMembers = 40, kNodes = kCommunities * kMembers, kFeatures = 16;
constexpr int64_t kLabelled = 10;                 // known labels of each community
constexpr double kWithin = 0.2, kBetween = 0.01;  // probability of an edge
constexpr int kSteps = 60;

struct Graph {
  Tensor features;  // [nodes, features]
  Tensor labels;    // int64 [nodes]
  Tensor edges;     // int64 [E, 2]
  std::vector<int64_t> known, unknown;
};

/// Node i belongs to community i % 4. Its features are normal numbers, and the one of its community
/// is 1 larger on average.
Graph random_graph(uint64_t seed) {
  Generator generator(seed);
  Graph graph;
  graph.labels = index_tensor(
      [] {
        std::vector<int64_t> labels(kNodes);
        for (int64_t i = 0; i < kNodes; ++i) labels[static_cast<size_t>(i)] = i % kCommunities;
        return labels;
      }(),
      {kNodes});
  graph.features = randn({kNodes, kFeatures}, DType::float32, Device::cpu, 0, 1, generator) +
                   one_hot(graph.labels, kFeatures);
  const auto draws = rand({kNodes, kNodes}, DType::float64, Device::cpu, 0, 1, generator).values();
  std::vector<int64_t> ends;
  for (int64_t i = 0; i < kNodes; ++i)
    for (int64_t j = 0; j < i; ++j)
      if (draws[static_cast<size_t>(i * kNodes + j)] <
          (i % kCommunities == j % kCommunities ? kWithin : kBetween))
        ends.insert(ends.end(), {i, j});
  graph.edges = index_tensor(ends, {static_cast<int64_t>(ends.size()) / 2, 2});
  for (int64_t i = 0; i < kNodes; ++i)
    (i < kLabelled * kCommunities ? graph.known : graph.unknown).push_back(i);
  return graph;
}

/// Features → width, an encoder without positions, a logit for each community.
class Classifier : public Module {
 public:
  Classifier()
      : in(kFeatures, kWidth),
        encoder({.block = {.mixer = {.width = kWidth}, .dropout = 0.3}, .layers = 2}),
        out(kWidth, kCommunities) {}
  Tensor forward(const Tensor& features, const AttentionMask& mask) const {
    return select(out.forward(encoder.forward(in.forward(unsqueeze(features, 0)), {.mask = mask})), 0, 0);
  }
  void fields(Fields& f) override { f("in", in), f("encoder", encoder), f("out", out); }

  static constexpr int64_t kWidth = 32;
  Linear in;
  Encoder encoder;
  Linear out;
};

/// The share of nodes with unknown labels that are right after training, in per cent.
double accuracy(const Graph& graph, bool over_edges, uint64_t seed) {
  manual_seed(seed);
  Classifier model;
  optim::Adam optimizer(model.parameters(), {.lr = 3e-3});
  const AttentionMask mask{.allowed = over_edges ? edge_mask(graph.edges, kNodes) : Tensor()};
  const auto rows = [](const Tensor& x, const std::vector<int64_t>& nodes) {
    return index_select(x, 0, index_tensor(nodes, {static_cast<int64_t>(nodes.size())}));
  };
  const Tensor targets = rows(graph.labels, graph.known);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    Tape tape;
    tape.backward(cross_entropy(rows(model.forward(graph.features, mask), graph.known), targets));
    optimizer.step();
  }
  model.eval();
  const Tensor best = argmax(rows(model.forward(graph.features, mask), graph.unknown), -1);
  return 100 * mean(cast(equal(best, rows(graph.labels, graph.unknown)), DType::float64)).item();
}

struct Settings {
  int64_t seeds = 5;

  void list(nn::OptionList& o) {
    o.group("Runs");
    o("seeds", seeds, "random graphs, each with a seed of its own").at_least(1);
  }
};

void compare(int64_t seeds) {
  fmt::print("{} nodes in {} communities, {} labels known, chance {} %\n", kNodes, kCommunities,
             kLabelled * kCommunities, 100 / kCommunities);
  fmt::print("{:>6} {:>7} {:>12} {:>8}\n", "seed", "edges", "over edges", "dense");
  double sums[2] = {};
  for (int64_t seed = 0; seed < seeds; ++seed) {
    const Graph graph = random_graph(static_cast<uint64_t>(seed));
    const double over_edges = accuracy(graph, true, static_cast<uint64_t>(seed)),
                 dense = accuracy(graph, false, static_cast<uint64_t>(seed));
    sums[0] += over_edges, sums[1] += dense;
    fmt::print("{:>6} {:>7} {:>10.1f} % {:>6.1f} %\n", seed, graph.edges.size(0), over_edges, dense);
  }
  fmt::print("{:>6} {:>7} {:>10.1f} % {:>6.1f} %\n", "mean", "", sums[0] / static_cast<double>(seeds),
             sums[1] / static_cast<double>(seeds));
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("graph_attention", [&] {
    Settings s;
    nn::OptionList options = nn::options_of(s);
    examples::CommandLine line("graph_attention",
                               "Finds the communities of random graphs, by attention over edges.",
                               "  graph_attention --seeds 1\n");
    if (const auto code = line.parse(options, argc, argv)) return *code;
    compare(s.seeds);
    return 0;
  });
}
