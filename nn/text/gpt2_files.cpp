#include "nn/text/gpt2_files.h"

#include <sstream>
#include <vector>

#include "core/error.h"
#include "nn/text/bpe.h"
#include "nn/text/byte_alphabet.h"
#include "nn/text/json_reader.h"
#include "nn/text/read_text.h"
#include "nn/text/tokenizer_json.h"

namespace vitrine::nn {
namespace {

std::vector<Merge> read_merges(const std::string& path, const VocabularyTable& vocabulary) {
  std::istringstream lines(read_text(path));
  std::vector<Merge> merges;
  std::vector<bool> made(static_cast<size_t>(vocabulary.size()));
  std::string line;
  for (int64_t number = 1; std::getline(lines, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if ((number == 1 && line.starts_with("#version")) || line.empty()) continue;
    const size_t blank = line.find(' ');
    check(blank != line.npos && line.find(' ', blank + 1) == line.npos,
          "{}, line {}: \"{}\" is no merge, wanted two parts with a blank between them", path, number, line);
    const auto id_of = [&](const std::string& spelling) {
      const auto bytes = unspell_bytes(spelling);
      const auto id = bytes ? vocabulary.find(*bytes) : std::nullopt;
      check(id.has_value(), "{}, line {}: \"{}\" is not in the vocabulary", path, number, spelling);
      return *id;
    };
    const std::string left = line.substr(0, blank), right = line.substr(blank + 1);
    const Merge merge{id_of(left), id_of(right), id_of(left + right)};
    for (const int32_t part : {merge.left, merge.right})
      check(vocabulary[part].size() == 1 || made[static_cast<size_t>(part)],
            "{}, line {}: the merges are out of order: \"{}\" is not made by an earlier line", path, number,
            spell_bytes(vocabulary[part]));
    made[static_cast<size_t>(merge.merged)] = true;
    merges.push_back(merge);
  }
  return merges;
}

}  // namespace

PipelineTokenizer load_gpt2_tokenizer(const std::string& encoder_json, const std::string& vocab_bpe) {
  const JsonReader encoder(read_text(encoder_json), encoder_json);
  VocabularyTable vocabulary = read_vocabulary(encoder, true);
  std::vector<Merge> merges = read_merges(vocab_bpe, vocabulary);
  Pipeline stages;
  stages.splitter = Splitter({{Pattern(kGpt2Pattern), Remains::all}});
  if (const auto id = vocabulary.find("<|endoftext|>")) stages.added = {{.id = *id, .text = "<|endoftext|>"}};
  try {
    stages.model = std::make_shared<Bpe>(std::move(vocabulary), std::move(merges));
  } catch (const Error& error) {
    fail("{}: {}", vocab_bpe, error.what());
  }
  return PipelineTokenizer(std::move(stages));
}

}  // namespace vitrine::nn
