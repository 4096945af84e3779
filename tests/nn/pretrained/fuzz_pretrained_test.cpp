// Mutated config.json and model.safetensors.index.json of pretrained models are read or refused.
// VITRINE_FUZZ_ROUNDS and VITRINE_FUZZ_SEED as in tests/core/files/fuzz.h.
#include <doctest/doctest.h>

#include <ctime>
#include <filesystem>

#include "core/memory/allocator.h"
#include "nn/pretrained/pretrained.h"
#include "nn/text/json_reader.h"
#include "nn/text/read_text.h"
#include "tests/core/files/fuzz.h"
#include "tests/data.h"
#include "tests/environment.h"
#include "tests/folder.h"
#include "tests/memory_use.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::test;
namespace fs = std::filesystem;

namespace {

void load_any(const std::string& folder, const std::string& kind) {
  if (kind.starts_with("bert"))
    load_pretrained<TextEncoder>(folder);
  else if (kind.starts_with("vit"))
    load_pretrained<VisionTransformer>(folder);
  else
    load_pretrained<Gpt>(folder);
}

}  // namespace

TEST_CASE(
    "2,000 mutated pretrained folders are loaded or refused, without more memory than their weights need") {
  const fs::path cases = source_directory() / "tests/data/pretrained_cases";
  const auto rounds = static_cast<size_t>(from_environment("VITRINE_FUZZ_ROUNDS", 2000));
  Generator random(static_cast<uint64_t>(from_environment("VITRINE_FUZZ_SEED", 1)));
  const std::vector<std::pair<std::string, std::string>> files = {{"gpt2", "config.json"},
                                                                  {"llama", "config.json"},
                                                                  {"bert_classes", "config.json"},
                                                                  {"vit", "config.json"},
                                                                  {"llama", "model.safetensors.index.json"}};
  for (const auto& mutation : files) {
    const std::string &kind = mutation.first, &file = mutation.second;
    INFO(kind << "/" << file);
    const Folder folder;
    fs::copy(cases / kind, folder.path);
    const std::string path = folder / file, whole = read_text(path);
    const size_t weights = memory_use([&] { load_any(folder.path.string(), kind); }).peak;
    size_t refused = 0, each = rounds / files.size();
    for (size_t round = 0; round < each; ++round) {
      const std::string text = mutated(whole, "0123456789{}[]\",:-", random);
      INFO(text);
      fs::remove(path);
      write_bytes(path, text);
      const std::clock_t start = std::clock();
      const MemoryUse use = memory_use([&] {
        try {
          load_any(folder.path.string(), kind);
        } catch (const Error& error) {
          CHECK(std::string(error.what()).size() < 4000);
          ++refused;
        }
      });
      CHECK(std::clock() - start <= CLOCKS_PER_SEC);
      CHECK(use.peak < weights + 100 * text.size() + 100000);
    }
    CHECK(refused > each / 10);
    CHECK(refused < each);
  }
}
