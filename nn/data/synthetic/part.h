// What the synthetic data sets have in common: a training part and a held-out part.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/random.h"
#include "core/tensor.h"
#include "nn/data/dataset.h"

namespace vitrine::nn::synthetic {

/// A model learns from one part and is measured on the other.
enum class Part { training, held_out };

/// The part to which a content belongs, by its hash: one content in eight is held out. The part
/// depends on the content alone, so the parts share no item, whatever their sizes and seeds.
Part part_of(std::string_view content);

/// The bytes of numbers, as a content.
std::string content_of(std::span<const int64_t> numbers);
std::string content_of(const Tensor& x);

/// The words of a text, which spaces separate.
std::vector<std::string> words_of(const std::string& text);

/// "a red bag", "an umbrella".
std::string with_article(const std::string& words);

inline constexpr std::array kDays = {"monday", "tuesday",  "wednesday", "thursday",
                                     "friday", "saturday", "sunday"};

/// 0, …, count − 1, each with the same probability.
inline size_t index(Generator& random, size_t count) {
  return static_cast<size_t>(random.next_below(static_cast<int64_t>(count)));
}

/// One of the choices.
template <class Choices>
const auto& pick(Generator& random, const Choices& choices) {
  return choices[index(random, std::size(choices))];
}

inline double uniform(Generator& random, double low, double high) {
  return low + (high - low) * random.next_uniform();
}

/// Draws with `draw` until content(item) belongs to the part. An error after 10,000 draws: the part
/// has no such item.
template <class Draw, class Content>
auto draw_in(Part part, Generator& random, const Draw& draw, const Content& content) {
  for (int attempt = 0; attempt < 10000; ++attempt)
    if (auto item = draw(random); part_of(content(item)) == part) return item;
  fail("synthetic data: the {} part has no item", part == Part::training ? "training" : "held-out");
}

/// `size` items. Item i depends on the seed and i alone, and is drawn when it is asked for.
template <class Item>
Dataset<Item> drawn(int64_t size, uint64_t seed, std::function<Item(Generator&)> draw) {
  return {size, [seed, draw = std::move(draw)](int64_t i) {
            Generator random;
            random.set(seed, static_cast<uint64_t>(i) << 32);
            return draw(random);
          }};
}

/// The same, with items whose content belongs to the part.
template <class Item, class Content>
Dataset<Item> drawn(Part part, int64_t size, uint64_t seed, std::function<Item(Generator&)> draw,
                    Content content) {
  return drawn<Item>(size, seed, [=](Generator& random) { return draw_in(part, random, draw, content); });
}

}  // namespace vitrine::nn::synthetic
