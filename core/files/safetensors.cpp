#include "core/files/safetensors.h"

#include <sys/mman.h>
#include <unistd.h>

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

/// The header of an open file, and the byte at which its data starts.
std::pair<detail::SafetensorsHeader, size_t> header_of(const InputFile& file, const std::string& path) {
  check(file.bytes() >= 8, "read_safetensors: {} is broken: it has {} bytes, not even a header length", path,
        file.bytes());
  uint64_t header_bytes = 0;
  file.read(0, {reinterpret_cast<char*>(&header_bytes), 8});
  check(header_bytes <= file.bytes() - 8,
        "read_safetensors: {} is broken: a header of {} bytes in a file of {}", path, header_bytes,
        file.bytes());
  check(header_bytes <= kLargestHeader, "read_safetensors: the header of {} has {} bytes, wanted at most {}",
        path, header_bytes, kLargestHeader);
  const size_t start = 8 + header_bytes;
  return {detail::read_safetensors_header(file.text(8, header_bytes), file.bytes() - start, path), start};
}

void check_new(bool added, const std::string& name, const std::string& path) {
  check(added, "read_safetensors: {} has two tensors called {}", path, name);
}

}  // namespace

Safetensors read_safetensors(const std::string& path) {
  const InputFile file("read_safetensors", path);
  auto opened = header_of(file, path);
  const auto data = file.block(opened.second, file.bytes() - opened.second);
  Safetensors result{{}, std::move(opened.first.metadata)};
  for (const auto& entry : opened.first.entries) {
    const bool added =
        result.tensors
            .emplace(entry.name, tensor_in(fmt::format("read_safetensors: {} of {}", entry.name, path), data,
                                           entry.begin, entry.shape, entry.dtype))
            .second;
    check_new(added, entry.name, path);
  }
  return result;
}

MappedSafetensors::MappedSafetensors(const std::string& path) : path_(path) {
  const InputFile file("read_safetensors", path);
  auto opened = header_of(file, path);
  for (auto& entries = opened.first.entries; !entries.empty(); entries.pop_front()) {
    const auto& from = entries.front();
    const bool added =
        entries_.emplace(from.name, Entry{from.dtype, from.shape, opened.second + from.begin}).second;
    check_new(added, from.name, path);
  }
  memory_ = file.mapped();
}

const MappedSafetensors::Entry& MappedSafetensors::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  check(found != entries_.end(), "read_safetensors: {} has no tensor called {}", path_, name);
  return found->second;
}

Tensor MappedSafetensors::tensor(const std::string& name) const {
  const Entry& e = entry(name);
  return tensor_in(fmt::format("read_safetensors: {} of {}", name, path_), memory_, e.offset, e.shape,
                   e.dtype);
}

void MappedSafetensors::release(const std::string& name) const {
  const Entry& e = entry(name);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t end = e.offset + static_cast<size_t>(numel(e.shape)) * size_of(e.dtype);
  const size_t first = (e.offset + page - 1) / page * page, last = end / page * page;
  if (first < last) ::madvise(static_cast<char*>(memory_->data()) + first, last - first, MADV_DONTNEED);
}

void write_safetensors(const std::string& path, const Safetensors& content) {
  std::map<std::string, LateTensor> parts;
  for (const auto& entry : content.tensors) {
    const Tensor& tensor = entry.second;
    check(tensor.defined(), "write_safetensors: {} is {}, wanted a tensor", entry.first, describe(tensor));
    parts[entry.first] = {tensor.dtype(), tensor.shape(), [&tensor] { return tensor; }};
  }
  stream_safetensors(path, parts, content.metadata);
}

void stream_safetensors(const std::string& path, const std::map<std::string, LateTensor>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t offset = 0;
  for (const auto& entry : tensors) {
    const std::string& name = entry.first;
    const LateTensor& tensor = entry.second;
    check(name != "__metadata__", "write_safetensors: {} is {}{}, wanted another name for a tensor", name,
          vitrine::name(tensor.dtype), tensor.shape);
    const auto type =
        std::find_if(std::begin(detail::kSafetensorsDTypes), std::end(detail::kSafetensorsDTypes),
                     [&](const auto& n) { return n.first == tensor.dtype; });
    check(type != std::end(detail::kSafetensorsDTypes),
          "write_safetensors: {} is {}{}, which the format does not know", name, vitrine::name(tensor.dtype),
          tensor.shape);
    const size_t bytes = static_cast<size_t>(numel(tensor.shape)) * size_of(tensor.dtype);
    header[name] = {{"dtype", type->second},
                    {"shape", std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end())},
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
  write_file("write_safetensors", path, [&](const WriteBytes& write) {
    write({reinterpret_cast<const char*>(&length), 8});
    write(text);
    for (const auto& [name, tensor] : tensors) {
      const Tensor made = copy_to(tensor.make(), Device::cpu);
      check(made.dtype() == tensor.dtype && made.shape() == tensor.shape,
            "write_safetensors: {} is {}, and {}{} was announced", name, describe(made),
            vitrine::name(tensor.dtype), tensor.shape);
      write(bytes_of(made));
    }
  });
}

}  // namespace vitrine
