#include "nn/layers/lora.h"

#include <fmt/format.h>

#include <vector>

#include "core/tape.h"
#include "ops/elementwise.h"

namespace vitrine::nn {
namespace {

/// The linear layers of a module, with their paths.
std::vector<std::pair<std::string, Linear*>> layers_of(Module& module) {
  std::vector<std::pair<std::string, Linear*>> layers;
  module.apply([&](const std::string& path, Module& m) {
    if (auto* const layer = dynamic_cast<Linear*>(&m)) layers.emplace_back(path, layer);
  });
  return layers;
}

}  // namespace

int64_t add_lora(Module& module, const std::string& pattern, const LoraOptions& options) {
  std::vector<Linear*> chosen;
  for (const auto& [path, layer] : layers_of(module)) {
    if (!path_matches(path, pattern)) continue;
    check(!layer->lora, "add_lora: {} has a low-rank change already", path);
    const std::vector<std::string> paths = module.paths_of(layer->weight);
    check(paths.size() == 1, "add_lora: the weight of {} is shared ({}), so that a change cannot be merged",
          path, fmt::join(paths, ", "));
    chosen.push_back(layer);
  }
  check(!chosen.empty(), "add_lora: no linear layer has the pattern {}", pattern);
  for (Linear* const layer : chosen) {
    const Shape& shape = layer->weight.shape();
    auto change = std::make_unique<LowRank>(shape[1], shape[0], options);
    change->to(layer->weight.dtype());
    change->to(layer->weight.device());
    layer->lora = std::move(change);
  }
  return static_cast<int64_t>(chosen.size());
}

Tensor merged_weight(const Linear& layer) {
  return layer.lora ? layer.weight + layer.lora->change() : layer.weight.value();
}

int64_t merge_lora(Module& module) {
  const Tape::Pause pause;
  int64_t count = 0;
  for (const auto& [path, layer] : layers_of(module)) {
    if (!layer->lora) continue;
    // In the dtype of the master, so that a 16-bit weight is rounded once.
    LowRank& change = *layer->lora;
    change.to(layer->weight.master_dtype());
    layer->weight.assign(layer->weight.master() + change.change());
    layer->lora.reset();
    ++count;
  }
  check(count > 0, "merge_lora: no linear layer has a low-rank change");
  return count;
}

}  // namespace vitrine::nn
