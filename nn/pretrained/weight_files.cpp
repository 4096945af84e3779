#include "nn/pretrained/weight_files.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/files/file.h"
#include "core/files/input_file.h"
#include "nn/text/json_reader.h"

namespace vitrine::nn {
namespace {

namespace fs = std::filesystem;
constexpr const char* kOneFile = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

bool begins_with_one(const std::string& name, const std::vector<std::string>& all) {
  return std::any_of(all.begin(), all.end(), [&](const std::string& x) { return name.starts_with(x); });
}

bool ends_with_one(const std::string& name, const std::vector<std::string>& all) {
  return std::any_of(all.begin(), all.end(), [&](const std::string& x) { return name.ends_with(x); });
}

bool is_weight(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16;
}

/// The tensors of each shard, by the index.
std::map<std::string, std::set<std::string>> read_index(const std::string& path) {
  const InputFile file("load_pretrained", path);
  std::map<std::string, std::set<std::string>> shards;
  JsonReader(file.text(0, file.bytes()), path)["weight_map"].for_each_member(
      [&](const std::string& tensor, const JsonReader& value) {
        const std::string shard = value.text();
        if (shard.empty() || fs::path(shard).filename() != shard) value.fail("is not the name of a file");
        shards[shard].insert(tensor);
      });
  check(!shards.empty(), "load_pretrained: {} names no shards", path);
  return shards;
}

int64_t bytes_of(const LateTensor& x) { return numel(x.shape) * static_cast<int64_t>(size_of(x.dtype)); }

}  // namespace

std::string TensorNames::full(const std::string& name) const {
  std::string result = name.starts_with(prefix) || begins_with_one(name, heads) ? name : prefix + name;
  for (const auto& [old, now] : {std::pair{".gamma", ".weight"}, {".beta", ".bias"}})
    if (result.ends_with(old)) result.replace(result.rfind('.'), std::string::npos, now);
  return result;
}

WeightFiles::WeightFiles(const std::string& folder, const TensorNames& names) : folder_(folder) {
  const std::string one = folder + "/" + kOneFile, index = folder + "/" + kIndex;
  if (fs::exists(one)) {
    add(one, names);
    return;
  }
  check(fs::exists(index), "load_pretrained: the folder {} has neither {} nor {}", folder, kOneFile, kIndex);
  const auto shards = read_index(index);
  for (const auto& entry : shards)
    check(fs::exists(folder + "/" + entry.first), "load_pretrained: {} names the shard {}, which is missing",
          index, entry.first);
  for (const auto& [shard, tensors] : shards) {
    add(folder + "/" + shard, names);
    const auto& entries = shards_.back().entries();
    for (const std::string& tensor : tensors)
      check(entries.contains(tensor), "load_pretrained: {} says that {} has {}, which it has not", index,
            shard, tensor);
    for (const auto& entry : entries)
      check(tensors.contains(entry.first), "load_pretrained: {} does not name {} of {}", index, entry.first,
            shard);
  }
}

void WeightFiles::add(const std::string& file, const TensorNames& names) {
  shards_.emplace_back(file);
  for (const auto& entry : shards_.back().entries()) {
    const std::string full = names.full(entry.first);
    check(places_.emplace(full, Place{shards_.size() - 1, entry.first}).second,
          "load_pretrained: {} has two tensors called {}", folder_, full);
  }
}

void WeightFiles::check_rows(const std::vector<WeightRow>& rows,
                             const std::vector<std::string>& ignored) const {
  std::vector<std::string> problems;
  std::set<std::string> wanted;
  for (const WeightRow& row : rows) {
    wanted.insert(row.theirs);
    const auto place = places_.find(row.theirs);
    if (place == places_.end()) {
      problems.push_back("missing " + row.theirs);
      continue;
    }
    const auto& entry = shards_[place->second.shard].entries().at(place->second.name);
    if (entry.shape != row.shape)
      problems.push_back(fmt::format("{} is {}, wanted {}", row.theirs, entry.shape, row.shape));
    if (!is_weight(entry.dtype))
      problems.push_back(fmt::format("{} is {}, wanted float32, float16 or bfloat16", row.theirs,
                                     vitrine::name(entry.dtype)));
  }
  for (const auto& place : places_)
    if (!wanted.contains(place.first) && !ends_with_one(place.first, ignored))
      problems.push_back("unexpected " + place.first);
  const size_t shown = std::min<size_t>(problems.size(), 8);
  check(problems.empty(), "load_pretrained: the tensors of {} are not those of its config.json: {}{}",
        folder_, fmt::join(problems.begin(), problems.begin() + static_cast<std::ptrdiff_t>(shown), "; "),
        problems.size() > shown ? fmt::format("; and {} more", problems.size() - shown) : "");
}

void WeightFiles::with_tensor(const std::string& name, const std::function<void(const Tensor&)>& f) const {
  const Place& place = places_.at(name);
  f(shards_[place.shard].tensor(place.name));
  shards_[place.shard].release(place.name);
}

void write_weight_files(const std::string& folder, const LateTensors& tensors, int64_t most) {
  // `transformers` asks for this word.
  const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  std::vector<std::map<std::string, LateTensor>> shards(1);
  int64_t bytes = 0, total = 0;
  for (const auto& [name, tensor] : tensors) {
    const int64_t own = bytes_of(tensor);
    if (bytes > 0 && bytes + own > most) shards.emplace_back(), bytes = 0;
    shards.back()[name] = tensor;
    bytes += own, total += own;
  }
  if (shards.size() == 1) {
    stream_safetensors(folder + "/" + kOneFile, shards[0], metadata);
    return;
  }
  nlohmann::ordered_json index = {{"metadata", {{"total_size", total}}}, {"weight_map", {}}};
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string shard = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    stream_safetensors(folder + "/" + shard, shards[i], metadata);
    for (const auto& entry : shards[i]) index["weight_map"][entry.first] = shard;
  }
  const std::string text = index.dump(2) + "\n";
  const std::string_view parts[] = {text};
  write_file("save_pretrained", folder + "/" + kIndex, parts);
  fs::remove(folder + "/" + kOneFile);  // it would be read in place of the shards
}

}  // namespace vitrine::nn
