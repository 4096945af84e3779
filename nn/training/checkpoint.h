// Loads the checkpoint of a Trainer as a model: its options, weights and vocabulary.
#pragma once

#include <memory>
#include <string>

#include "nn/models/gpt.h"
#include "nn/text/tokenizer.h"
#include "nn/training/task.h"

namespace vitrine::nn::training {

/// The Gpt of a checkpoint that a Trainer has saved for a language_modeling task. The model is in
/// evaluation mode, on the CPU, with the dtype of its training. The random generator is unchanged.
/// Metadata that lack an option or contradict the tensors are an error. Attention parts that the
/// library does not include must be registered before.
Gpt load_model(const std::string& path);

/// A model and the tokenizer of its text.
struct TextModel {
  Gpt model;
  std::unique_ptr<Tokenizer> tokenizer;
};

/// The model and its tokenizer, which train_gpt saves. A checkpoint without one is an error. A path
/// that is a folder is that of a pretrained model (nn/pretrained/pretrained.h), whose tokenizer is
/// tokenizer.json.
TextModel load_text_model(const std::string& path);

/// Puts the tokenizer into the settings of a task, so that checkpoints contain it. The key is the
/// kind of the tokenizer, and the value is its to_json().
void keep_tokenizer(Task& task, const Tokenizer& tokenizer);

}  // namespace vitrine::nn::training
