#include "core/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/creation.h"
#include "core/file.h"

namespace vitrine {
namespace {

using Json = nlohmann::json;
constexpr uint64_t kLargestHeader = 100'000'000;  // as in the format's own library
constexpr std::pair<DType, const char*> kNames[] = {
    {DType::float32, "F32"}, {DType::float64, "F64"}, {DType::bfloat16, "BF16"}, {DType::float16, "F16"},
    {DType::int64, "I64"},   {DType::int32, "I32"},   {DType::boolean, "BOOL"}};

/// The JSON header; nesting deeper than the format has is refused before it can use up the stack.
Json parse_header(const char* begin, const char* end, const std::string& path) {
  constexpr int kDeepest = 4;
  const auto callback = [&](int depth, Json::parse_event_t, Json&) {
    check(depth <= kDeepest, "read_safetensors: the header of {} is nested deeper than {} levels", path,
          kDeepest);
    return true;
  };
  Json header;
  try {
    header = Json::parse(begin, end, callback);
  } catch (const Json::exception& e) {
    fail("read_safetensors: the header of {} is not JSON: {}", path, e.what());
  }
  check(header.is_object(), "read_safetensors: the header of {} is no JSON object", path);
  return header;
}

struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  size_t begin, end;
};

size_t whole_number(const Json& value, const std::string& what) {
  check(value.is_number_unsigned(), "read_safetensors: {} is {}, wanted a whole number", what,
        value.dump(-1, ' ', true, Json::error_handler_t::replace));
  return value.get<size_t>();
}

Entry parse_entry(const std::string& key, const Json& json, size_t data_bytes, const std::string& path) {
  const std::string name = fmt::format("{} of {}", key, path);
  check(json.is_object() && json.contains("dtype") && json.contains("shape") && json.contains("data_offsets"),
        "read_safetensors: the entry {} wants dtype, shape and data_offsets", name);
  const Json &dtype = json["dtype"], &shape = json["shape"], &offsets = json["data_offsets"];
  Entry entry{key, DType::float32, {}, 0, 0};
  const auto known =
      std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& n) { return dtype == n.second; });
  check(dtype.is_string() && known != std::end(kNames),
        "read_safetensors: {} has a dtype that Vitrine does not know", name);
  entry.dtype = known->first;
  check(shape.is_array() && shape.size() <= Dims::kMax,
        "read_safetensors: {} wants a shape of at most {} sizes", name, Dims::kMax);
  for (const Json& size : shape) {
    const size_t n = whole_number(size, "a size of " + name);
    check(n <= size_t{INT64_MAX}, "read_safetensors: a size of {} is too large", name);
    entry.shape.push_back(static_cast<int64_t>(n));
  }
  check(offsets.is_array() && offsets.size() == 2, "read_safetensors: {} wants two data_offsets", name);
  entry.begin = whole_number(offsets[0], "an offset of " + name);
  entry.end = whole_number(offsets[1], "an offset of " + name);
  check(entry.begin <= entry.end && entry.end <= data_bytes,
        "read_safetensors: {} lies at [{}, {}), the data has {} bytes", name, entry.begin, entry.end,
        data_bytes);
  const auto count = static_cast<size_t>(numel(entry.shape)), width = size_of(entry.dtype);
  check(count <= data_bytes / width && count * width == entry.end - entry.begin,
        "read_safetensors: {} has the shape {} but {} bytes", name, entry.shape, entry.end - entry.begin);
  return entry;
}

/// As the format has it, the tensors fill the data without gaps and overlaps: so a file cannot stand for more memory than it
/// has bytes.
void check_tiling(std::vector<Entry> entries, size_t data_bytes, const std::string& path) {
  std::sort(entries.begin(), entries.end(), [](const Entry& x, const Entry& y) {
    return std::pair(x.begin, x.end) < std::pair(y.begin, y.end);
  });
  size_t end = 0;
  for (const Entry& entry : entries) {
    check(entry.begin == end,
          "read_safetensors: {} of {} begins at byte {} of the data, wanted {}, where the one before it ends",
          entry.name, path, entry.begin, end);
    end = entry.end;
  }
  check(end == data_bytes, "read_safetensors: {} is broken: its tensors end at byte {} of {} bytes of data",
        path, end, data_bytes);
}

}  // namespace

Safetensors read_safetensors(const std::string& path) {
  const auto file = std::make_shared<MappedFile>("read_safetensors", path);
  check(file->bytes() >= 8, "read_safetensors: {} is broken: it has {} bytes, not even a header length", path,
        file->bytes());
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file->data(), 8);
  check(header_bytes <= file->bytes() - 8,
        "read_safetensors: {} is broken: a header of {} bytes in a file of {}", path, header_bytes,
        file->bytes());
  check(header_bytes <= kLargestHeader, "read_safetensors: the header of {} has {} bytes, wanted at most {}",
        path, header_bytes, kLargestHeader);
  const char* const text = file->data() + 8;
  const Json header = parse_header(text, text + header_bytes, path);
  const size_t start = 8 + header_bytes;
  Safetensors result;
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__") {
      check(json.is_object(), "read_safetensors: __metadata__ of {} is no object", path);
      for (const auto& [key, value] : json.items()) {
        check(value.is_string(), "read_safetensors: the metadata {} is no string", key);
        result.metadata[key] = value.get<std::string>();
      }
      continue;
    }
    entries.push_back(parse_entry(name, json, file->bytes() - start, path));
  }
  check_tiling(entries, file->bytes() - start, path);
  for (const Entry& entry : entries)
    result.tensors.emplace(
        entry.name, tensor_in("read_safetensors", file, start + entry.begin, entry.shape, entry.dtype));
  return result;
}

void write_safetensors(const std::string& path, const Safetensors& content) {
  Json header = Json::object();
  if (!content.metadata.empty()) header["__metadata__"] = content.metadata;
  std::vector<Tensor> packed;
  size_t offset = 0;
  for (const auto& entry : content.tensors) {
    const std::string& name = entry.first;
    const Tensor& tensor = entry.second;
    check(tensor.defined() && name != "__metadata__",
          "write_safetensors: {} is {}, wanted a tensor of another name than __metadata__", name,
          describe(tensor));
    const auto type = std::find_if(std::begin(kNames), std::end(kNames),
                                   [&](const auto& n) { return n.first == tensor.dtype(); });
    check(type != std::end(kNames), "write_safetensors: {} is {}, which the format does not know", name,
          describe(tensor));
    packed.push_back(copy_to(tensor, Device::cpu));
    const auto bytes = static_cast<size_t>(tensor.numel() * tensor.element_size());
    header[name] = {{"dtype", type->second},
                    {"shape", std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())},
                    {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    fail("write_safetensors: a name or the metadata is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data starts at a multiple of 8
  const uint64_t length = text.size();
  std::vector<std::string_view> parts = {{reinterpret_cast<const char*>(&length), 8}, text};
  for (const Tensor& t : packed) parts.push_back(bytes_of(t));
  write_file("write_safetensors", path, parts);
}

}  // namespace vitrine
