#include "nn/data/synthetic/odd_one_out.h"

#include "core/creation.h"

namespace vitrine::nn::synthetic {
namespace {

constexpr uint64_t kCentres = 0x0DD;

/// Four normal numbers per draw. The functions of ops would share the thread's generator.
void add_normals(Generator& random, double scale, float* values, int64_t count) {
  for (int64_t i = 0; i < count; i += 4) {
    const auto normals = to_normals(philox(random.seed(), random.reserve(4)));
    for (int64_t j = i; j < std::min(i + 4, count); ++j)
      values[j] += static_cast<float>(scale) * normals[static_cast<size_t>(j - i)];
  }
}

}  // namespace

Dataset<OddOneOut> odd_one_out(Part part, int64_t size, const OddOneOutOptions& o, uint64_t seed) {
  check(o.count >= 3 && o.features > 0 && o.classes >= 2 && o.spread >= 0,
        "odd_one_out: count {}, features {}, classes {} and spread {}, wanted 3, 1, 2 and 0 at least",
        o.count, o.features, o.classes, o.spread);
  const Tensor centres = zeros({o.classes, o.features});
  Generator fixed(kCentres);
  add_normals(fixed, 1, centres.data<float>(), centres.numel());
  return drawn<OddOneOut>(
      part, size, seed,
      [=](Generator& random) {
        const int64_t common = random.next_below(o.classes);
        const int64_t other = (common + 1 + random.next_below(o.classes - 1)) % o.classes;
        OddOneOut set{empty({o.count, o.features}), random.next_below(o.count)};
        for (int64_t i = 0; i < o.count; ++i) {
          const float* const centre = centres.data<float>() + (i == set.odd ? other : common) * o.features;
          std::copy_n(centre, o.features, set.items.data<float>() + i * o.features);
        }
        add_normals(random, o.spread, set.items.data<float>(), set.items.numel());
        return set;
      },
      [](const OddOneOut& set) { return content_of(set.items); });
}

}  // namespace vitrine::nn::synthetic
