#include "core/files/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace vitrine::detail {
namespace {

using Json = nlohmann::json;
using Entry = SafetensorsEntry;

constexpr const char* kMetadata = "__metadata__";

/// Quotes text for a message.
std::string shortened(std::string_view text) {
  size_t most = 100;
  if (text.size() <= most) return std::string(text);
  while (most > 0 && (text[most] & 0xC0) == 0x80) --most;  // do not cut inside a UTF-8 character
  return std::string(text.substr(0, most)) + "…";
}

/// Receives the parser's events. Depth 1 is the header, depth 2 an entry or the metadata, depth 3 a
/// list of numbers.
class Reader {
 public:
  Reader(uint64_t data_bytes, const std::string& path) : data_bytes_(data_bytes), path_(path) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool null() { return other("null"); }
  bool boolean(bool x) { return other(x ? "true" : "false"); }
  bool number_integer(int64_t x) { return other(fmt::format("{}", x)); }  // a negative one
  bool number_float(double, const std::string& text) { return other(text); }
  bool binary(Json::binary_t&) { return other("binary"); }

  bool number_unsigned(uint64_t x) {
    if (depth_ != 3 || list_ == List::none) return other(fmt::format("{}", x));
    if (list_ == List::offsets) {
      check(offsets_ < 2, "read_safetensors: {} wants two data_offsets", called());
      (offsets_++ == 0 ? entry_.begin : entry_.end) = x;
      return true;
    }
    check(x <= uint64_t{INT64_MAX}, "read_safetensors: a size of {} is too large", called());
    check(entry_.shape.rank() < Dims::kMax, "read_safetensors: {} wants a shape of at most {} sizes",
          called(), Dims::kMax);
    entry_.shape.push_back(static_cast<int64_t>(x));
    return true;
  }

  bool string(std::string& text) {
    if (depth_ == 2 && in_metadata_) {
      header_.metadata[field_] = std::move(text);
    } else if (depth_ == 2 && field_ == "dtype") {
      const auto known = std::find_if(std::begin(kSafetensorsDTypes), std::end(kSafetensorsDTypes),
                                      [&](const auto& n) { return text == n.second; });
      check(known != std::end(kSafetensorsDTypes),
            "read_safetensors: {} has a dtype that Vitrine does not know", called());
      entry_.dtype = known->first;
      has_dtype_ = true;
    } else {
      return other(text);
    }
    return true;
  }

  bool key(std::string& text) {
    if (depth_ == 1) name_ = std::move(text);
    if (depth_ == 2) field_ = std::move(text);
    return true;
  }

  bool start_object(size_t) {
    if (depth_ == 1) {
      in_metadata_ = name_ == kMetadata;
      entry_ = {.name = name_};
      has_dtype_ = has_shape_ = false;
      offsets_ = 0;
    } else if (depth_ > 1) {
      other("an object");
    }
    return deeper();
  }

  bool end_object() {
    if (--depth_ == 1 && !in_metadata_) finish_entry();
    return true;
  }

  bool start_array(size_t) {
    if (depth_ == 2 && !in_metadata_ && field_ == "shape") {
      list_ = List::shape, has_shape_ = true;
      entry_.shape = {};
    } else if (depth_ == 2 && !in_metadata_ && field_ == "data_offsets") {
      list_ = List::offsets, offsets_ = 0;
    } else {
      other("a list");
    }
    return deeper();
  }

  bool end_array() {
    if (--depth_ == 2) list_ = List::none;
    return true;
  }

  bool parse_error(size_t, const std::string&, const Json::exception& e) {
    fail("read_safetensors: the header of {} is not JSON: {}", path_, shortened(e.what()));
  }

 private:
  enum class List { none, shape, offsets };

  std::string called() const { return fmt::format("{} of {}", shortened(name_), path_); }

  bool deeper() {
    constexpr int kDeepest = 4;
    check(++depth_ <= kDeepest, "read_safetensors: the header of {} is nested deeper than {} levels", path_,
          kDeepest);
    return true;
  }

  /// Handles a value whose kind is not expected at this position. Fields that the format does not
  /// define are skipped.
  bool other(std::string_view value) {
    check(depth_ != 0, "read_safetensors: the header of {} is no JSON object", path_);
    if (depth_ == 1) {
      check(name_ != kMetadata, "read_safetensors: {} of {} is no object", kMetadata, path_);
      fail("read_safetensors: the entry {} wants dtype, shape and data_offsets", called());
    }
    if (in_metadata_) fail("read_safetensors: the metadata {} of {} is no string", shortened(field_), path_);
    if (list_ != List::none)
      fail("read_safetensors: {} of {} is {}, wanted a whole number",
           list_ == List::shape ? "a size" : "an offset", called(), shortened(value));
    if (depth_ != 2) return true;
    if (field_ == "dtype") fail("read_safetensors: {} has a dtype that Vitrine does not know", called());
    if (field_ == "shape")
      fail("read_safetensors: {} wants a shape of at most {} sizes", called(), Dims::kMax);
    if (field_ == "data_offsets") fail("read_safetensors: {} wants two data_offsets", called());
    return true;
  }

  void finish_entry() {
    const Entry& e = entry_;
    check(has_dtype_ && has_shape_ && offsets_ > 0,
          "read_safetensors: the entry {} wants dtype, shape and data_offsets", called());
    check(offsets_ == 2, "read_safetensors: {} wants two data_offsets", called());
    check(e.begin <= e.end && e.end <= data_bytes_,
          "read_safetensors: {} lies at [{}, {}), the data has {} bytes", called(), e.begin, e.end,
          data_bytes_);
    uint64_t count = 1;
    bool overflow = false;
    for (const int64_t size : e.shape)
      overflow = __builtin_mul_overflow(count, static_cast<uint64_t>(size), &count) || overflow;
    const uint64_t width = size_of(e.dtype);
    check(!overflow, "read_safetensors: {} has the shape {}, more elements than an int64 can count", called(),
          e.shape);
    check(count <= data_bytes_ / width && count * width == e.end - e.begin,
          "read_safetensors: {} has the shape {} but {} bytes", called(), e.shape, e.end - e.begin);
    header_.entries.push_back(std::move(entry_));
  }

  uint64_t data_bytes_;
  const std::string& path_;
  SafetensorsHeader header_;
  int depth_ = 0;
  std::string name_, field_;  ///< the keys at depth 1 and 2
  bool in_metadata_ = false;
  Entry entry_;
  bool has_dtype_ = false, has_shape_ = false;
  int offsets_ = 0;
  List list_ = List::none;  ///< the list to which the numbers at depth 3 belong
};

void check_tiling(const std::deque<Entry>& entries, uint64_t data_bytes, const std::string& path) {
  uint64_t end = 0;
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

SafetensorsHeader read_safetensors_header(std::string_view text, uint64_t data_bytes,
                                          const std::string& path) {
  Reader reader(data_bytes, path);
  Json::sax_parse(text, &reader);
  SafetensorsHeader header = reader.take();
  std::sort(header.entries.begin(), header.entries.end(), [](const Entry& x, const Entry& y) {
    return std::tie(x.begin, x.end, x.name) < std::tie(y.begin, y.end, y.name);
  });
  check_tiling(header.entries, data_bytes, path);
  return header;
}

}  // namespace vitrine::detail
