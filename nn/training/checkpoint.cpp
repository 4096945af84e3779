#include "nn/training/checkpoint.h"

#include <filesystem>

#include "core/files/safetensors.h"
#include "nn/pretrained/pretrained.h"

namespace vitrine::nn::training {
namespace {

constexpr const char* kTokenizerKinds[] = {"characters", "bpe", "word_piece", "words"};

const std::string& metadata_of(const Safetensors& file, const std::string& key, const std::string& path) {
  const auto found = file.metadata.find(key);
  check(found != file.metadata.end(), "load_model: {} is no checkpoint of a model: it has no {}", path, key);
  return found->second;
}

GptOptions options_in(const Safetensors& file, const std::string& path) {
  const std::string& kind = metadata_of(file, "model", path);
  check(kind == "gpt", "load_model: the model of {} is a {}, wanted gpt", path, kind);
  GptOptions options;
  OptionList list = options_of(options);
  for (Option& option : list)
    if (option.role == Role::result && option.applies())
      option.read({metadata_of(file, option.name, path)},
                  fmt::format("load_model: {}: {}", path, option.name));
  return options;
}

/// Prevents a model with corrupt options from allocating memory: one tensor of each size, and the
/// last block, must be in the file.
void check_sizes(const GptOptions& o, const std::map<std::string, Tensor>& state, const std::string& path) {
  std::map<std::string, Shape> largest = {{"tokens.weight", {o.vocabulary, o.width}}};
  const int64_t hidden = o.hidden > 0 ? o.hidden : 4 * o.width;
  if (o.experts.count > 0)
    largest["blocks.0.experts.down"] = {o.experts.count, o.width, hidden};
  else if (o.feed_forward != FeedForwardKind::dense)
    largest["blocks.0.channel_mix.value.weight"] = {o.width, hidden};
  else
    largest["blocks.0.feed_forward.down.weight"] = {o.width, hidden};
  if (o.positions == Positions::learned) largest["positions"] = {o.context, o.width};
  for (const auto& [name, shape] : largest) {
    const auto found = state.find(name);
    check(found != state.end() && found->second.shape() == shape,
          "load_model: {} is broken: it has no {} of {}", path, name, shape);
  }
  const std::string last = fmt::format("blocks.{}.", o.layers - 1);
  const auto block = state.lower_bound(last);
  check(block != state.end() && block->first.starts_with(last),
        "load_model: {} is broken: it has no weights of the last of {} blocks", path, o.layers);
}

Gpt model_in(const Safetensors& file, const std::string& path) {
  const GptOptions options = options_in(file, path);
  std::map<std::string, Tensor> state;
  for (const auto& [name, x] : file.tensors)
    if (name.starts_with("model/")) state[name.substr(6)] = x;
  check_sizes(options, state, path);
  const Generator before = default_generator();
  Gpt model(options);
  default_generator() = before;
  model.to(dtype_of(metadata_of(file, "dtype", path)));
  model.load_state_dict(state);
  model.eval();
  return model;
}

}  // namespace

Gpt load_model(const std::string& path) { return model_in(read_safetensors(path), path); }

TextModel load_text_model(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    TextModel pretrained{load_pretrained<Gpt>(path), load_tokenizer(path + "/tokenizer.json")};
    check(pretrained.tokenizer->size() <= pretrained.model.options().vocabulary,
          "load_model: {} is broken: its tokenizer has {} tokens, its model {}", path,
          pretrained.tokenizer->size(), pretrained.model.options().vocabulary);
    return pretrained;
  }
  const Safetensors file = read_safetensors(path);
  std::unique_ptr<Tokenizer> tokenizer;
  for (const char* kind : kTokenizerKinds)
    if (const auto found = file.metadata.find(kind); found != file.metadata.end())
      tokenizer = tokenizer_from_json(found->second, fmt::format("load_model: {}: {}", path, kind));
  check(tokenizer != nullptr, "load_model: {} is no checkpoint of a text model: it has no tokenizer, {}",
        path, fmt::join(kTokenizerKinds, " or "));
  Gpt model = model_in(file, path);
  check(tokenizer->size() == model.options().vocabulary,
        "load_model: {} is broken: its tokenizer has {} tokens, its model {}", path, tokenizer->size(),
        model.options().vocabulary);
  return {std::move(model), std::move(tokenizer)};
}

void keep_tokenizer(Task& task, const Tokenizer& tokenizer) {
  task.setting[tokenizer.kind()] = tokenizer.to_json();
}

}  // namespace vitrine::nn::training
