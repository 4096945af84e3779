// Pretrained folders of models of ours: bits, shards, dtypes, memory, and what is refused.
// VITRINE_SAVED names a folder for models that .ci/judge_pretrained gives to `transformers`;
// VITRINE_PRETRAINED_SEED is their seed.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nn/layers/lora.h"
#include "nn/text/read_text.h"
#include "nn/training/checkpoint.h"
#include "tests/data.h"
#include "tests/environment.h"
#include "tests/folder.h"
#include "tests/memory_use.h"
#include "tests/nn/pretrained/pretrained.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::test;
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

GptOptions gpt2() {
  return {.vocabulary = 23, .context = 20, .width = 12, .layers = 2, .heads = 3, .hidden = 20};
}

GptOptions llama() {
  return {.vocabulary = 23,
          .context = 20,
          .width = 16,
          .layers = 2,
          .heads = 4,
          .key_heads = 2,
          .hidden = 20,
          .mixer = "rotary=theta=300",
          .activation = Activation::swiglu,
          .norm = NormKind::rms,
          .norm_epsilon = 1e-4,
          .bias = Bias::no,
          .tied = false};
}

TextEncoderOptions bert() {
  return {.vocabulary = 23,
          .segments = 2,
          .embedding_norm = true,
          .pooler = true,
          .stack = {.block = {.mixer = {.width = 12, .heads = 3, .context = 14},
                              .hidden = 20,
                              .activation = Activation::gelu,
                              .norm_epsilon = 1e-12,
                              .residual = Residual::post},
                    .layers = 2}};
}

VisionTransformerOptions vit() {
  return {
      .channels = 3,
      .height = 8,
      .width = 8,
      .patch = 4,
      .classes = 5,
      .stack = {.block = {.mixer = {.width = 12, .heads = 3}, .hidden = 20, .activation = Activation::gelu},
                .layers = 2}};
}

/// Numbers that are not the initial ones, so that a parameter that is not saved shows.
template <class Model>
void enliven(Model& model, uint64_t seed) {
  Generator g(seed);
  for (Parameter& p : model.parameters()) {
    const bool gain = p.shape().rank() == 1 && p.name().ends_with("weight");
    p.assign(randn(p.shape(), DType::float32, Device::cpu, gain ? 1 : 0, 0.25, g));
  }
  model.eval();
}

Tensors inputs_of(const Gpt& model, Generator& g) {
  return {{"ids", randint(1, model.options().vocabulary, {2, 7}, Device::cpu, g)}};
}

Tensors inputs_of(const TextEncoder& model, Generator& g) {
  const auto& o = model.options();
  return {{"ids", randint(1, o.vocabulary, {2, 7}, Device::cpu, g)},
          {"segments", randint(0, o.segments, {2, 7}, Device::cpu, g)},
          {"lengths", index_tensor(std::vector<int64_t>{7, 4}, {2})}};
}

Tensors inputs_of(const VisionTransformer& model, Generator& g) {
  const auto& o = model.options();
  return {{"images", randn({2, o.channels, o.height, o.width}, DType::float32, Device::cpu, 0, 1, g)}};
}

/// Saves a model with random weights and loads it: the same bits. Keeps the folder for the judge.
template <class Model, class Options>
void check_round_trip(const std::string& name, const Options& options, int64_t shard_bytes = 1 << 30) {
  INFO(name);
  const auto seed = static_cast<uint64_t>(from_environment("VITRINE_PRETRAINED_SEED", 1));
  const Folder temporary;
  const char* const kept = std::getenv("VITRINE_SAVED");
  const std::string path = (kept ? fs::path(kept) : temporary.path) / name;
  Model model(options);
  enliven(model, seed);
  save_pretrained(model, path, {.shard_bytes = shard_bytes});
  CHECK(fs::exists(path + "/model.safetensors") == (shard_bytes > 10000));
  Generator g(seed + 100);
  const Tensors inputs = inputs_of(model, g);
  Model loaded = load_pretrained<Model>(path);
  CHECK_FALSE(loaded.training());
  Safetensors all = {inputs, {}};
  for (const auto& [result, value] : results_of(model, inputs)) {
    CHECK(results_of(loaded, inputs).at(result).values() == value.values());
    all.tensors[result] = value;
  }
  if (kept) write_safetensors(path + "/expected.safetensors", all);
}

void edit(const std::string& path, const std::function<void(Json&)>& change) {
  Json json = Json::parse(read_text(path));
  change(json);
  write_bytes(path, json.dump());
}

