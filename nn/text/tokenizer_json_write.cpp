// Writes tokenizer.json.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "nn/text/tokenizer_json.h"

namespace vitrine::nn {
namespace {

using Json = nlohmann::ordered_json;

/// null, the one element, or a Sequence of several.
Json sequence_of(std::vector<Json> elements, const char* key) {
  if (elements.empty()) return nullptr;
  if (elements.size() == 1) return elements[0];
  return {{"type", "Sequence"}, {key, std::move(elements)}};
}

Json written(const Normalization& step) {
  if (step.kind == Normalization::Kind::bert)
    return {{"type", "BertNormalizer"},
            {"clean_text", step.clean_text},
            {"handle_chinese_chars", step.spaces_around_chinese},
            {"strip_accents", step.strip_accents},
            {"lowercase", step.lowercase}};
  const auto& all = named_normalizations();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const NamedNormalization& n) { return n.kind == step.kind; });
  return {{"type", found->name}};
}

bool equal(const Splitter::Step& a, const Splitter::Step& b) {
  return a.pattern.text() == b.pattern.text() && a.remains == b.remains;
}

Json written(const Splitter::Step& step) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", step.pattern.text()}}},
          {"behavior", step.remains == Remains::all ? "Isolated" : "Removed"},
          {"invert", step.remains == Remains::matches}};
}

/// The steps from `begin`, by the name of a pre-tokenizer where one has these steps.
std::vector<Json> written(const std::vector<Splitter::Step>& steps) {
  std::vector<Json> elements;
  for (size_t i = 0; i < steps.size();) {
    const auto named =
        std::find_if(named_splitters().begin(), named_splitters().end(), [&](const NamedSplitter& n) {
          return i + n.steps.size() <= steps.size() &&
                 std::equal(n.steps.begin(), n.steps.end(), steps.begin() + static_cast<int64_t>(i), equal);
        });
    const bool has_name = named != named_splitters().end();
    elements.push_back(has_name ? Json{{"type", named->name}} : written(steps[i]));
    i += has_name ? named->steps.size() : 1;
  }
  return elements;
}

}  // namespace

Json written_normalizer(const Normalizer& normalizer) {
  std::vector<Json> elements;
  for (const Normalization& step : normalizer.steps()) elements.push_back(written(step));
  return sequence_of(std::move(elements), "normalizers");
}

Json written_pre_tokenizer(const Pipeline& stages) {
  std::vector<Splitter::Step> steps = stages.splitter.steps();
  if (stages.model->kind() != "bpe") return sequence_of(written(steps), "pretokenizers");
  const bool gpt2 = !steps.empty() && equal(steps.back(), {Pattern(kGpt2Pattern), Remains::all});
  if (gpt2) steps.pop_back();
  std::vector<Json> elements = written(steps);
  elements.push_back({{"type", "ByteLevel"},
                      {"add_prefix_space", stages.blank_first},
                      {"trim_offsets", true},
                      {"use_regex", gpt2}});
  return sequence_of(std::move(elements), "pretokenizers");
}

Json written_added_tokens(const Pipeline& stages) {
  Json all = Json::array();
  for (const AddedToken& token : stages.added)
    all.push_back({{"id", token.id},
                   {"content", token.text},
                   {"single_word", false},
                   {"lstrip", token.strip_left},
                   {"rstrip", token.strip_right},
                   {"normalized", token.normalized},
                   {"special", token.special}});
  return all;
}

std::string PipelineTokenizer::to_json() const {
  Json file = {{"version", "1.0"},
               {"truncation", nullptr},
               {"padding", nullptr},
               {"added_tokens", written_added_tokens(stages_)},
               {"normalizer", written_normalizer(stages_.normalizer)},
               {"pre_tokenizer", written_pre_tokenizer(stages_)},
               {"post_processor", written_post_processor(*this)}};
  stages_.model->write(file);
  return file.dump(1);
}

}  // namespace vitrine::nn
