#include "nn/data/image.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

#include "core/creation.h"
#include "nn/data/lines.h"
#include "ops/join.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

constexpr size_t kPixels = 64;

/// 64 pixels and the digit.
std::vector<uint8_t> numbers_of(const std::string& line, const std::string& path, int64_t number) {
  std::vector<uint8_t> numbers;
  const char* at = line.data();
  const char* const end = at + line.size();
  while (true) {
    const int largest = numbers.size() < kPixels ? 16 : 9;
    int value = 0;
    const auto [after, error] = std::from_chars(at, end, value);
    check(error == std::errc() && value >= 0 && value <= largest && numbers.size() <= kPixels,
          "read_optdigits: {}, line {}: number {} is wrong, wanted 64 pixels from 0 to 16 and a digit", path,
          number, numbers.size() + 1);
    numbers.push_back(static_cast<uint8_t>(value));
    if (after == end) break;
    check(*after == ',', "read_optdigits: {}, line {}: wanted a comma after number {}", path, number,
          numbers.size());
    at = after + 1;
  }
  check(numbers.size() == kPixels + 1, "read_optdigits: {}, line {} has {} numbers, wanted 65", path, number,
        numbers.size());
  return numbers;
}

}  // namespace

Batch image_batch(std::span<const LabelledImage> images) {
  check(!images.empty(), "image_batch: there are no images");
  const Shape& shape = images[0].image.shape();
  check(shape.rank() == 2, "image_batch: image 0 is {}, wanted [H, W]", describe(images[0].image));
  const auto count = std::ssize(images);
  const Tensor x = empty({count, shape[0], shape[1]}), y = empty({count}, DType::int64);
  for (int64_t i = 0; i < count; ++i) {
    const auto& [image, label] = images[static_cast<size_t>(i)];
    check(image.shape() == shape && image.dtype() == DType::float32 && image.is_contiguous(),
          "image_batch: image {} is {}, and image 0 is {}", i, describe(image), describe(images[0].image));
    std::copy_n(image.data<float>(), image.numel(), x.data<float>() + i * image.numel());
    y.data<int64_t>()[i] = label;
  }
  return {{x, y}, count};
}

Dataset<LabelledImage> with_shifts(const Dataset<LabelledImage>& images) {
  std::vector<Dataset<LabelledImage>> sets = {images};
  for (const int64_t dim : {0, 1})
    for (const bool forward : {false, true})
      sets.push_back(mapped(images, [=](const LabelledImage& item) {
        const int64_t size = item.image.size(dim);
        std::vector<int64_t> before = {0, 0}, after = {0, 0};
        (forward ? before : after)[static_cast<size_t>(dim)] = 1;
        const Tensor kept = slice(item.image, dim, forward ? 0 : 1, forward ? size - 1 : size);
        return LabelledImage{pad(kept, before, after), item.label};
      }));
  return concatenated(std::move(sets));
}

Dataset<LabelledImage> read_optdigits(const std::string& path) {
  LineReader lines("read_optdigits", path);
  auto all = std::make_shared<std::vector<uint8_t>>();
  while (const auto line = lines.next()) {
    const auto numbers = numbers_of(*line, path, lines.line());
    all->insert(all->end(), numbers.begin(), numbers.end());
  }
  check(lines.line() > 0, "read_optdigits: {} is empty", path);
  return {lines.line(), [all](int64_t i) {
            const uint8_t* const numbers = all->data() + i * (kPixels + 1);
            Tensor image = empty({8, 8});
            for (size_t p = 0; p < kPixels; ++p) image.data<float>()[p] = static_cast<float>(numbers[p]) / 16;
            return LabelledImage{image, numbers[kPixels]};
          }};
}

}  // namespace vitrine::nn
