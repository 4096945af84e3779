#include "core/files/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/creation.h"
#include "core/files/file.h"
#include "core/files/input_file.h"
#include "core/files/safetensors_header.h"

namespace vitrine {
namespace {

using Json = nlohmann::json;
constexpr uint64_t kLargestHeader = 100'000'000;  // as in the format's own library

}  // namespace

Safetensors read_safetensors(const std::string& path) {
  const InputFile file("read_safetensors", path);
  check(file.bytes() >= 8, "read_safetensors: {} is broken: it has {} bytes, not even a header length", path,
        file.bytes());
  uint64_t header_bytes = 0;
  file.read(0, {reinterpret_cast<char*>(&header_bytes), 8});
  check(header_bytes <= file.bytes() - 8,
        "read_safetensors: {} is broken: a header of {} bytes in a file of {}", path, header_bytes,
        file.bytes());
  check(header_bytes <= kLargestHeader, "read_safetensors: the header of {} has {} bytes, wanted at most {}",
        path, header_bytes, kLargestHeader);
  const uint64_t start = 8 + header_bytes;
  detail::SafetensorsHeader header =
      detail::read_safetensors_header(file.text(8, header_bytes), file.bytes() - start, path);
  const auto data = file.block(start, file.bytes() - start);
  Safetensors result{{}, std::move(header.metadata)};
  for (const auto& entry : header.entries) {
    const bool added =
        result.tensors
            .emplace(entry.name, tensor_in(fmt::format("read_safetensors: {} of {}", entry.name, path), data,
                                           entry.begin, entry.shape, entry.dtype))
            .second;
    check(added, "read_safetensors: {} has two tensors called {}", path, entry.name);
  }
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
    const auto type =
        std::find_if(std::begin(detail::kSafetensorsDTypes), std::end(detail::kSafetensorsDTypes),
                     [&](const auto& n) { return n.first == tensor.dtype(); });
    check(type != std::end(detail::kSafetensorsDTypes),
          "write_safetensors: {} is {}, which the format does not know", name, describe(tensor));
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
