#include "nn/data/synthetic/tones.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/creation.h"

namespace vitrine::nn::synthetic {
namespace {

/// The pitches of a digit's tones. Each pitch begins two digits, so that one tone alone decides
/// none.
constexpr std::array<std::array<int, 3>, 10> kPitches = {{{0, 2, 4},
                                                          {0, 3, 1},
                                                          {1, 4, 2},
                                                          {1, 0, 3},
                                                          {2, 4, 0},
                                                          {2, 1, 3},
                                                          {3, 0, 2},
                                                          {3, 2, 1},
                                                          {4, 1, 0},
                                                          {4, 3, 2}}};
constexpr double kLowest = 400, kStep = std::numbers::sqrt2;  // half an octave

void add_tone(std::vector<float>& samples, double hertz, double seconds, double loudness, int64_t rate) {
  const auto count = static_cast<int64_t>(seconds * static_cast<double>(rate));
  for (int64_t t = 0; t < count; ++t) {
    // Rises and falls as half a sine, so that no tone begins with a click
    const double rise =
        std::sin(std::numbers::pi * (static_cast<double>(t) + .5) / static_cast<double>(count));
    const double phase = 2 * std::numbers::pi * hertz * static_cast<double>(t) / static_cast<double>(rate);
    samples.push_back(static_cast<float>(loudness * std::sqrt(rise) * std::sin(phase)));
  }
}

void add_pause(std::vector<float>& samples, Generator& random, int64_t rate) {
  const auto count = static_cast<int64_t>(uniform(random, .02, .1) * static_cast<double>(rate));
  samples.insert(samples.end(), static_cast<size_t>(count), 0.0f);
}

Tones draw_tones(const TonesOptions& o, Generator& random) {
  Tones item;
  std::vector<float> samples;
  const int64_t count = o.fewest + random.next_below(o.most - o.fewest + 1);
  add_pause(samples, random, o.rate);
  for (int64_t i = 0; i < count; ++i) {
    item.digits.push_back(random.next_below(10));
    const double pitch = kLowest * uniform(random, .95, 1.05), seconds = uniform(random, .05, .09);
    const double loudness = uniform(random, .3, .8);
    for (const int step : kPitches[static_cast<size_t>(item.digits.back())])
      add_tone(samples, pitch * std::pow(kStep, step), seconds, loudness, o.rate);
    add_pause(samples, random, o.rate);
  }
  for (size_t t = 0; t < samples.size(); ++t) {
    const float normal = to_normals(philox(random.seed(), random.reserve(1)))[0];
    samples[t] = std::clamp(samples[t] + static_cast<float>(o.noise) * normal, -1.0f, 1.0f);
  }
  item.samples = tensor(samples, {std::ssize(samples)});
  return item;
}

}  // namespace

Dataset<Tones> tones(Part part, int64_t size, const TonesOptions& options, uint64_t seed) {
  check(options.rate >= 4000 && options.fewest >= 1 && options.most >= options.fewest && options.noise >= 0,
        "tones: rate {}, {} to {} digits and noise {}, wanted 4000, 1 and 0 at least", options.rate,
        options.fewest, options.most, options.noise);
  return drawn<Tones>(
      part, size, seed, [options](Generator& random) { return draw_tones(options, random); },
      [](const Tones& item) { return content_of(item.samples); });
}

}  // namespace vitrine::nn::synthetic
