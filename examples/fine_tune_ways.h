// The models of fine_tune, and what is trained of them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "examples/fine_tune_data.h"
#include "nn/layers/lora.h"
#include "nn/models/text_encoder.h"
#include "nn/pretrained/pretrained.h"

namespace vitrine::examples {

/// How a task is learned: the learning rate, and which parameters are trained.
struct Way {
  const char* name;
  double rate;
  std::vector<std::string> trained;
  bool pretrained = true, lora = false, prompt = false;
};

/// Those that the settings name, in their order.
inline std::vector<Way> ways(const FineTuneSettings& s) {
  const std::string last = fmt::format("encoder.blocks.{}", s.layers - 1);
  const double rate = s.run.schedule.lr;
  const std::vector<Way> all = {{"scratch", rate, {"**"}, false},
                                {"whole", rate, {"**"}},
                                {"last", 2 * rate, {last, "pooler", "classes"}},
                                {"lora", 5 * rate, {"**.lora", "pooler", "classes"}, true, true},
                                {"prompt", 10 * rate, {"prompt", "pooler", "classes"}, true, false, true}};
  std::vector<Way> chosen;
  for (const std::string& name : s.ways)
    chosen.push_back(*std::find_if(all.begin(), all.end(), [&](const Way& way) { return way.name == name; }));
  return chosen;
}

/// A BERT. Without classes it has the head for masked tokens.
inline nn::TextEncoder make_model(const FineTuneSettings& s, int64_t vocabulary, int64_t classes = 0,
                                  int64_t prompt = 0) {
  const nn::MixerOptions mixer{.width = s.width, .heads = s.heads, .context = s.context, .name = s.mixer};
  return nn::TextEncoder({.vocabulary = vocabulary,
                          .segments = 2,
                          .embedding_norm = true,
                          .output_transform = classes == 0,
                          .pooler = classes > 0,
                          .mean_pooling = classes > 0 && s.pooling == "mean",
                          .classes = classes,
                          .prompt = prompt,
                          .stack = {.block = {.mixer = mixer, .residual = s.residual, .dropout = s.dropout},
                                    .layers = s.layers,
                                    .recompute_blocks = s.recompute_blocks}});
}

/// A model that classifies, before its training. What the pretrained model has begins as there.
inline nn::TextEncoder model_for(const Way& way, const FineTuneSettings& s, nn::TextEncoder& pretrained,
                                 int64_t classes) {
  nn::TextEncoder model = make_model(s, pretrained.options().vocabulary, classes, way.prompt ? s.prompt : 0);
  std::map<std::string, Tensor> state = model.state_dict();
  for (const auto& [name, x] : pretrained.state_dict())
    if (way.pretrained && state.contains(name)) state[name] = x;
  model.load_state_dict(state);
  nn::freeze(model);
  if (way.lora) nn::add_lora(model, "encoder", {.rank = s.rank});
  for (const std::string& pattern : way.trained) nn::unfreeze(model, pattern);
  return model;
}

/// Saves a model and its tokenizer as a BERT in a folder of --save. Its low-rank changes become a
/// part of its weights. A model with a learned prompt, and one whose training was interrupted, are
/// left out.
inline void save(nn::TextEncoder& model, const FineTuneSettings& s, const nn::Tokenizer& tokenizer,
                 std::string name, bool lora = false) {
  if (s.save.empty() || model.options().prompt > 0 || nn::training::interrupted()) return;
  std::replace(name.begin(), name.end(), ' ', '_');
  if (lora) nn::merge_lora(model);
  nn::save_pretrained(model, s.save + "/" + name, {.tokenizer = &tokenizer});
}

}  // namespace vitrine::examples
