// The kinds of pretrained models that are loaded and saved: for each, the members of its
// config.json and the names of its tensors.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/models/gpt.h"
#include "nn/models/text_encoder.h"
#include "nn/models/vision_transformer.h"
#include "nn/pretrained/config_fields.h"
#include "nn/pretrained/weight_rows.h"

namespace vitrine::nn {

/// Whether a file has the tensor of this name.
using HasTensor = std::function<bool(const std::string& name)>;

/// A kind of pretrained model.
template <class Options>
struct PretrainedKind {
  std::string type;  ///< the model_type of config.json
  /// What the names of the body begin with, "transformer."; the file of a model without a head may
  /// leave it out.
  std::string prefix;
  std::vector<std::string> heads;  ///< what names of heads begin with, which have no prefix
  /// Ends of names that hold no weights: constants, and copies of tied weights
  std::function<std::vector<std::string>(const Options&)> ignored;
  Options fixed = {};  ///< the options that every model of the kind has
  /// The members of config.json that set or are set by options.
  std::function<void(ConfigFields&, Options&)> config;
  /// Sets the options of the heads, from the tensors that the file has and from the first name of
  /// `architectures`, "" if there is none.
  std::function<void(const HasTensor&, const std::string& named, Options&)> heads_of =
      [](const HasTensor&, const std::string&, Options&) {};
  /// The name of the class in `transformers`.
  std::function<std::string(const Options&)> architecture;
  std::function<int64_t(const Options&)> layers;
  std::function<std::vector<WeightRow>(const Options&)> weights;
  /// What determines the results, by name: a model that differs from the kind in any is refused.
  std::function<OptionValues(const Options&)> values;
};

PretrainedKind<GptOptions> gpt2_kind();
PretrainedKind<GptOptions> llama_kind();
PretrainedKind<TextEncoderOptions> bert_kind();
PretrainedKind<VisionTransformerOptions> vit_kind();

/// The activations by the names that config.json has for them: "gelu_new" is gelu_tanh.
const std::vector<std::pair<const char*, Activation>>& pretrained_activations();
/// The values of a Gpt, in one spelling: sizes that are 0 for a default are the default.
OptionValues gpt_values(const GptOptions& options);
/// The values of a stack.
OptionValues stack_values(const StackOptions& options);
/// The members that bert and vit share: sizes, activation, epsilon of norms, and dropout, which is
/// `dropout` where the file does not have it.
void encoder_fields(ConfigFields& f, StackOptions& stack, double dropout);
/// "blocks.3."
std::string block_name(const std::string& before, int64_t block);
int64_t hidden_of(const BlockOptions& options);  ///< the width inside the feed-forward part

}  // namespace vitrine::nn
