#include "core/files/npy.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/creation.h"
#include "core/files/file.h"
#include "core/files/input_file.h"

namespace vitrine {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::pair<DType, std::string_view> kNames[] = {
    {DType::float32, "f4"}, {DType::float64, "f8"}, {DType::bfloat16, "V2"}, {DType::float16, "f2"},
    {DType::int64, "i8"},   {DType::int32, "i4"},   {DType::uint8, "u1"},    {DType::boolean, "b1"}};

/// Parses the header's text: a Python dictionary with three known keys, and no other Python.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  /// The next character that is not white space; 0 at the end.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    const bool here = peek() == c && at_ < text_.size();
    at_ += here;
    return here;
  }
  void want(bool condition, std::string_view what) {
    check(condition, "read_npy: {} is broken: at character {} its header wants {}", path_, at_, what);
  }
  std::string_view string() {
    const char quote = peek();
    want(quote == '\'' || quote == '"', "a string");
    const size_t end = text_.find(quote, ++at_);
    want(end != std::string_view::npos, "the end of a string");
    const std::string_view result = text_.substr(at_, end - at_);
    at_ = end + 1;
    return result;
  }
  bool boolean() {
    peek();
    const bool yes = text_.substr(at_).starts_with("True");
    want(yes || text_.substr(at_).starts_with("False"), "True or False");
    at_ += yes ? 4 : 5;
    return yes;
  }
  Shape shape() {
    Shape result;
    want(take('('), "the '(' of a shape");
    while (!take(')')) {
      want(result.rank() < Dims::kMax, fmt::format("a shape of at most {} sizes", Dims::kMax));
      result.push_back(size());
      want(take(',') || peek() == ')', "',' or ')' in a shape");
    }
    return result;
  }

 private:
  int64_t size() {
    int64_t value = 0;
    want(peek() >= '0' && peek() <= '9', "a size, a whole number");
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      want(!__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_add_overflow(value, text_[at_] - '0', &value),
           "a size below 2^63");
    take('L');  // Python 2 wrote it
    return value;
  }

  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
};

struct Header {
  std::string_view descr;
  bool fortran_order;
  Shape shape;
};

Header parse_header(std::string_view text, const std::string& path) {
  HeaderReader reader(text, path);
  std::optional<std::string_view> descr;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;
  reader.want(reader.take('{'), "the '{' of a dictionary");
  while (!reader.take('}')) {
    const std::string_view key = reader.string();
    reader.want(reader.take(':'), "':' after a key");
    if (key == "descr" && !descr) {
      check(reader.peek() != '[', "read_npy: {} holds structured elements, wanted plain numbers", path);
      descr = reader.string();
    } else if (key == "fortran_order" && !fortran_order) {
      fortran_order = reader.boolean();
    } else {
      reader.want(key == "shape" && !shape,
                  "'descr', 'fortran_order' and 'shape' as keys, each once, before");
      shape = reader.shape();
    }
    reader.want(reader.take(',') || reader.peek() == '}', "',' or '}'");
  }
  reader.want(reader.peek() == '\0', "nothing after the '}'");
  reader.want(descr && fortran_order && shape, "'descr', 'fortran_order' and 'shape', all three, before");
  return {*descr, *fortran_order, *shape};
}

/// Returns the header's text and sets `start` to the position of the elements.
std::string read_header(const InputFile& file, const std::string& path, size_t& start) {
  const std::string bytes = file.text(0, std::min<size_t>(file.bytes(), 12));
  check(bytes.starts_with(kMagic), "read_npy: {} is no .npy: it does not begin with 93 \"NUMPY\"", path);
  check(bytes.size() >= 10, "read_npy: {} is broken: it ends within the length of its header", path);
  const int major = bytes[6], minor = bytes[7];
  check(major >= 1 && major <= 3 && minor == 0, "read_npy: {} is of version {}.{}, wanted 1.0, 2.0 or 3.0",
        path, major, minor);
  const size_t width = major == 1 ? 2 : 4;  // of the length field
  check(bytes.size() >= 8 + width, "read_npy: {} is broken: it ends within the length of its header", path);
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, width);
  start = 8 + width + length;
  check(start <= file.bytes(), "read_npy: {} is broken: a header of {} bytes in a file of {}", path, length,
        file.bytes());
  return file.text(8 + width, length);
}

DType dtype_from(std::string_view descr, const std::string& path) {
  check(descr != "|O", "read_npy: {} holds Python objects, wanted numbers", path);
  const bool ordered = !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  const auto known = std::find_if(std::begin(kNames), std::end(kNames),
                                  [&](const auto& n) { return ordered && descr.substr(1) == n.second; });
  check(known != std::end(kNames),
        "read_npy: {} has elements of type {:?}, wanted f2, f4, f8, i4, i8, b1 or V2 (bfloat16) with '<', "
        "'>' or '|' before it; in Python, x.astype('int32') converts other integers",
        path, descr.substr(0, 32));
  return known->first;
}

}  // namespace

Tensor read_npy(const std::string& path) {
  const InputFile file("read_npy", path);
  size_t start = 0;
  const std::string text = read_header(file, path, start);
  const Header header = parse_header(text, path);
  const DType dtype = dtype_from(header.descr, path);
  const auto count = static_cast<size_t>(numel(header.shape)), width = size_of(dtype);
  const size_t held = file.bytes() - start;
  check(count <= held / width && count * width == held,
        "read_npy: {} is broken: {} elements of {} for the shape {}, in {} bytes", path, count, name(dtype),
        header.shape, held);
  // Fortran order is row-major order of the axes reversed.
  Shape stored = header.shape;
  if (header.fortran_order) std::reverse(stored.begin(), stored.end());
  const Tensor x = tensor_in(fmt::format("read_npy: {}", path), file.block(start, held), 0, stored, dtype);
  if (header.descr[0] == '>')
    for (char* at = static_cast<char*>(x.raw()); at != static_cast<char*>(x.raw()) + held; at += width)
      std::reverse(at, at + width);
  if (!header.fortran_order) return x;
  Strides strides = x.strides();
  std::reverse(strides.begin(), strides.end());
  return x.alias(header.shape, strides);
}

void write_npy(const std::string& path, const Tensor& x) {
  const auto type =
      std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& n) { return n.first == x.dtype(); });
  check(type != std::end(kNames), "write_npy: x is {}, which the format does not know", describe(x));
  const char order = x.element_size() == 1 ? '|' : '<';
  std::string header =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}", order, type->second,
                  fmt::join(x.shape().begin(), x.shape().end(), ", "), x.rank() == 1 ? "," : "");
  constexpr size_t kPrefix = 10, kAlignment = 64;
  const size_t start = (kPrefix + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  header.resize(start - kPrefix - 1, ' ');
  header += '\n';
  std::string prefix = std::string(kMagic) + '\1' + '\0';
  prefix += static_cast<char>(header.size() % 256);
  prefix += static_cast<char>(header.size() / 256);
  const Tensor packed = copy_to(x, Device::cpu);
  const std::string_view parts[] = {prefix, header, bytes_of(packed)};
  write_file("write_npy", path, parts);
}

}  // namespace vitrine
