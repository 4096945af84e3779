// Readers of files under libFuzzer, which keeps the mutations that reach new code. The first
// character of an input says which reader gets the rest. Each input is read, or refused by an
// Error; anything else ends the program. tests/data/fuzz_corpus has an input of each format to
// begin with. .ci/fuzz runs this from the root of the project, with limits of memory and time.
#include <filesystem>
#include <map>
#include <string>

#include "core/files/npy.h"
#include "core/files/safetensors.h"
#include "nn/config_file.h"
#include "nn/data/idx.h"
#include "nn/data/image.h"
#include "nn/data/json_lines.h"
#include "nn/data/wav.h"
#include "nn/pretrained/pretrained.h"
#include "nn/text/gpt2_files.h"
#include "nn/text/tokenizer.h"
#include "tests/folder.h"
#include "tests/nn/config_settings.h"

using namespace vitrine;
using namespace vitrine::nn;
namespace fs = std::filesystem;

namespace {

/// Reads every element.
void touch(const Tensor& x) {
  if (x.defined()) x.values();
}

void read_safetensors_twice(const std::string& path) {
  for (const auto& entry : read_safetensors(path).tensors) touch(entry.second);
  const MappedSafetensors mapped(path);
  for (const auto& entry : mapped.entries()) touch(mapped.tensor(entry.first));
}

void read_records(const std::string& path) {
  for (const JsonRecord& record : read_json_lines(path)) record.text("text"), record.whole("label");
}

void read_settings(const std::string& path) {
  test::ConfigSettings settings;
  OptionList list = options_of(settings);
  read_config(path, list);
}

void read_tokenizer(const std::string& path) {
  const auto tokenizer = tokenizer_from_json(test::bytes_of_file(path), path);
  tokenizer->decode(tokenizer->encode("ab <x> c<end> é\xff", SpecialTokens::as_tokens));
}

/// The lines up to an empty one are encoder.json, and the others vocab.bpe.
void read_gpt2_tokenizer(const std::string& path) {
  const std::string whole = test::bytes_of_file(path), merges = path + ".bpe";
  const size_t end = whole.find("\n\n");
  if (end == std::string::npos) return;
  fs::remove(path);
  test::write_bytes(path, whole.substr(0, end));
  fs::remove(merges);
  test::write_bytes(merges, whole.substr(end + 2));
  load_gpt2_tokenizer(path, merges).encode("a b");
}

/// A copy of a folder of tests/data/pretrained_cases, in which `file` is replaced by the input.
template <class Model>
void read_pretrained(const char* kind, const char* file, const std::string& path) {
  static std::map<std::string, test::Folder> folders;
  test::Folder& folder = folders[std::string(kind) + file];
  if (folder.entries() == 0) fs::copy(fs::path("tests/data/pretrained_cases") / kind, folder.path);
  fs::rename(path, folder / file);
  load_pretrained<Model>(folder.path.string());
}

void read_as(char format, const std::string& path) {
  switch (format) {
    case 'n': return touch(read_npy(path));
    case 's': return read_safetensors_twice(path);
    case 'i': return touch(read_idx(path));
    case 'w': return touch(read_wav(path, 8000));
    case 'j': return read_records(path);
    case 'd': return void(read_optdigits(path));
    case 'o': return read_settings(path);
    case 't': return read_tokenizer(path);
    case 'm': return read_gpt2_tokenizer(path);
    case 'g': return read_pretrained<Gpt>("gpt2", "config.json", path);
    case 'l': return read_pretrained<Gpt>("llama", "config.json", path);
    case 'x': return read_pretrained<Gpt>("llama", "model.safetensors.index.json", path);
    case 'b': return read_pretrained<TextEncoder>("bert_classes", "config.json", path);
    case 'v': return read_pretrained<VisionTransformer>("vit", "config.json", path);
    default: throw Error("no reader has this letter");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const test::Folder folder;
  const std::string path = folder / "input";
  fs::remove(path);  // a file that is written over would be flushed to the disk
  test::write_bytes(path, std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  try {
    read_as(static_cast<char>(data[0]), path);
  } catch (const Error&) {
  }
  return 0;
}
