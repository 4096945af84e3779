// Loads the checkpoint of a Trainer as a model: its options, weights and vocabulary.
#pragma once

#include <string>

#include "nn/models/gpt.h"
#include "nn/text/characters.h"

namespace vitrine::nn::training {

/// The Gpt of a checkpoint that a Trainer has saved for a language_modeling task. The model is in
/// evaluation mode, on the CPU, with the dtype of its training. The random generator is unchanged.
/// Metadata that lack an option or contradict the tensors are an error. Attention parts that the
/// library does not include must be registered before.
/// registered before.
Gpt load_model(const std::string& path);

/// A model and the vocabulary of its text.
struct TextModel {
  Gpt model;
  CharacterVocabulary vocabulary;
};

/// The model and its vocabulary, which train_gpt saves. A checkpoint without a vocabulary is an
/// error.
TextModel load_text_model(const std::string& path);

/// The key of the vocabulary in the settings of a task. Its value is
/// CharacterVocabulary::to_json().
inline constexpr const char* kCharacters = "characters";

}  // namespace vitrine::nn::training
