// The cost of the modules that are not mixers: norms, feed-forward parts, alignments, outputs. Time
// and peak memory, forward and backward, as a function of the number n of positions, next to a
// linear layer of the same width, which runs in turn with each of them. Medians count. The proof
// cards read the table, by the names of tests/nn/modules.cpp.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/markdown.h"
#include "core/creation.h"
#include "core/memory/allocator.h"
#include "core/random.h"
#include "core/simd/isa.h"
#include "core/tape.h"
#include "nn/attention/alignment.h"
#include "nn/attention/graphs.h"
#include "nn/attention/luong.h"
#include "nn/attention/memory_tokens.h"
#include "nn/attention/multi_head.h"
#include "nn/attention/parts/laser.h"
#include "nn/attention/pooling.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/conformer_convolution.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/group_norm.h"
#include "nn/layers/low_rank.h"
#include "nn/layers/mixture_of_experts.h"
#include "nn/layers/norm.h"
#include "nn/layers/output.h"
#include "nn/recurrent/channel_mix.h"
#include "nn/transformer/halting.h"
#include "nn/transformer/residual.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

constexpr int64_t kWidth = 128, kHidden = 4 * kWidth, kHeads = 4, kClasses = 1000;

/// A module for x [1, n, kWidth], and what one call computes.
struct Made {
  std::shared_ptr<Module> module;
  std::function<Tensor(const Tensor& x)> call;
};

struct Row {
  std::string name;
  std::function<Made(int64_t n)> make;
};

/// A row of a module that does not depend on n.
template <class M, class Call, class... Arguments>
Row row(const std::string& name, Call call, const Arguments&... arguments) {
  return {name, [=](int64_t) {
            auto module = std::make_shared<M>(arguments...);
            return Made{module, [module, call](const Tensor& x) { return call(*module, x); }};
          }};
}

const auto forward = [](const auto& module, const Tensor& x) { return module.forward(x); };
const auto with_itself = [](const auto& module, const Tensor& x) { return module.forward(x, x * 0.7); };

/// Attention with a mask that depends on n.
Row masked(const std::string& name, std::function<Tensor(int64_t n)> mask) {
  return {name, [mask](int64_t n) {
            auto module = std::make_shared<MultiHeadAttention>(
                MixerOptions{.width = kWidth, .heads = kHeads, .context = n});
            return Made{module, [module, allowed = mask(n)](const Tensor& x) {
                          return module->forward(x, {.mask = {.allowed = allowed}});
                        }};
          }};
}

/// Each node sees itself and the next two.
Tensor next_nodes(int64_t n) {
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < std::min(n, i + 3); ++j) edges.insert(edges.end(), {i, j});
  return edge_mask(index_tensor(edges, {std::ssize(edges) / 2, 2}), n, {.both_ways = false});
}

/// The first token is the root, and node i hangs from node (i − 1)/2.
Tensor binary_tree(int64_t n) {
  std::vector<int64_t> heads;
  for (int64_t i = 0; i < n; ++i) heads.push_back(i == 0 ? -1 : (i - 1) / 2);
  return tree_mask(heads);
}

LuongOptions luong(LuongView view = LuongView::global) {
  return {.width = kWidth, .source_width = kWidth, .view = view};
}

struct Ponders : Module {
  Halting halting{kWidth, {.max_steps = 3}};
  Linear step{kWidth, kWidth};
  Tensor forward(const Tensor& x) const {
    return halting.forward(x, [&](const Tensor& s, int64_t) { return tanh(step.forward(s)); }).state;
  }
  void fields(Fields& f) override { f("halting", halting), f("step", step); }
};

struct WithMemory : Module {
  MemoryTokens memory{16, kWidth};
  MultiHeadAttention attention{{.width = kWidth, .heads = kHeads}};
  Tensor forward(const Tensor& x) const { return memory.rest(attention.forward(memory.before(x))); }
  void fields(Fields& f) override { f("memory", memory), f("attention", attention); }
};

