// The stages of a tokenizer in Hugging Face's file format, tokenizer.json.
//
// Read and written:
//   normalizer     null, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, BertNormalizer, Sequence
//   pre_tokenizer  ByteLevel, Split, Whitespace, WhitespaceSplit, BertPreTokenizer, Sequence
//   model          BPE (byte-level), WordPiece, WordLevel
//   decoder        ByteLevel, WordPiece, ByteFallback and Fuse, null
//   post_processor null, ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing, Sequence
//   added_tokens   without single_word
// Everything else is refused by its name. docs/text.md shows an example.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "nn/text/json_reader.h"
#include "nn/text/pipeline.h"

namespace vitrine::nn {

// The parts of the file. An error begins with the JSON pointer of the place.
Normalizer read_normalizer(const JsonReader& file);
/// Sets splitter and blank_first. Returns whether words go to the model as bytes (ByteLevel).
bool read_pre_tokenizer(const JsonReader& file, Pipeline& stages);
std::shared_ptr<const TokenModel> read_model(const JsonReader& file, bool byte_level);
/// The tokens by id: {"the": 0, …}. `byte_level`: they are spelled in GPT-2's alphabet.
VocabularyTable read_vocabulary(const JsonReader& vocab, bool byte_level);
std::vector<AddedToken> read_added_tokens(const JsonReader& file);
/// Sets front and back, from the template for a single text. Pairs of texts are not supported.
void read_post_processor(const JsonReader& file, Pipeline& stages);

nlohmann::ordered_json written_normalizer(const Normalizer& normalizer);
nlohmann::ordered_json written_pre_tokenizer(const Pipeline& stages);
nlohmann::ordered_json written_added_tokens(const Pipeline& stages);
nlohmann::ordered_json written_post_processor(const PipelineTokenizer& tokenizer);

/// The name that a tokenizer.json has for some steps of a splitter, such as BertPreTokenizer.
struct NamedSplitter {
  const char* name;
  std::vector<Splitter::Step> steps;
};
const std::vector<NamedSplitter>& named_splitters();

/// The name that a tokenizer.json has for a normalization.
struct NamedNormalization {
  const char* name;
  Normalization::Kind kind;
};
const std::vector<NamedNormalization>& named_normalizations();

}  // namespace vitrine::nn
