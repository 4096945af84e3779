// The cost of each attention and mixer of the tables: time and peak memory of a layer, forward and
// backward, as a function of the number n of positions. Each is measured in turn with standard
// attention, so that a disturbance affects both. Medians count. The proof cards read the table.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/markdown.h"
#include "core/creation.h"
#include "core/memory/allocator.h"
#include "core/random.h"
#include "core/simd/isa.h"
#include "core/tape.h"
#include "nn/transformer/mixers.h"

using namespace vitrine;

namespace {

/// The names of both tables: with usual values of options, or else with those under which the cost
/// is linear.
std::vector<std::string> names() {
  const std::map<std::string, std::string> values = {
      {"scale", "=0.2"}, {"softcap", "=30"}, {"window", "=128"}, {"global", "=window=128"}};
  std::vector<std::string> all;
  const auto add = [&](const auto& row) {
    if (const auto value = values.find(row.name); value != values.end())
      all.push_back(row.name + value->second);
    else
      all.push_back(row.linear_as.empty() ? row.name : row.linear_as);
  };
  for (const nn::MixerRow* row : nn::mixer_table()) add(*row);
  for (const nn::AttentionPartRow* row : nn::attention_part_table()) add(*row);
  return all;
}

/// A layer, and what its runs cost.
struct Layer {
  std::unique_ptr<nn::Mixer> mixer;
  bool causal;
  std::vector<double> seconds = {};
  size_t peak = 0;

  void run(const Tensor& x) {
    memory::reset_peak();
    const size_t before = memory::statistics().now;
    const double start = bench::seconds();
    {
      Tape tape;
      tape.watch(x);
      const Tensor y = mixer->forward(x, {.mask = {.causal = causal}});
      tape.backward(y, x);
    }
    seconds.push_back(bench::seconds() - start);
    peak = std::max(peak, memory::statistics().peak - before);
    mixer->zero_grad();
  }
};

Layer layer(const std::string& name, int64_t n, bool causal) {
  manual_seed(1);
  return {nn::make_mixer({.width = 128, .heads = 4, .context = n, .name = name, .causal = causal}), causal};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Time and memory of each attention and mixer, forward and backward, by the number of positions");
  std::vector<int64_t> sizes = {256, 1024, 4096, 16384};
  std::string only;
  int rounds = 3;
  double most_memory = 6, most_time = 8;
  app.add_option("--n", sizes, "Numbers of positions")->delimiter(',')->capture_default_str();
  app.add_option("--rounds", rounds, "Runs of each")->capture_default_str();
  app.add_option("--gib", most_memory, "Layers that are expected to need more memory are not measured")
      ->capture_default_str();
  app.add_option("--seconds", most_time, "Layers that are expected to take longer are not measured")
      ->capture_default_str();
  app.add_option("--only", only, "Only names that begin so");
  CLI11_PARSE(app, argc, argv);

  fmt::print("{}, one row, width 128, 4 heads, float32\n\n", name(isa()));
  const bench::MarkdownTable table(
      {{"name", true, 20}, {"n"}, {"ms", false, 9}, {"MiB", false, 9}, {"times standard"}, {"mask", true}});
  for (const std::string& name : names()) {
    if (!name.starts_with(only)) continue;
    const bool causal = nn::parse_mixer(name).base->causal;
    double memory = 0, time = 0;  // GiB and seconds at `before` positions
    int64_t before = sizes.front();
    for (const int64_t n : sizes) {
      // At most: the costs grow with the square of n.
      const double growth = std::pow(static_cast<double>(n) / static_cast<double>(before), 2);
      if (memory * growth > most_memory || time * growth > most_time) break;
      Layer standard = layer("standard", n, causal), own = layer(name, n, causal);
      const Tensor x = randn({1, n, 128});
      for (int round = 0; round <= rounds; ++round) standard.run(x), own.run(x);
      own.seconds.erase(own.seconds.begin()), standard.seconds.erase(standard.seconds.begin());
      time = bench::median(own.seconds), before = n;
      memory = static_cast<double>(own.peak) / (1 << 30);
      table.row({name, fmt::to_string(n), fmt::format("{:.2f}", 1e3 * time),
                 fmt::format("{:.1f}", static_cast<double>(own.peak) / (1 << 20)),
                 fmt::format("{:.2f}", time / bench::median(standard.seconds)), causal ? "causal" : "none"});
    }
  }
}