/// A sublayer with its shortcut and its norm.
struct Sublayer : Module {
  explicit Sublayer(Residual residual)
      : shortcut(residual, kWidth, residual == Residual::deepnet ? deep_norm(3).alpha : 1) {}
  Tensor forward(const Tensor& x) const { return norm.forward(shortcut.forward(x) + inner.forward(x)); }
  Shortcut shortcut;
  FeedForward inner{kWidth, kHidden, Activation::gelu, Bias::yes, 0.02};
  Norm norm{kWidth};
  void fields(Fields& f) override { f("shortcut", shortcut), f("inner", inner), f("norm", norm); }
};

std::vector<Row> rows() {
  const std::shared_ptr<const ReadOut> laser = std::make_shared<LaserReadOut>();
  const auto aligned = [](const ReadOut& read) {
    return [&read](const Linear& m, const Tensor& x) {
      const Alignment both = soft_alignment(m.forward(x), x * 0.7, {}, {}, read);
      return both.a + both.b;
    };
  };
  static const ReadOut mean;
  static const LaserReadOut by_laser;
  const auto through_channels = [](const GroupNorm& m, const Tensor& x) {
    return transpose(m.forward(transpose(x)));
  };
  const auto causal = [](const ChannelMix& m, const Tensor& x) {
    return m.forward(x, {.mask = {.causal = true}});
  };
  const auto flow = [](const AttentionFlow& m, const Tensor& x) {
    return m.attend(x, x * 0.7, {}, {}, LaserReadOut()).y;
  };
  const MixerOptions mix{.width = kWidth};
  LuongOptions coverage = luong();
  coverage.score = LuongScore::concat, coverage.coverage = true;
  const auto covered = [](const LuongAttention& m, const Tensor& x) {
    return m.combine(m.attend(x, x * 0.7, {}, 0, full({1, x.size(1), x.size(1)}, 0.3)).context, x);
  };
  return {
      row<Linear>("linear layer", forward, kWidth, kWidth),
      row<LuongAttention>("luong_global", with_itself, luong()),
      row<LuongAttention>("luong_laser", with_itself, luong(), laser),
      row<LuongAttention>("luong_local_m", with_itself, luong(LuongView::monotonic)),
      row<LuongAttention>("luong_local_p", with_itself, luong(LuongView::predictive)),
      row<LuongAttention>("coverage", covered, coverage),
      row<Linear>("soft_alignment", aligned(mean), kWidth, kWidth),
      row<Linear>("laser_alignment", aligned(by_laser), kWidth, kWidth),
      row<AttentionFlow>("attention_flow", with_itself, kWidth),
      row<AttentionFlow>("laser_flow", flow, kWidth),
      row<Linear>(
          "laser_output",
          [](const Linear& m, const Tensor& x) { return laser_output(m.forward(x), m.weight); }, kWidth,
          kWidth),
      row<AttentionPooling>("attention_pooling", forward, kWidth, kWidth),
      row<AttentionPooling>("laser_pooling", forward, kWidth, kWidth, laser),
      row<WithMemory>("memory_tokens", forward),
      masked("edge_mask", next_nodes),
      masked("tree_mask", binary_tree),
      row<FeedForward>("swiglu", forward, kWidth, kHidden, Activation::swiglu, Bias::yes, 0.02),
      row<FeedForward>("geglu", forward, kWidth, kHidden, Activation::geglu, Bias::yes, 0.02),
      row<MixtureOfExperts>("top_1_experts", forward, kWidth, kHidden, Activation::gelu, Bias::yes, 0.02,
                            ExpertOptions{.count = 8, .per_token = 1}),
      row<MixtureOfExperts>("top_2_experts", forward, kWidth, kHidden, Activation::gelu, Bias::yes, 0.02,
                            ExpertOptions{.count = 8, .per_token = 2}),
      row<Ponders>("halting", forward),
      row<Norm>("layer_norm", forward, kWidth, NormKind::layer),
      row<Norm>("rms_norm", forward, kWidth, NormKind::rms),
      row<Norm>("scale_norm", forward, kWidth, NormKind::scale),
      row<GroupNorm>("group_norm", through_channels, int64_t{8}, kWidth),
      row<BatchNorm>("batch_norm", forward, kWidth, BatchNormOptions{.axis = -1}),
      row<Norm>("power_norm", forward, kWidth, NormKind::power),
      row<Sublayer>("deepnet_residual", forward, Residual::deepnet),
      row<Sublayer>("admin_residual", forward, Residual::admin),
      row<ChannelMix>("rwkv4_channel_mix", causal, FeedForwardKind::rwkv4, mix, kHidden),
      row<ChannelMix>("rwkv7_channel_mix", causal, FeedForwardKind::rwkv7, mix, kHidden),
      row<ConformerConvolution>("conformer_convolution", forward, kWidth, int64_t{31}),
      row<LowRank>("low_rank", forward, kWidth, kWidth, LoraOptions{.rank = 8}),
      row<MixtureOfSoftmaxes>("mixture_of_softmaxes", forward, kWidth, kClasses, int64_t{3}, kWidth),
  };
}

