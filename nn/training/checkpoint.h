// Loads the checkpoint of a Trainer as a model: its options, weights and vocabulary.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "nn/models/encoder_decoder.h"
#include "nn/models/gpt.h"
#include "nn/models/pointer_generator.h"
#include "nn/models/recurrent_encoder_decoder.h"
#include "nn/text/tokenizer.h"
#include "nn/training/task.h"

namespace vitrine::nn::training {

/// The model of a checkpoint that a Trainer has saved for a task with keep_model, such as
/// language_modeling. Model is Gpt, EncoderDecoder, RecurrentEncoderDecoder or PointerGenerator; a
/// checkpoint of another kind is an error. The model is in evaluation mode, on the CPU, with the
/// dtype of its training. The random generator is unchanged. Metadata that lack an option or
/// contradict the tensors are an error. Attention parts that the library does not include must be
/// registered before.
template <class Model = Gpt>
Model load_model(const std::string& path);

/// Adds to the metadata of a checkpoint what older versions did not write: the values of options
/// that did not exist then.
void complete_older_metadata(std::map<std::string, std::string>& metadata);

/// The kind() of the model that the checkpoint has.
std::string kind_of_model(const std::string& path);

/// A model and the tokenizer of its text.
template <class Model>
struct ModelWithTokenizer {
  Model model;
  std::unique_ptr<Tokenizer> tokenizer;
};
using TextModel = ModelWithTokenizer<Gpt>;

/// The model and the tokenizer that keep_tokenizer has put into the checkpoint. A checkpoint
/// without one is an error. For a Gpt, the path may be the folder of a pretrained model
/// (nn/pretrained/pretrained.h), whose tokenizer is tokenizer.json.
template <class Model = Gpt>
ModelWithTokenizer<Model> load_text_model(const std::string& path);

/// The tokenizer alone.
std::unique_ptr<Tokenizer> load_tokenizer_of(const std::string& path);

/// Puts kind and settings of the model into the settings of a task, so that load_model finds them.
void keep_model(Task& task, const LanguageModel& model);

/// Puts the tokenizer into the settings of a task, so that checkpoints contain it. The key is the
/// kind of the tokenizer, and the value is its to_json().
void keep_tokenizer(Task& task, const Tokenizer& tokenizer);

}  // namespace vitrine::nn::training