/// The error of loading a folder in which config.json has been changed.
template <class Model, class Options>
std::string config_error(const Options& options, const std::function<void(Json&)>& change) {
  const Folder folder;
  Model model(options);
  save_pretrained(model, folder.path.string());
  edit(folder / "config.json", change);
  return error_of([&] { load_pretrained<Model>(folder.path.string()); });
}

template <class Model, class Options>
std::string save_error(const Options& options) {
  const Folder folder;
  Model model(options);
  const std::string error = error_of([&] { save_pretrained(model, folder.path.string()); });
  CHECK(fs::is_empty(folder.path));
  return error;
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK_MESSAGE(found, part);
  return found;
}

}  // namespace

TEST_CASE("a model that is saved as a pretrained folder comes back with the same bits") {
  check_round_trip<Gpt>("gpt2", gpt2());
  GptOptions other = gpt2();
  other.activation = Activation::relu, other.hidden = 0, other.tied = false, other.norm_epsilon = 1e-3;
  check_round_trip<Gpt>("gpt2_other", other, 4000);
  check_round_trip<Gpt>("llama", llama(), 4000);
  other = llama();
  other.mixer = "rotary=pairs=half", other.key_heads = 0, other.tied = true, other.bias = Bias::yes;
  other.activation = Activation::geglu;
  check_round_trip<Gpt>("llama_other", other);
  other.mixer = "rotary=theta=1e20";
  check_round_trip<Gpt>("llama_large_theta", other);
  TextEncoderOptions text = bert();
  check_round_trip<TextEncoder>("bert", text);
  text.classes = 4;
  check_round_trip<TextEncoder>("bert_classes", text, 4000);
  text.classes = 2, text.output_transform = true;
  check_round_trip<TextEncoder>("bert_pretraining", text);
  text.classes = 0, text.pooler = false;
  check_round_trip<TextEncoder>("bert_masked", text);
  check_round_trip<VisionTransformer>("vit", vit());
  VisionTransformerOptions image = vit();
  image.stack.block.mixer.bias = {Bias::no, Bias::no, Bias::no, Bias::yes};
  image.classes = 2;
  check_round_trip<VisionTransformer>("vit_other", image);
}

TEST_CASE("a folder may have 16-bit tensors, old names, no prefix, and copies of tied weights") {
  const Folder folder;
  const std::string path = folder.path.string(), file = folder / "model.safetensors";
  Gpt model(gpt2());
  enliven(model, 1);
  const Tensor ids = arange(0, 7).alias({1, 7}, {7, 1});
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    save_pretrained(model, path, {.dtype = dtype});
    CHECK(read_safetensors(file).tensors.at("transformer.wte.weight").dtype() == dtype);
    Gpt rounded = model.clone();
    for (Parameter& p : rounded.parameters()) p.assign(cast(cast(p.value(), dtype), DType::float32));
    rounded.eval();
    CHECK(load_pretrained<Gpt>(path).forward(ids).values() == rounded.forward(ids).values());
  }
  save_pretrained(model, path);
  Safetensors old;
  for (const auto& [name, tensor] : read_safetensors(file).tensors)
    old.tensors[name.substr(std::string("transformer.").size())] = tensor;
  old.tensors["h.0.attn.bias"] = ones({1, 1, 20, 20}, DType::boolean);
  old.tensors["lm_head.weight"] = old.tensors.at("wte.weight");
  write_safetensors(file, old);
  CHECK(load_pretrained<Gpt>(path).forward(ids).values() == model.forward(ids).values());

  TextEncoder text(bert());
  enliven(text, 2);
  save_pretrained(text, path);
  Safetensors gamma;
  for (const auto& [full, tensor] : read_safetensors(file).tensors) {
    std::string name = full;
    for (const auto& [now, before] :
         {std::pair{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}})
      if (name.ends_with(now)) name.replace(name.rfind("LayerNorm"), std::string::npos, before);
    gamma.tensors[name] = tensor;
  }
  write_safetensors(file, gamma);
  CHECK(load_pretrained<TextEncoder>(path).features(ids).values() == text.features(ids).values());
}

TEST_CASE("weights are never twice in memory, neither when loaded nor when saved") {
  const Folder folder;
  GptOptions options = gpt2();
  options.width = 192, options.hidden = 0, options.layers = 4;
  Gpt model(options);
  const auto bytes = static_cast<double>(4 * model.parameter_count());
  CHECK(bytes > 7e6);
  const auto share = [&](const std::function<void()>& f) {
    return static_cast<double>(memory_use(f).peak) / bytes;
  };
  for (const DType dtype : {DType::float32, DType::float16}) {
    CHECK(share([&] { save_pretrained(model, folder.path.string(), {.dtype = dtype}); }) < 0.3);
    CHECK(share([&] { load_pretrained<Gpt>(folder.path.string()); }) < 1.3);
  }
}

