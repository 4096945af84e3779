#include "nn/training/checkpoint.h"

#include <cmath>
#include <filesystem>
#include <type_traits>

#include "core/files/safetensors.h"
#include "nn/pretrained/pretrained.h"
#include "nn/transformer/mixers.h"

namespace vitrine::nn::training {
namespace {

constexpr const char* kTokenizerKinds[] = {"characters", "bpe", "word_piece", "words"};

const std::string& value_in(const std::map<std::string, std::string>& metadata, const std::string& key,
                            const std::string& path) {
  const auto found = metadata.find(key);
  check(found != metadata.end(), "load_model: {} is no checkpoint of a model: it has no {}", path, key);
  return found->second;
}
const std::string& metadata_of(const Safetensors& file, const std::string& key, const std::string& path) {
  return value_in(file.metadata, key, path);
}

template <class Model>
struct Kind;
template <>
struct Kind<Gpt> {
  using Options = GptOptions;
  static constexpr const char* name = "gpt";
  /// The path of what is built last
  static std::string last(const Options& o) {
    return o.universal ? "halting." : fmt::format("blocks.{}.", o.layers - 1);
  }
  static std::map<std::string, Shape> largest(const Options& o) {
    std::map<std::string, Shape> shapes = {{"tokens.weight", {o.vocabulary, o.width}}};
    const int64_t hidden = o.hidden > 0 ? o.hidden : 4 * o.width;
    if (o.experts.count > 0)
      shapes["blocks.0.experts.down"] = {o.experts.count, o.width, hidden};
    else if (o.feed_forward != FeedForwardKind::dense)
      shapes["blocks.0.channel_mix.value.weight"] = {o.width, hidden};
    else
      shapes["blocks.0.feed_forward.down.weight"] = {o.width, hidden};
    if (o.positions == Positions::learned) shapes["positions"] = {o.context, o.width};
    if (o.output_mixtures > 0) shapes["mixture.prior.weight"] = {o.output_mixtures, o.width};
    return shapes;
  }
};
template <>
struct Kind<EncoderDecoder> {
  using Options = EncoderDecoderOptions;
  static constexpr const char* name = "encoder_decoder";
  static std::string last(const Options& o) {
    return fmt::format("decoder.blocks.{}.", o.decoder_layers - 1);
  }
  static std::map<std::string, Shape> largest(const Options& o) {
    return {{"tokens.weight", {o.vocabulary, o.width}},
            {"source_tokens.weight", {o.source_vocabulary, o.width}},
            {"decoder.blocks.0.feed_forward.down.weight", {o.width, o.hidden > 0 ? o.hidden : 4 * o.width}}};
  }
};

template <>
struct Kind<RecurrentEncoderDecoder> {
  using Options = RecurrentEncoderDecoderOptions;
  static constexpr const char* name = "recurrent_encoder_decoder";
  static std::string last(const Options&) { return "head."; }
  static std::map<std::string, Shape> largest(const Options& o) {
    return {{"tokens.weight", {o.vocabulary, o.width}},
            {"source_tokens.weight", {o.source_vocabulary, o.width}},
            {"bridge.weight", {o.width, o.width}}};
  }
};

template <>
struct Kind<PointerGenerator> {
  using Options = PointerGeneratorOptions;
  static constexpr const char* name = "pointer_generator";
  static std::string last(const Options&) { return "gate."; }
  static std::map<std::string, Shape> largest(const Options& o) {
    std::map<std::string, Shape> shapes;
    for (const auto& [name, shape] : Kind<RecurrentEncoderDecoder>::largest(o.base))
      shapes["base." + name] = shape;
    return shapes;
  }
};

template <class Model>
typename Kind<Model>::Options options_in(const Safetensors& file, const std::string& path) {
  const std::string& kind = metadata_of(file, "model", path);
  check(kind == Kind<Model>::name, "load_model: the model of {} is a {}, wanted {}", path, kind,
        Kind<Model>::name);
  auto metadata = file.metadata;
  complete_older_metadata(metadata);
  typename Kind<Model>::Options options;
  OptionList list = options_of(options);
  for (Option& option : list)
    if (option.role == Role::result && option.applies())
      option.read({value_in(metadata, option.name, path)},
                  fmt::format("load_model: {}: {}", path, option.name));
  return options;
}

/// Prevents a model with corrupt options from allocating memory: one tensor of each size, and the
/// last part, must be in the file.
template <class Model>
void check_sizes(const typename Kind<Model>::Options& o, const std::map<std::string, Tensor>& state,
                 const std::string& path) {
  for (const auto& [name, shape] : Kind<Model>::largest(o)) {
    const auto found = state.find(name);
    check(found != state.end() && found->second.shape() == shape,
          "load_model: {} is broken: it has no {} of {}", path, name, shape);
  }
  const std::string last = Kind<Model>::last(o);
  const auto block = state.lower_bound(last);
  check(block != state.end() && block->first.starts_with(last),
        "load_model: {} is broken: it has no weights of {}", path, last);
}

template <class Model>
Model model_in(const Safetensors& file, const std::string& path) {
  const auto options = options_in<Model>(file, path);
  std::map<std::string, Tensor> state;
  for (const auto& [name, x] : file.tensors)
    if (name.starts_with("model/")) state[name.substr(6)] = x;
  check_sizes<Model>(options, state, path);
  const Generator before = default_generator();
  Model model(options);
  default_generator() = before;
  model.to(dtype_of(metadata_of(file, "dtype", path)));
  model.load_state_dict(state);
  model.eval();
  return model;
}

std::unique_ptr<Tokenizer> tokenizer_in(const Safetensors& file, const std::string& path) {
  std::unique_ptr<Tokenizer> tokenizer;
  for (const char* kind : kTokenizerKinds)
    if (const auto found = file.metadata.find(kind); found != file.metadata.end())
      tokenizer = tokenizer_from_json(found->second, fmt::format("load_model: {}: {}", path, kind));
  check(tokenizer != nullptr, "load_model: {} is no checkpoint of a text model: it has no tokenizer, {}",
        path, fmt::join(kTokenizerKinds, " or "));
  return tokenizer;
}

TextModel pretrained_in(const std::string& folder) {
  TextModel pretrained{load_pretrained<Gpt>(folder), load_tokenizer(folder + "/tokenizer.json")};
  check(pretrained.tokenizer->size() <= pretrained.model.options().vocabulary,
        "load_model: {} is broken: its tokenizer has {} tokens, its model {}", folder,
        pretrained.tokenizer->size(), pretrained.model.options().vocabulary);
  return pretrained;
}

}  // namespace

void complete_older_metadata(std::map<std::string, std::string>& metadata) {
  if (const auto kind = metadata.find("model"); kind != metadata.end() && kind->second == "gpt")
    metadata.emplace("output-mixtures", "0");
  // Mixers without heads of keys took any number of them.
  if (const auto mixer = metadata.find("mixer"), heads = metadata.find("key-heads");
      mixer != metadata.end() && heads != metadata.end() && !has_key_heads(mixer->second))
    heads->second = "0";
  if (metadata.count("optimizer") > 0) metadata.emplace("moments", "float32");
  // Of models that have a WordEncoder; others do not read it.
  double width = 0;
  if (const auto found = metadata.find("width");
      found != metadata.end() && detail::parse(found->second, width))
    metadata.emplace("word-deviation", fmt::format("{}", 1 / std::sqrt(width)));
  if (metadata.count("training pairs") == 0) return;
  for (const char* option : {"tokens", "remove longest"}) metadata.emplace(option, "0");
}

template <class Model>
Model load_model(const std::string& path) {
  return model_in<Model>(read_safetensors(path), path);
}
template Gpt load_model<Gpt>(const std::string&);
template EncoderDecoder load_model<EncoderDecoder>(const std::string&);
template RecurrentEncoderDecoder load_model<RecurrentEncoderDecoder>(const std::string&);
template PointerGenerator load_model<PointerGenerator>(const std::string&);

std::string kind_of_model(const std::string& path) {
  return metadata_of(read_safetensors(path), "model", path);
}

template <class Model>
ModelWithTokenizer<Model> load_text_model(const std::string& path) {
  if constexpr (std::is_same_v<Model, Gpt>)
    if (std::filesystem::is_directory(path)) return pretrained_in(path);
  const Safetensors file = read_safetensors(path);
  std::unique_ptr<Tokenizer> tokenizer = tokenizer_in(file, path);
  Model model = model_in<Model>(file, path);
  check(tokenizer->size() == model.options().vocabulary,
        "load_model: {} is broken: its tokenizer has {} tokens, its model {}", path, tokenizer->size(),
        model.options().vocabulary);
  return {std::move(model), std::move(tokenizer)};
}
template ModelWithTokenizer<Gpt> load_text_model<Gpt>(const std::string&);
template ModelWithTokenizer<EncoderDecoder> load_text_model<EncoderDecoder>(const std::string&);
template ModelWithTokenizer<RecurrentEncoderDecoder> load_text_model<RecurrentEncoderDecoder>(
    const std::string&);

std::unique_ptr<Tokenizer> load_tokenizer_of(const std::string& path) {
  return tokenizer_in(read_safetensors(path), path);
}

void keep_model(Task& task, const LanguageModel& model) {
  for (const auto& [name, value] : model.settings()) task.setting[name] = value;
  task.setting["model"] = model.kind();
}

void keep_tokenizer(Task& task, const Tokenizer& tokenizer) {
  task.setting[tokenizer.kind()] = tokenizer.to_json();
}

}  // namespace vitrine::nn::training
