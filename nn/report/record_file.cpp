#include "nn/report/record_file.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/files/file.h"
#include "nn/report/html.h"

namespace vitrine::nn::report {
namespace {

using Json = nlohmann::ordered_json;

// Each structure lists its members once. The list writes and reads.
template <class V>
void visit(V&& v, auto& s, TaskWords*) {
  v("item", s.item), v("loss_unit", s.loss_unit), v("loss_meaning", s.loss_meaning);
  v("classes", s.classes), v("writes_text", s.writes_text);
}
template <class V>
void visit(V&& v, auto& s, Series*) {
  v("name", s.name), v("x", s.x), v("y", s.y);
}
template <class V>
void visit(V&& v, auto& s, MetricValues*) {
  v("name", s.name), v("more_is_better", s.more_is_better), v("format", s.format), v("values", s.values);
}
template <class V>
void visit(V&& v, auto& s, PathGradients*) {
  v("name", s.name), v("q", s.q), v("k", s.k), v("v", s.v);
}
template <class V>
void visit(V&& v, auto& s, HeadStatistics*) {
  v("layer", s.layer), v("head", s.head), v("entropy", s.entropy), v("entropy_limit", s.entropy_limit);
  v("jacobian", s.jacobian), v("share_below_1e3", s.share_below_1e3);
  v("share_below_1e7", s.share_below_1e7);
  v("grad_norm_q", s.grad_norm_q), v("grad_norm_k", s.grad_norm_k), v("grad_norm_v", s.grad_norm_v);
}
template <class V>
void visit(V&& v, auto& s, AttentionMap*) {
  v("layer", s.layer), v("head", s.head), v("query_labels", s.query_labels);
  v("key_labels", s.key_labels), v("weights", s.weights);
}
template <class V>
void visit(V&& v, auto& s, WeightedText*) {
  v("label", s.label), v("words", s.words), v("weights", s.weights), v("weight", s.weight);
}
template <class V>
void visit(V&& v, auto& s, ConfusionMatrix*) {
  v("classes", s.classes), v("counts", s.counts);
}
template <class V>
void visit(V&& v, auto& s, ShadedTable*) {
  v("title", s.title), v("explanation", s.explanation), v("row_title", s.row_title);
  v("column_title", s.column_title), v("rows", s.rows), v("columns", s.columns);
  v("values", s.values), v("is_picture", s.is_picture);
}
template <class V>
void visit(V&& v, auto& s, TextTable*) {
  v("title", s.title), v("columns", s.columns), v("rows", s.rows);
}
template <class V>
void visit(V&& v, auto& s, WeightDistribution*) {
  v("counts", s.counts), v("below", s.below), v("not_a_number", s.not_a_number);
}
template <class V>
void visit(V&& v, auto& s, RunRecord*) {
  v("name", s.name), v("method", s.method), v("seed", s.seed), v("words", s.words);
  v("settings", s.settings), v("train_loss", s.train_loss), v("validation_loss", s.validation_loss);
  v("learning_rate", s.learning_rate), v("speed", s.speed), v("flops", s.flops), v("metrics", s.metrics);
  v("grad_norm_by_layer", s.grad_norm_by_layer), v("grad_norm_by_path", s.grad_norm_by_path);
  v("heads", s.heads), v("maps", s.maps), v("weights", s.weights), v("prompt", s.prompt);
  v("sample", s.sample), v("texts", s.texts), v("confusion", s.confusion), v("tables", s.tables);
  v("examples", s.examples);
  v("final_validation_loss", s.final_validation_loss);
  v("peak_memory_bytes", s.peak_memory_bytes), v("seconds", s.seconds), v("parameters", s.parameters);
}

template <class T>
Json written(const T& x) {
  if constexpr (std::is_arithmetic_v<T>) {
    return x;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return valid_utf8(x);
  } else if constexpr (requires { x.first; }) {
    return Json::array({written(x.first), written(x.second)});
  } else if constexpr (requires { x.begin(); }) {
    Json all = Json::array();
    for (const auto& one : x) all.push_back(written(one));
    return all;
  } else {
    Json object = Json::object();
    visit([&](const char* name, const auto& member) { object[name] = written(member); }, x,
          static_cast<T*>(nullptr));
    return object;
  }
}

template <class T>
void read(const Json& json, T& x) {
  if constexpr (std::is_floating_point_v<T>) {
    x = json.is_null() ? static_cast<T>(not_given) : json.get<T>();
  } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
    x = json.get<T>();
  } else if constexpr (std::is_integral_v<T>) {
    check(json.is_number_integer() && (json.is_number_unsigned() ? std::in_range<T>(json.get<uint64_t>())
                                                                 : std::in_range<T>(json.get<int64_t>())),
          "{} is not a whole number below 2^{}", json.dump(), 8 * sizeof(T) - 1);
    x = json.get<T>();
  } else if constexpr (requires { x.first; }) {
    check(json.is_array() && json.size() == 2, "{} is no pair", json.dump());
    read(json[0], x.first), read(json[1], x.second);
  } else if constexpr (requires { x.begin(); }) {
    check(json.is_array(), "{} is no list", json.dump());
    if constexpr (requires { x.resize(0); }) x.resize(json.size());
    check(json.size() == x.size(), "a list has {} elements, wanted {}", json.size(), x.size());
    for (size_t i = 0; i < x.size(); ++i) read(json.at(i), x[i]);
  } else {
    visit([&](const char* name, auto& member) { read(json.at(name), member); }, x, static_cast<T*>(nullptr));
  }
}

}  // namespace

void write_record(const std::string& path, const RunRecord& record) {
  const std::string text = written(record).dump() + "\n";
  const std::string_view parts[] = {text};
  write_file("write_record", path, parts);
}

RunRecord read_record(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  check(in.good(), "read_record: cannot open {}", path);
  RunRecord record;
  try {
    read(Json::parse(in), record);
  } catch (const std::exception& error) {
    fail("read_record: {} is no record of a run: {}", path, error.what());
  }
  return record;
}

}  // namespace vitrine::nn::report
