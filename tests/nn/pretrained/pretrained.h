// What the tests of pretrained models share.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "core/files/safetensors.h"
#include "nn/generation/generate.h"
#include "nn/pretrained/pretrained.h"
#include "ops/elementwise.h"
#include "ops/view.h"

namespace vitrine::test {

using Tensors = std::map<std::string, Tensor>;

/// All tensors of the weights in a folder, in float32. The names of a BERT without a head may lack
/// their prefix; here they do not have it.
inline Tensors weights_in(const std::filesystem::path& folder) {
  Tensors all;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with("model") || !name.ends_with(".safetensors")) continue;
    for (const auto& entry : read_safetensors(file.path().string()).tensors)
      all[entry.first.substr(entry.first.starts_with("bert.") ? 5 : 0)] = cast(entry.second, DType::float32);
  }
  return all;
}

// What a model computes of inputs, by the names of tests/judges/pretrained_cases.py.

/// The logits of each step of decoding with a cache, one token at a time.
inline Tensor cached_logits(const nn::Gpt& model, const Tensor& ids) {
  const auto state = model.make_state(ids.size(0));
  Tensor last;
  for (int64_t t = 0; t < ids.size(1); ++t)
    last = model.forward(slice(ids, 1, t, t + 1), {.state = state.get()});
  return last;
}

inline Tensors results_of(nn::Gpt& model, const Tensors& given, int64_t count = 8) {
  const Tensor& ids = given.at("ids");
  std::vector<int64_t> prompt;
  for (const double id : slice(slice(ids, 0, 0, 1), 1, 0, 4).values())
    prompt.push_back(static_cast<int64_t>(id));
  const std::vector<int64_t> text = nn::generate(model, prompt, count, {.temperature = 0});
  return {{"logits", model.forward(ids)},
          {"text", index_tensor(text, {1, static_cast<int64_t>(text.size())})}};
}

inline Tensors results_of(nn::TextEncoder& model, const Tensors& given) {
  const Tensor &ids = given.at("ids"), &lengths = given.at("lengths");
  const Tensor own =
      cast(less(arange(0, static_cast<double>(ids.size(1))), unsqueeze(lengths, -1)), DType::float32);
  const Tensor features = model.features(ids, {.lengths = lengths}, given.at("segments"));
  Tensors results;
  const auto& o = model.options();
  if (o.output_transform) results["logits"] = model.logits(features) * unsqueeze(own, -1);
  if (o.classes > 0) results["classes"] = model.classify(features);
  if (!o.output_transform && o.classes == 0) {
    results["features"] = features * unsqueeze(own, -1);
    results["pooled"] = model.pooled(features);
  }
  return results;
}

inline Tensors results_of(nn::VisionTransformer& model, const Tensors& given) {
  return {{"logits", model.forward(given.at("images"))}};
}

}  // namespace vitrine::test