/// What runs of a module cost.
struct Cost {
  std::vector<double> seconds = {};
  size_t peak = 0;

  void run(const Made& made, const Tensor& x) {
    memory::reset_peak();
    const size_t before = memory::statistics().now;
    const double start = bench::seconds();
    {
      Tape tape;
      tape.watch(x);
      const Tensor y = made.call(x);
      tape.backward(y, ones_like(y));
    }
    seconds.push_back(bench::seconds() - start);
    peak = std::max(peak, memory::statistics().peak - before);
    made.module->zero_grad();
  }
  /// The time of the first run, which grows buffers, does not count.
  double median() const { return bench::median({seconds.begin() + 1, seconds.end()}); }
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Time and memory of each module that is not a mixer, by the number of positions");
  std::vector<int64_t> sizes = {256, 1024, 4096};
  std::string only;
  int rounds = 5;
  double most_memory = 6;
  app.add_option("--n", sizes, "Numbers of positions")->delimiter(',')->capture_default_str();
  app.add_option("--rounds", rounds, "Runs of each")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--gib", most_memory, "Modules that are expected to need more memory are not measured")
      ->capture_default_str();
  app.add_option("--only", only, "Only names that begin so");
  CLI11_PARSE(app, argc, argv);

  fmt::print("{}, one row, width {}, float32\n\n", name(isa()), kWidth);
  const bench::MarkdownTable table(
      {{"name", true, 22}, {"n"}, {"ms", false, 9}, {"MiB", false, 9}, {"times a linear layer"}});
  const std::vector<Row> all = rows();
  for (const Row& r : all) {
    if (!r.name.starts_with(only)) continue;
    double memory = 0;  // GiB at `before` positions
    int64_t before = sizes.front();
    for (const int64_t n : sizes) {
      // At most: the memory grows with the square of n.
      if (memory * std::pow(static_cast<double>(n) / static_cast<double>(before), 2) > most_memory) break;
      manual_seed(1);
      const Made linear = all[0].make(n), own = r.make(n);
      const Tensor x = randn({1, n, kWidth});
      Cost of_linear, cost;
      for (int round = 0; round <= rounds; ++round) of_linear.run(linear, x), cost.run(own, x);
      memory = static_cast<double>(cost.peak) / (1 << 30), before = n;
      table.row({r.name, fmt::to_string(n), fmt::format("{:.2f}", 1e3 * cost.median()),
                 fmt::format("{:.1f}", static_cast<double>(cost.peak) / (1 << 20)),
                 fmt::format("{:.2f}", cost.median() / of_linear.median())});
    }
  }
}
