// GPT-2's own files of a tokenizer.
#pragma once

#include <string>

#include "nn/text/pipeline.h"

namespace vitrine::nn {

/// The tokenizer of GPT-2's encoder.json (ids by token) and vocab.bpe (a merge a line, after a line
/// that begins with #version). The special token is <|endoftext|>, if the vocabulary has it. Errors
/// name the file, and the line of vocab.bpe or the JSON pointer of encoder.json: a broken file, a
/// merge of unknown tokens, and merges out of order (each part must be a byte or the result of an
/// earlier merge).
PipelineTokenizer load_gpt2_tokenizer(const std::string& encoder_json, const std::string& vocab_bpe);

/// Saves a byte-level BPE as these two files. They say nothing of normalization, splitting and
/// special tokens: who reads them takes those of GPT-2. So a tokenizer that differs from these is
/// an error, as load_gpt2_tokenizer would give it other ids.
void save_gpt2_tokenizer(const PipelineTokenizer& tokenizer, const std::string& encoder_json,
                         const std::string& vocab_bpe);

}  // namespace vitrine::nn
