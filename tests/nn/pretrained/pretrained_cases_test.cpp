// Models of `transformers`: what Vitrine computes of them, and that it saves them as they were.
// VITRINE_DATA adds the cases of .ci/judge_pretrained.
#include <doctest/doctest.h>

#include "nn/text/json_reader.h"
#include "nn/text/read_text.h"
#include "tests/cases.h"
#include "tests/data.h"
#include "tests/folder.h"
#include "tests/nn/pretrained/pretrained.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::test;

namespace {

constexpr double kTolerance = 1e-5;

/// Loads, compares, and saves again.
template <class Model>
void check_case(const std::filesystem::path& path) {
  Model model = load_pretrained<Model>(path.string());
  const Tensors expected = read_safetensors((path / "expected.safetensors").string()).tensors;
  size_t inputs = 0;
  for (const char* input : {"ids", "segments", "lengths", "images"}) inputs += expected.count(input);
  const Tensors results = results_of(model, expected);
  CHECK(results.size() + inputs == expected.size());
  for (const auto& entry : results) {
    const std::string& name = entry.first;
    const Tensor& result = entry.second;
    INFO(name);
    if (name == "text")
      CHECK(result.values() == expected.at(name).values());
    else
      CHECK(distance(result, expected.at(name), 1) <= kTolerance);
  }
  if constexpr (std::is_same_v<Model, Gpt>) {
    const Tensor& ids = expected.at("ids");
    const Tensor last = slice(expected.at("logits"), 1, ids.size(1) - 1);
    CHECK(distance(cached_logits(model, ids), last, 1) <= kTolerance);
    const auto tokenizer = load_tokenizer((path / "tokenizer.json").string());
    CHECK(tokenizer->size() == model.options().vocabulary);
  }
  const Folder saved;
  save_pretrained(model, saved.path.string());
  const Tensors before = weights_in(path), after = weights_in(saved.path);
  CHECK(before.size() == after.size());
  for (const auto& entry : before) {
    const std::string& name = entry.first;
    const Tensor& tensor = entry.second;
    INFO(name);
    REQUIRE(after.contains(name));
    CHECK(after.at(name).shape() == tensor.shape());
    CHECK(after.at(name).values() == tensor.values());
  }
}

}  // namespace

TEST_CASE("pretrained models have the logits and the text of transformers, and are saved as they were") {
  for (const CaseFolder& folder : case_folders("pretrained_cases")) {
    CaseRunner runner;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
      if (!entry.is_directory()) continue;
      const std::string config = (entry.path() / "config.json").string();
      const std::string type = JsonReader(read_text(config), config)["model_type"].text();
      INFO(entry.path().string());
      runner.run_one(entry.path().filename().string(), [&] {
        if (type == "bert")
          check_case<TextEncoder>(entry.path());
        else if (type == "vit")
          check_case<VisionTransformer>(entry.path());
        else
          check_case<Gpt>(entry.path());
      });
    }
    CHECK_MESSAGE(runner.failures().empty(), runner.failures());
    CHECK(runner.ran() == 10);
  }
}
