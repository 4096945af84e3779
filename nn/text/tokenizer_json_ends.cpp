// The post-processor of tokenizer.json: the tokens around a text.
#include "nn/text/tokenizer_json.h"

#include <nlohmann/json.hpp>

namespace vitrine::nn {
namespace {

/// The ids that a template has for a special token: {"[CLS]": {"ids": [101], …}}.
void append_special(const JsonReader& reader, const std::string& name, std::vector<int64_t>& ids) {
  reader["special_tokens"][name]["ids"].for_each_element(
      [&](size_t, const JsonReader& id) { ids.push_back(id.number()); });
}

void read_template(const JsonReader& reader, Pipeline& stages) {
  reader.only({"type", "single", "pair", "special_tokens"});
  bool is_after = false;
  reader["single"].for_each_element([&](size_t, const JsonReader& element) {
    if (element.has("SpecialToken")) {
      const std::string name = element["SpecialToken"]["id"].text();
      return append_special(reader, name, is_after ? stages.back : stages.front);
    }
    if (element["Sequence"]["id"].text() != "A" || is_after)
      element.fail("is not the one text A, which the template of a single text must have");
    is_after = true;
  });
  if (!is_after) reader["single"].fail("has no text A");
}

/// The id of a pair ["[SEP]", 102].
int64_t id_of_pair(const JsonReader& pair) {
  int64_t id = -1;
  pair.for_each_element([&](size_t index, const JsonReader& element) {
    if (index == 1) id = element.number();
  });
  if (id < 0) pair.fail("has no id as its second element");
  return id;
}

nlohmann::ordered_json sequence(const char* name, int type) {
  return {{"Sequence", {{"id", name}, {"type_id", type}}}};
}

}  // namespace

void read_post_processor(const JsonReader& file, Pipeline& stages) {
  const auto read = [&](const JsonReader& reader, const std::string& type) {
    if (type == "ByteLevel") return;  // it changes offsets alone
    if (!stages.front.empty() || !stages.back.empty()) reader.fail("is the second with tokens around a text");
    if (type == "TemplateProcessing") return read_template(reader, stages);
    if (type != "BertProcessing" && type != "RobertaProcessing")
      reader["type"].fail("is " + type + ", which is no post-processor that is supported");
    stages.front = {id_of_pair(reader["cls"])};
    stages.back = {id_of_pair(reader["sep"])};
  };
  if (!file.has("post_processor")) return;
  const JsonReader reader = file["post_processor"];
  if (reader["type"].text() != "Sequence") return read(reader, reader["type"].text());
  reader["processors"].for_each_element(
      [&](size_t, const JsonReader& element) { read(element, element["type"].text()); });
}

nlohmann::ordered_json written_post_processor(const PipelineTokenizer& tokenizer) {
  using Json = nlohmann::ordered_json;
  const Pipeline& stages = tokenizer.stages();
  if (stages.front.empty() && stages.back.empty()) return nullptr;
  Json single = Json::array(), pair = Json::array(), special = Json::object();
  const auto add = [&](const std::vector<int64_t>& ids) {
    for (const int64_t id : ids) {
      const std::string& name = tokenizer.token(id);
      special[name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
      for (Json* list : {&single, &pair}) list->push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
    }
  };
  add(stages.front);
  single.push_back(sequence("A", 0));
  pair.push_back(sequence("A", 0));
  add(stages.back);
  pair.push_back(sequence("B", 1));
  for (const int64_t id : stages.back)
    pair.push_back({{"SpecialToken", {{"id", tokenizer.token(id)}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(special)}};
}

}  // namespace vitrine::nn
