// The options of copy_and_parity, and the mechanisms that it compares.
#pragma once

#include <string>
#include <vector>

#include "examples/model_runs.h"
#include "nn/models/gpt.h"
#include "nn/models/stack_settings.h"

namespace vitrine::examples {

/// What differs between the models. With several segments, a sequence is read in so many parts.
/// Each starts from the state after the part before, through which no gradient goes.
struct Mechanism {
  std::string name, mixer;
  void (*change)(nn::GptOptions&) = [](nn::GptOptions&) {};
  int64_t segments = 1;
};

inline std::vector<Mechanism> known_mechanisms() {
  return {{"standard", "standard"},
          {"experts", "standard", [](nn::GptOptions& o) { o.experts.count = 4; }},
          {"universal", "standard", [](nn::GptOptions& o) { o.universal = true, o.layers *= 4; }},
          {"reformer", "lsh", [](nn::GptOptions& o) { o.reversible = true; }},
          {"transformer_xl", "transformer_xl", [](nn::GptOptions&) {}, 2},
          {"rwkv4", "rwkv4", [](nn::GptOptions& o) { o.feed_forward = nn::FeedForwardKind::rwkv4; }},
          {"rwkv7", "rwkv7", [](nn::GptOptions& o) { o.feed_forward = nn::FeedForwardKind::rwkv7; }},
          {"mamba", "mamba"}};
}

/// A mechanism of the table, or a mixer by its name.
inline Mechanism mechanism_named(const std::string& name) {
  for (const Mechanism& mechanism : known_mechanisms())
    if (mechanism.name == name) return mechanism;
  nn::parse_mixer(name);
  return {name, name};
}

inline std::vector<std::string> names_of_mechanisms() {
  std::vector<std::string> names;
  for (const Mechanism& mechanism : known_mechanisms()) names.push_back(mechanism.name);
  return names;
}

struct MemorySettings {
  nn::GptOptions model = {.width = 64, .layers = 2};
  RunSettings run = {.training = {.steps = 300}, .schedule = {.lr = 3e-3}};
  std::vector<std::string> tasks = {"copy"}, mechanisms = names_of_mechanisms();
  int64_t copied = 12, total = 4096, bits = 16, tokens = 2048, held_out = 4;

  void list(nn::OptionList& o) {
    o.group("Model");
    o("width", model.width, "number of channels").at_least(1);
    o("heads", model.heads, "number of heads").at_least(1);
    o("layers", model.layers,
      "number of blocks; a universal Transformer takes one block up to 4 times as often")
        .at_least(1);
    nn::list_checkpoint_blocks(model.recompute_blocks, o);
    o.group("Data and comparison");
    o("tasks", tasks, "copy, long_copy, parity").decides(nn::Role::files);
    o("mechanisms", mechanisms, "trains a model with each; also any name of a mixer")
        .decides(nn::Role::files);
    o("copied", copied, "symbols of the string of copy").at_least(2);
    o("total", total, "positions of long_copy").at_least(32);
    o("bits", bits, "bits of the string of parity").at_least(2);
    run.list(o);
    o.remove("batch");
    o("tokens", tokens, "tokens of a batch, all sequences together").at_least(1);
    o("held-out", held_out, "batches of held-out sequences").at_least(1);
  }
};

}  // namespace vitrine::examples
