#include "nn/pretrained/pretrained.h"

#include <algorithm>
#include <filesystem>

#include "core/files/file.h"
#include "core/files/input_file.h"
#include "core/tape.h"
#include "core/tensor_kernels.h"
#include "nn/pretrained/kinds.h"
#include "nn/pretrained/weight_files.h"

namespace vitrine::nn {
namespace {

namespace fs = std::filesystem;

template <class Options>
using Kinds = std::vector<PretrainedKind<Options>>;

JsonReader read_config_of(const std::string& folder) {
  check(fs::is_directory(folder), "load_pretrained: {} is not a folder", folder);
  const std::string path = folder + "/config.json";
  const InputFile file("load_pretrained", path);
  return JsonReader(file.text(0, file.bytes()), path);
}

template <class Options>
const PretrainedKind<Options>& kind_of(const JsonReader& config, const Kinds<Options>& kinds) {
  const std::string type = config["model_type"].text();
  std::vector<std::string> known;
  for (const auto& kind : kinds) {
    if (kind.type == type) return kind;
    known.push_back(kind.type);
  }
  config["model_type"].fail("is " + type + ", wanted " + joined_by_or(known));
}

template <class Options>
Options options_in(const JsonReader& config, const PretrainedKind<Options>& kind, const HasTensor& has) {
  Options options = kind.fixed;
  ConfigFields fields(config);
  kind.config(fields, options);
  std::string named;
  if (config.has("architectures"))
    config["architectures"].for_each_element([&](size_t i, const JsonReader& name) {
      if (i == 0) named = name.text();
    });
  kind.heads_of(has, named, options);
  return options;
}

/// Copies the tensors into the parameters, one after the other.
void fill(Module& model, const WeightFiles& files, const std::vector<WeightRow>& rows) {
  std::map<std::string, Parameter> parameters;
  for (auto& [path, parameter] : model.named_parameters()) parameters.emplace(path, parameter);
  const Tape::Pause pause;
  int64_t filled = 0;
  for (const WeightRow& row : rows) {
    Tensor part = row.part_of(parameters.at(row.ours).master());
    files.with_tensor(row.theirs, [&](const Tensor& tensor) { VITRINE_RUN(copy, part, tensor); });
    filled += part.numel();
  }
  check(filled == model.parameter_count(), "load_pretrained: {} of {} numbers have a tensor", filled,
        model.parameter_count());
}

template <class Model, class Options>
Model load(const std::string& folder, const Kinds<Options>& kinds) {
  const JsonReader config = read_config_of(folder);
  const PretrainedKind<Options>& kind = kind_of(config, kinds);
  const WeightFiles files(folder, {kind.prefix, kind.heads});
  const Options options = options_in(config, kind, [&](const std::string& name) { return files.has(name); });
  // More layers than the file can have would be a table without end. LLaMA has 9 tensors in each.
  constexpr int64_t kTensorsOfLayer = 9;
  check(kind.layers(options) <= static_cast<int64_t>(files.count()) / kTensorsOfLayer,
        "load_pretrained: by its config.json {} has {} layers of at least {} tensors, but there are only {}",
        folder, kind.layers(options), kTensorsOfLayer, files.count());
  const std::vector<WeightRow> rows = kind.weights(options);
  files.check_rows(rows, kind.ignored(options));
  const Generator before = default_generator();
  Model model(options);
  default_generator() = before;
  fill(model, files, rows);
  model.eval();
  return model;
}

/// Throws if the model is not what is read again from the file that would be written.
template <class Options>
void check_same(const Options& options, const nlohmann::ordered_json& written,
                const PretrainedKind<Options>& kind, const std::vector<WeightRow>& rows) {
  const HasTensor has = [&](const std::string& name) {
    return std::any_of(rows.begin(), rows.end(), [&](const WeightRow& row) { return row.theirs == name; });
  };
  const JsonReader config(written.dump(), "config.json");
  const OptionValues ours = kind.values(options), theirs = kind.values(options_in(config, kind, has));
  const auto value_in = [](const OptionValues& values, const std::string& name) {
    const auto found =
        std::find_if(values.begin(), values.end(), [&](const auto& x) { return x.first == name; });
    return found == values.end() ? "not there" : found->second;
  };
  for (const OptionValues* const some : {&ours, &theirs})
    for (const auto& value : *some) {
      const std::string own = value_in(ours, value.first), wanted = value_in(theirs, value.first);
      check(own == wanted, "save_pretrained: the model is no {}: {} is {}, wanted {}", kind.type, value.first,
            own, wanted);
    }
}

/// What is written of a model: its config.json, and the rows of its parameters.
struct WrittenModel {
  nlohmann::ordered_json config;
  std::vector<WeightRow> rows;
  std::map<std::string, Parameter> parameters;
};

template <class Options>
WrittenModel prepared(Module& model, const Options& options, const PretrainedKind<Options>& kind,
                      DType dtype) {
  WrittenModel result{.config = {}, .rows = kind.weights(options), .parameters = {}};
  result.config["model_type"] = kind.type;
  result.config["architectures"] = {kind.architecture(options)};
  result.config["dtype"] = result.config["torch_dtype"] = name(dtype);
  ConfigFields fields(result.config);
  Options written = options;
  kind.config(fields, written);
  check_same(options, result.config, kind, result.rows);
  for (auto& [path, parameter] : model.named_parameters()) {
    check(std::any_of(result.rows.begin(), result.rows.end(),
                      [&ours = path](const WeightRow& row) { return row.ours == ours; }),
          "save_pretrained: such a file has no place for the parameter {}{}", path,
          path.find(".lora.") == path.npos ? "" : "; merge_lora joins low-rank changes with their weights");
    result.parameters.emplace(path, parameter);
  }
  return result;
}

template <class Options>
void save(Module& model, const Options& options, const PretrainedKind<Options>& kind,
          const std::string& folder, const SavePretrained& how) {
  check(is_low_precision(how.dtype) || how.dtype == DType::float32,
        "save_pretrained: the dtype is {}, wanted float32, float16 or bfloat16", name(how.dtype));
  check(how.shard_bytes > 0, "save_pretrained: shards of {} bytes are wanted, at least 1", how.shard_bytes);
  const WrittenModel written = prepared(model, options, kind, how.dtype);
  const Tape::Pause pause;
  LateTensors tensors;
  for (const WeightRow& row : written.rows)
    tensors.emplace_back(row.theirs, LateTensor{how.dtype, row.shape,
                                                [&row, parameter = written.parameters.at(row.ours), &how] {
                                                  return copy_as(row.part_of(parameter.master()), how.dtype);
                                                }});
  fs::create_directories(folder);
  write_weight_files(folder, tensors, how.shard_bytes);
  const std::string text = written.config.dump(2) + "\n";
  const std::string_view parts[] = {text};
  write_file("save_pretrained", folder + "/config.json", parts);
  if (how.tokenizer) save_tokenizer(folder + "/tokenizer.json", *how.tokenizer);
}

GptOptions saved_options(const Gpt& model) {
  GptOptions options = model.options();
  options.key_heads = options.key_heads ? options.key_heads : options.heads;
  options.hidden = options.hidden ? options.hidden : 4 * options.width;
  return options;
}

PretrainedKind<GptOptions> kind_to_save(const GptOptions& options) {
  return options.norm == NormKind::rms ? llama_kind() : gpt2_kind();
}

}  // namespace

template <>
Gpt load_pretrained<Gpt>(const std::string& folder) {
  return load<Gpt>(folder, Kinds<GptOptions>{gpt2_kind(), llama_kind()});
}

template <>
TextEncoder load_pretrained<TextEncoder>(const std::string& folder) {
  return load<TextEncoder>(folder, Kinds<TextEncoderOptions>{bert_kind()});
}

template <>
VisionTransformer load_pretrained<VisionTransformer>(const std::string& folder) {
  return load<VisionTransformer>(folder, Kinds<VisionTransformerOptions>{vit_kind()});
}

void save_pretrained(Gpt& model, const std::string& folder, const SavePretrained& how) {
  const GptOptions options = saved_options(model);
  save(model, options, kind_to_save(options), folder, how);
}

void save_pretrained(TextEncoder& model, const std::string& folder, const SavePretrained& how) {
  save(model, model.options(), bert_kind(), folder, how);
}

void save_pretrained(VisionTransformer& model, const std::string& folder, const SavePretrained& how) {
  save(model, model.options(), vit_kind(), folder, how);
}

void check_can_save_pretrained(Gpt& model) {
  const GptOptions options = saved_options(model);
  prepared(model, options, kind_to_save(options), DType::float32);
}

void check_can_save_pretrained(TextEncoder& model) {
  prepared(model, model.options(), bert_kind(), DType::float32);
}

void check_can_save_pretrained(VisionTransformer& model) {
  prepared(model, model.options(), vit_kind(), DType::float32);
}

}  // namespace vitrine::nn
