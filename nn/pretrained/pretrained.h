// Pretrained models: folders with a config.json, a model.safetensors and a tokenizer.json, as they
// are published for many models.
//
//   Gpt model = load_pretrained<Gpt>("gpt2");
//   const auto tokenizer = load_tokenizer("gpt2/tokenizer.json");
//   save_pretrained(model, "mine", {.tokenizer = tokenizer.get()});
#pragma once

#include <string>

#include "nn/models/gpt.h"
#include "nn/models/text_encoder.h"
#include "nn/models/vision_transformer.h"
#include "nn/text/tokenizer.h"

namespace vitrine::nn {

/// The model of a folder, in evaluation mode, on the CPU, in float32. The Model is
///   Gpt                 for the model_type gpt2 or llama,
///   TextEncoder         for bert: with the heads that the file has (masked tokens, pooler,
///                       classes),
///   VisionTransformer   for vit, with a layer that classifies.
/// The weights are in model.safetensors, or in the shards that model.safetensors.index.json names,
/// as float32, float16 or bfloat16. The files are mapped into memory and converted tensor by tensor
/// into the parameters, so the weights are never twice in memory. The random generator is
/// unchanged. Errors: a missing file; a member of config.json with a value that is not supported;
/// tensors that are missing, unexpected, or not of the shape that config.json says, by name.
template <class Model>
Model load_pretrained(const std::string& folder);
template <>
Gpt load_pretrained<Gpt>(const std::string& folder);
template <>
TextEncoder load_pretrained<TextEncoder>(const std::string& folder);
template <>
VisionTransformer load_pretrained<VisionTransformer>(const std::string& folder);

/// How a model is saved.
struct SavePretrained {
  const Tokenizer* tokenizer = nullptr;  ///< becomes tokenizer.json, if it is not null
  DType dtype = DType::float32;          ///< of the tensors: float32, float16 or bfloat16
  int64_t shard_bytes = 5'000'000'000;   ///< a larger model is saved in shards
};

/// Saves the model as such a folder, which is made if need be. A Gpt is a llama if its norm is rms,
/// and else a gpt2; a TextEncoder is a bert, a VisionTransformer a vit. A model that differs from
/// its kind, such as one with another mixer, is an error that names the option. A tensor is
/// converted when it is written, one after the other.
void save_pretrained(Gpt& model, const std::string& folder, const SavePretrained& how = {});
void save_pretrained(TextEncoder& model, const std::string& folder, const SavePretrained& how = {});
void save_pretrained(VisionTransformer& model, const std::string& folder, const SavePretrained& how = {});

/// Throws the error that save_pretrained would throw for the options and parameters of the model:
/// for programs that train before they save.
void check_can_save_pretrained(Gpt& model);
void check_can_save_pretrained(TextEncoder& model);
void check_can_save_pretrained(VisionTransformer& model);

}  // namespace vitrine::nn