TEST_CASE("a program that continues text reads a pretrained folder as it reads a checkpoint") {
  const fs::path folder = source_directory() / "tests/data/pretrained_cases/llama";
  training::TextModel loaded = training::load_text_model(folder.string());
  const Tokens ids = loaded.tokenizer->encode("the model");
  CHECK(loaded.tokenizer->decode(ids) == "the model");
  CHECK(generate(loaded.model, {ids.begin(), ids.end()}, 3, {.temperature = 0}).size() == ids.size() + 3);
  const Folder saved;
  save_pretrained(loaded.model, saved.path.string(), {.tokenizer = loaded.tokenizer.get()});
  const Tokens again = training::load_text_model(saved.path.string()).tokenizer->encode("the model");
  CHECK(std::equal(again.begin(), again.end(), ids.begin(), ids.end()));
  fs::remove(saved / "tokenizer.json");
  has(error_of([&] { training::load_text_model(saved.path.string()); }), "tokenizer.json");
}

TEST_CASE("a broken folder is refused, and the error names what is wrong") {
  const Folder folder;
  const std::string path = folder.path.string(), file = folder / "model.safetensors",
                    index = folder / "model.safetensors.index.json";
  const auto error = [&] { return error_of([&] { load_pretrained<Gpt>(path); }); };
  has(error_of([&] { load_pretrained<Gpt>(path + "/none"); }), "/none is not a folder");
  has(error(), "config.json");
  Gpt model(gpt2());
  save_pretrained(model, path);
  const std::string whole = bytes_of_file(file);
  const auto changed = [&](const std::function<void(Safetensors&)>& change) {
    Safetensors content = read_safetensors(file);
    change(content);
    write_safetensors(file, content);
    std::string text = error();
    write_bytes(file, whole);
    return text;
  };
  has(changed([](auto& f) { f.tensors.erase("transformer.h.1.ln_2.bias"); }),
      "missing transformer.h.1.ln_2.bias");
  has(changed([](auto& f) { f.tensors["extra"] = ones({2}); }), "unexpected transformer.extra");
  has(changed([](auto& f) {
        f.tensors["transformer.wpe.weight"] = ones({20, 11});
      }),
      "transformer.wpe.weight is [20, 11], wanted [20, 12]");
  has(changed([](auto& f) { f.tensors["transformer.ln_f.bias"] = ones({12}, DType::int64); }),
      "transformer.ln_f.bias is int64, wanted float32, float16 or bfloat16");
  has(changed([](auto& f) {
        f.tensors["wpe.weight"] = ones({20, 12});
      }),
      "two tensors called transformer.wpe.weight");
  write_bytes(file, whole.substr(0, whole.size() - 4));
  has(error(), "/model.safetensors lies at [");
  fs::remove(file);
  has(error(), "has neither model.safetensors nor model.safetensors.index.json");

  save_pretrained(model, path, {.shard_bytes = 4000});
  CHECK_FALSE(fs::exists(file));
  const std::string whole_index = bytes_of_file(index);
  const auto with_index = [&](const std::function<void(Json&)>& change) {
    edit(index, change);
    std::string text = error();
    write_bytes(index, whole_index);
    return text;
  };
  CHECK(error().empty());
  save_pretrained(model, path);  // the shards stay, and are not read
  model.tokens.weight.assign(ones({23, 12}));
  save_pretrained(model, path, {.shard_bytes = 4000});
  CHECK(load_pretrained<Gpt>(path).tokens.weight.master().values() == model.tokens.weight.master().values());
  const std::string wte = "transformer.wte.weight";
  has(with_index([&](Json& j) { j["weight_map"][wte] = "model-7.safetensors"; }),
      "model-7.safetensors, which is missing");
  has(with_index([&](Json& j) { j["weight_map"][wte] = "../x"; }), "is not the name of a file");
  has(with_index([&](Json& j) { j["weight_map"].erase(wte); }), "does not name " + wte);
  has(with_index([&](Json& j) { j["weight_map"]["y"] = j["weight_map"][wte]; }), "has y, which it has not");
  has(with_index([](Json& j) { j.erase("weight_map"); }), "has no member weight_map");
  has(with_index([](Json& j) { j["weight_map"] = Json::object(); }), "names no shards");
}

