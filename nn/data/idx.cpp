#include "nn/data/idx.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/creation.h"
#include "core/files/input_file.h"
#include "nn/data/byte_reader.h"

namespace vitrine::nn {
namespace {

std::optional<DType> dtype_of(unsigned char type) {
  switch (type) {
    case 0x08: return DType::uint8;
    case 0x0C: return DType::int32;
    case 0x0D: return DType::float32;
    case 0x0E: return DType::float64;
    default: return std::nullopt;
  }
}

unsigned char byte_at(const std::string& bytes, size_t i) { return static_cast<unsigned char>(bytes[i]); }

uint32_t big_endian(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | byte_at(bytes, at + i);
  return value;
}

/// Elements are stored with the most significant byte first.
void reverse_bytes(char* data, size_t bytes, size_t element) {
  for (size_t i = 0; element > 1 && i < bytes; i += element) std::reverse(data + i, data + i + element);
}

}  // namespace

Tensor read_idx(const std::string& path) {
  ByteReader file("read_idx", path);
  const std::string magic = file.take(4, "the magic number of an IDX file");
  check(magic[0] == 0 && magic[1] == 0,
        "read_idx: {} is not an IDX file: it begins with {:02x} {:02x}, wanted 00 00", path,
        byte_at(magic, 0), byte_at(magic, 1));
  const auto dtype = dtype_of(byte_at(magic, 2));
  check(dtype.has_value(), "read_idx: {} has elements of type {:#04x}, wanted 0x08, 0x0c, 0x0d or 0x0e", path,
        byte_at(magic, 2));
  const int rank = byte_at(magic, 3);
  check(rank <= Dims::kMax, "read_idx: {} has {} axes, wanted at most {}", path, rank, Dims::kMax);
  const std::string sizes = file.take(4 * static_cast<uint64_t>(rank), "the sizes");
  Shape shape;
  auto bound = static_cast<int64_t>(size_of(*dtype));  // of all sizes but those that are 0
  for (int axis = 0; axis < rank; ++axis) {
    shape.push_back(big_endian(sizes, 4 * static_cast<size_t>(axis)));
    check(!__builtin_mul_overflow(bound, std::max<int64_t>(shape.back(), 1), &bound),
          "read_idx: {} has the sizes {}, whose product is 2^63 bytes or more", path, shape);
  }
  const int64_t bytes = numel(shape) * static_cast<int64_t>(size_of(*dtype));
  if (*dtype == DType::uint8 && file.size() == file.position() + static_cast<uint64_t>(bytes)) {
    const InputFile plain("read_idx", path);
    if (plain.bytes() == *file.size())
      return tensor_in("read_idx: " + path, plain.mapped(), file.position(), shape, *dtype);
  }
  std::string elements = file.take(static_cast<uint64_t>(bytes), fmt::format("the tensor {}", shape));
  char more = 0;
  check(file.read({&more, 1}) == 0, "read_idx: {} goes on after the {} bytes of its tensor {}", path, bytes,
        shape);
  reverse_bytes(elements.data(), elements.size(), size_of(*dtype));
  Tensor result = empty(shape, *dtype);
  if (!elements.empty()) std::memcpy(result.raw(), elements.data(), elements.size());
  return result;
}

Dataset<LabelledImage> read_idx_images(const std::string& images, const std::string& labels,
                                       int64_t classes) {
  const Tensor x = read_idx(images), y = read_idx(labels);
  check(x.dtype() == DType::uint8 && x.rank() == 3, "read_idx_images: {} has {}, wanted uint8[N, H, W]",
        images, describe(x));
  check(y.dtype() == DType::uint8 && y.rank() == 1, "read_idx_images: {} has {}, wanted uint8[N]", labels,
        describe(y));
  check(x.size(0) == y.size(0), "read_idx_images: {} has {} images, and {} has {} labels", images, x.size(0),
        labels, y.size(0));
  for (int64_t i = 0; i < y.numel(); ++i)
    check(y.data<uint8_t>()[i] < classes, "read_idx_images: {}: label {} is {}, wanted below {}", labels, i,
          y.data<uint8_t>()[i], classes);
  const int64_t height = x.size(1), width = x.size(2);
  return {x.size(0), [x, y, height, width](int64_t i) {
            Tensor image = empty({height, width});
            const uint8_t* const pixels = x.data<uint8_t>() + i * height * width;
            for (int64_t p = 0; p < height * width; ++p)
              image.data<float>()[p] = static_cast<float>(pixels[p]) / 255;
            return LabelledImage{image, y.data<uint8_t>()[i]};
          }};
}

}  // namespace vitrine::nn
