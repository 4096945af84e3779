#include "tests/onnx_cases.h"

#include <cstring>
#include <set>

#include "core/creation.h"
#include "core/files/safetensors.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/folder.h"
#include "tests/spec/spec.h"

namespace vitrine::test {
namespace {

/// Attributes that say how an operator is computed, not what: a seed of another generator, the
/// precision within, and whether the order matters (ours is always the sorted one).
Json without_remarks(Json attributes) {
  for (const char* remark : {"seed", "stash_type", "softmax_precision", "sorted"}) attributes.erase(remark);
  return attributes;
}

/// A dtype of the manifest that tensors do not have, or "".
std::string unknown_dtype(const Json& c) {
  const std::set<std::string> known = {"F64", "F32", "F16", "BF16", "I64", "I32", "U64", "U32", "U8", "BOOL"};
  for (const char* slots : {"inputs", "outputs"})
    for (const Json& s : c.at(slots))
      if (const std::string dtype = s.at("dtype"); !known.count(dtype)) return dtype;
  return "";
}

/// The signed type of the same size.
std::string signed_name(const std::string& dtype) { return dtype == "U64" ? "I64" : "I32"; }

/// Bits that were read as signed integers, as the whole numbers that they mean.
Tensor widen(const Tensor& bits, const std::string& dtype) {
  const Tensor x = copy_as(bits, DType::int64), negative = less(x, zeros_like(x));
  check(dtype == "U32" || any(negative).item() == 0, "a number of 64 bits does not fit into int64");
  return where(negative, x + 0x1p32, x);
}

/// The tensors of a file, unsigned ones widened.
Tensors read_tensors(const std::string& path) {
  std::string bytes = bytes_of_file(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), std::min<size_t>(8, bytes.size()));
  const bool whole = bytes.size() >= 8 && length <= bytes.size() - 8;
  Json header = whole ? Json::parse(bytes.substr(8, length), nullptr, false) : Json();
  std::map<std::string, std::string> unsigned_ones;
  for (auto& [name, entry] : header.items())
    if (const std::string dtype = entry.value("dtype", ""); dtype == "U32" || dtype == "U64")
      entry["dtype"] = signed_name(dtype), unsigned_ones[name] = dtype;
  if (unsigned_ones.empty()) return read_safetensors(path).tensors;
  const std::string text = header.dump();
  const uint64_t text_length = text.size();
  const Folder folder;
  write_bytes(folder / "signed",
              std::string(reinterpret_cast<const char*>(&text_length), 8) + text + bytes.substr(8 + length));
  Tensors tensors;
  try {
    tensors = read_safetensors(folder / "signed").tensors;
  } catch (const std::exception& e) {
    fail("{}: {}", path, e.what());
  }
  for (const auto& entry : unsigned_ones) tensors[entry.first] = widen(tensors.at(entry.first), entry.second);
  return tensors;
}

double tolerance(DType dtype) {
  if (!is_floating(dtype)) return 0;
  if (is_low_precision(dtype)) return 2 * epsilon(dtype);
  return dtype == DType::float64 ? 1e-9 : 2e-6;
}

void compare(const OnnxCase& c, const std::vector<Tensor>& got) {
  for (size_t slot = 0; slot < c.outputs.size(); ++slot) {
    if (!c.wants(slot)) continue;
    const Tensor& want = c.outputs[slot];
    check(slot < got.size() && got[slot].defined(), "the adapter of {} makes no output {}", c.op, slot);
    const Tensor& y = got[slot];
    check(y.shape() == want.shape() && y.dtype() == want.dtype(), "output {} is {}, wanted {}", slot,
          describe(y), describe(want));
    const double error = spec::distance(y.values(), want.values(), 1e-3);
    check(error <= tolerance(y.dtype()), "output {} is off by {:.2e}", slot, error);
  }
}

}  // namespace

std::vector<Tensor> OnnxCase::all_inputs() const {
  std::vector<Tensor> all;
  for (size_t slot = 0; slot < slots; ++slot) all.push_back(in(slot));
  return all;
}

OnnxCase read_onnx_case(const Json& entry, const std::filesystem::path& folder) {
  OnnxCase o;
  o.name = entry.at("case"), o.group = entry.at("group"), o.op = entry.at("op"), o.opset = entry.at("opset");
  o.attributes = Settings(without_remarks(entry.at("attributes")));
  o.unknown_dtype = unknown_dtype(entry);
  if (!o.unknown_dtype.empty()) return o;
  const Tensors tensors = read_tensors((folder / entry.at("file").get<std::string>()).string());
  Tensors inputs;
  for (const Json& s : entry.at("inputs")) {
    inputs[OnnxCase::key(s.at("slot"))] = tensors.at(s.at("tensor"));
    o.slots = std::max<size_t>(o.slots, s.at("slot").get<size_t>() + 1);
  }
  o.inputs = Inputs(inputs);
  for (const Json& s : entry.at("outputs")) {
    const size_t slot = s.at("slot");
    o.outputs.resize(std::max(o.outputs.size(), slot + 1));
    o.outputs[slot] = tensors.at(s.at("tensor"));
  }
  return o;
}

void check_onnx(const OnnxCase& c, const OnnxAdapter& adapter) {
  compare(c, adapter(c));
  c.attributes.check_all_read(c.op);
  c.inputs.check_all_read(c.op);
}

}  // namespace vitrine::test
