// A checkpoint of a Trainer as a model: its options, its weights and its vocabulary.
#pragma once

#include <string>

#include "nn/models/gpt.h"
#include "nn/text/characters.h"

namespace vitrine::nn::training {

/// The Gpt of a checkpoint that a Trainer saved of a language_modeling task, in evaluation mode,
/// with the dtype of its training, on the CPU. Takes no random numbers. Metadata that lack an
/// option, or contradict the tensors, are an error. A part of attention from outside must be
/// registered before.
Gpt load_model(const std::string& path);

/// A model and the vocabulary of its text.
struct TextModel {
  Gpt model;
  CharacterVocabulary vocabulary;
};

/// The same with its vocabulary, which train_gpt saves; a checkpoint without one is an error.
TextModel load_text_model(const std::string& path);

/// The name of the vocabulary in a task's setting: CharacterVocabulary::to_json().
inline constexpr const char* kCharacters = "characters";

}  // namespace vitrine::nn::training