TEST_CASE("a config.json with what is not supported is refused by its name") {
  const auto of_gpt2 = [](const char* key, const Json& value) {
    return config_error<Gpt>(gpt2(), [&](Json& j) { j[key] = value; });
  };
  const auto of_llama = [](const char* key, const Json& value) {
    return config_error<Gpt>(llama(), [&](Json& j) { j[key] = value; });
  };
  const auto of_bert = [](const char* key, const Json& value) {
    return config_error<TextEncoder>(bert(), [&](Json& j) { j[key] = value; });
  };
  has(of_gpt2("model_type", "mistral"), "/model_type is mistral, wanted gpt2 or llama");
  has(of_gpt2("activation_function", "mish"), "/activation_function is mish, wanted gelu_new,");
  has(of_gpt2("scale_attn_weights", false), "/scale_attn_weights is not supported, wanted true");
  has(of_gpt2("n_head", 0), "/n_head is 0, wanted at least 1");
  has(of_gpt2("n_head", 5), "the width 12 is no multiple of the 5 heads");
  has(of_gpt2("n_layer", 1000000000), "has 1000000000 layers of at least 9 tensors, but there are only 28");
  has(of_gpt2("n_layer", 1), "unexpected transformer.h.1.");
  has(of_gpt2("n_embd", 9), "transformer.wte.weight is [23, 12], wanted [23, 9]");
  has(of_gpt2("n_embd", 9), "; and ");
  has(of_gpt2("layer_norm_epsilon", -1), "/layer_norm_epsilon is -1, wanted at least 0");
  has(of_gpt2("tie_word_embeddings", false), "missing lm_head.weight");
  has(config_error<Gpt>(gpt2(), [](Json& j) { j.erase("vocab_size"); }), "has no member vocab_size");
  const Json linear = {{"type", "linear"}, {"factor", 2.0}};
  has(of_llama("rope_scaling", linear), "/rope_scaling/type is not supported, wanted \"default\"");
  has(of_llama("rope_parameters", {{"rope_type", "yarn"}}), "/rope_parameters/rope_type is not supported");
  CHECK(of_llama("rope_scaling", nullptr).empty());
  has(of_llama("sliding_window", 4), "/sliding_window is 4, which is not supported");
  has(of_llama("head_dim", 8), "has 4 heads of head_dim 8, wanted that many to make hidden_size 16");
  has(of_llama("mlp_bias", true), "attention_bias false and mlp_bias true, wanted the same for both");
  has(of_bert("position_embedding_type", "relative_key"), "/position_embedding_type is not supported");
  has(of_bert("architectures", {"BertForTokenClassification"}),
      "the architecture is BertForTokenClassification, wanted BertModel");
  has(of_bert("architectures", {"BertForMaskedLM"}), "missing cls.predictions.transform.dense.weight");
  has(of_bert("architectures", {"BertForSequenceClassification"}), "missing classifier.weight");
  has(config_error<VisionTransformer>(vit(), [](Json& j) { j["id2label"].erase("0"); }),
      "classifier.weight is [5, 12], wanted [4, 12]");
}

TEST_CASE("a model that no kind can express is not saved, and the error names the option") {
  GptOptions o = gpt2();
  o.mixer = "laser";
  has(save_error<Gpt>(o), "the model is no gpt2: mixer is laser, wanted standard");
  o = gpt2(), o.residual = Residual::post;
  has(save_error<Gpt>(o), "residual is post, wanted pre");
  o = gpt2(), o.activation = Activation::swiglu;
  has(save_error<Gpt>(o), "activation is swiglu");
  o = llama(), o.mixer = "rotary=interleaved";
  has(save_error<Gpt>(o), "the model is no llama: mixer is rotary=interleaved");
  TextEncoderOptions text = bert();
  text.embedding_norm = false;
  has(save_error<TextEncoder>(text), "embedding norm is false, wanted true");
  text = bert(), text.mean_pooling = true;
  has(save_error<TextEncoder>(text), "mean pooling is true, wanted false");
  VisionTransformerOptions image = vit();
  image.height = 12;
  has(save_error<VisionTransformer>(image), "the model is no vit: ");
  image = vit(), image.stack.reversible = true;
  has(save_error<VisionTransformer>(image), "reversible is yes, wanted no");
  image = vit(), image.stack.universal = true;
  has(save_error<VisionTransformer>(image), "universal is yes, wanted no");
  Gpt changed(gpt2());
  add_lora(changed, "blocks.*.attention.**");
  has(error_of([&] { save_pretrained(changed, "x", {}); }), "merge_lora joins low-rank changes");
  Gpt model(gpt2());
  has(error_of([&] { save_pretrained(model, "x", {.dtype = DType::int64}); }), "the dtype is int64");
}
