// Log-mel features against their definition, with the sum of a Fourier transform written out.
#include "nn/data/log_mel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include "core/creation.h"
#include "core/files/safetensors.h"
#include "core/random.h"
#include "tests/data.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

/// |Σ_n x[n] w[n] e^{−2πi kn/N}|², straight from the formula.
double power(const std::vector<double>& x, int64_t start, const LogMelOptions& o, int64_t k) {
  std::complex<double> sum = 0;
  for (int64_t n = 0; n < o.window && start + n < std::ssize(x); ++n) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(n);
    const double hann = 0.5 - 0.5 * std::cos(turn / static_cast<double>(o.window));
    sum += x[static_cast<size_t>(start + n)] * hann *
           std::polar(1.0, -turn * static_cast<double>(k) / static_cast<double>(o.fft));
  }
  return std::norm(sum);
}

double mel(MelScale scale, double f) {
  if (scale == MelScale::htk) return 2595 * std::log10(1 + f / 700);
  return f < 1000 ? 3 * f / 200 : 15 + 27 * std::log(f / 1000) / std::log(6.4);
}

/// The frequency of a mel number by bisection of the formula above.
double hertz(MelScale scale, double m) {
  double low = 0, high = 1e6;
  for (int i = 0; i < 200; ++i) (mel(scale, (low + high) / 2) < m ? low : high) = (low + high) / 2;
  return low;
}

double filter(const LogMelOptions& o, double high, int64_t m, int64_t k) {
  double corner[3];
  for (int64_t i = 0; i < 3; ++i) {
    const double share = static_cast<double>(m + i) / static_cast<double>(o.mels + 1);
    corner[i] = hertz(o.scale, mel(o.scale, o.low) + share * (mel(o.scale, high) - mel(o.scale, o.low)));
  }
  const double f = static_cast<double>(k) * static_cast<double>(o.rate) / static_cast<double>(o.fft);
  const double height = o.scale == MelScale::slaney ? 2 / (corner[2] - corner[0]) : 1;
  if (f <= corner[0] || f >= corner[2]) return 0;
  if (f < corner[1]) return height * (f - corner[0]) / (corner[1] - corner[0]);
  return height * (corner[2] - f) / (corner[2] - corner[1]);
}

double largest_error(const LogMelOptions& o, const Tensor& samples) {
  const std::vector<double> x = samples.values();
  const LogMel features(o);
  const Tensor y = features(samples);
  const double high = o.high == 0 ? static_cast<double>(o.rate) / 2 : o.high;
  double worst = 0;
  for (int64_t t = 0; t < y.size(0); ++t)
    for (int64_t m = 0; m < o.mels; ++m) {
      double energy = 0;
      for (int64_t k = 0; k <= o.fft / 2; ++k) energy += filter(o, high, m, k) * power(x, t * o.hop, o, k);
      const double wanted = std::log(std::max(o.floor, energy));
      worst = std::max(worst, std::abs(y.data<float>()[t * o.mels + m] - wanted));
    }
  return worst;
}

double largest_difference(const Tensor& x, const Tensor& wanted) {
  REQUIRE(x.shape() == wanted.shape());
  const std::vector<double> a = x.values(), b = wanted.values();
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

}  // namespace

TEST_CASE("log-mel features are those of the definition, on both scales") {
  Generator random(5);
  const Tensor samples = randn({300}, DType::float32, Device::cpu, 0, 0.3, random);
  LogMelOptions o{.window = 50, .hop = 20, .fft = 64, .mels = 8};
  for (const MelScale scale : {MelScale::htk, MelScale::slaney})
    for (const auto& [low, high, fft] : {std::tuple{0.0, 0.0, 64}, {100.0, 3000.0, 64}, {0.0, 4000.0, 63}}) {
      o.scale = scale, o.low = low, o.high = high, o.fft = fft;
      CHECK(LogMel(o)(samples).shape() == Shape{14, 8});  // 1 + ⌈250 / 20⌉
      CHECK(largest_error(o, samples) < 2e-6);            // float32 of numbers up to 10
    }
}

TEST_CASE("filters and features are those of librosa") {
  const Safetensors cases =
      read_safetensors((test::source_directory() / "tests/data/log_mel_cases/cases.safetensors").string());
  LogMelOptions o{.window = 128, .hop = 40, .fft = 128, .mels = 20, .low = 50, .high = 3900};
  for (const auto& [scale, name] : {std::pair{MelScale::htk, "htk."}, {MelScale::slaney, "slaney."}}) {
    o.scale = scale;
    const LogMel features(o);
    const std::string prefix = name;
    CHECK(largest_difference(features.filters(), cases.tensors.at(prefix + "filters")) < 1e-12);
    CHECK(largest_difference(features(cases.tensors.at("samples")), cases.tensors.at(prefix + "features")) <
          2e-6);
  }
}

TEST_CASE("the scales have the values that their definitions name") {
  CHECK(to_mel(MelScale::htk, 1000) == doctest::Approx(999.9855).epsilon(1e-6));
  CHECK(to_mel(MelScale::slaney, 1000) == doctest::Approx(15));
  CHECK(to_mel(MelScale::slaney, 6400) == doctest::Approx(42));
  for (const MelScale scale : {MelScale::htk, MelScale::slaney})
    for (const double f : {0.0, 60.0, 999.0, 1001.0, 7900.0})
      CHECK(to_hertz(scale, to_mel(scale, f)) == doctest::Approx(f).epsilon(1e-12));
}

TEST_CASE(
    "a tone is loudest in the filter of its frequency, silence is the floor, a short sound is one frame") {
  const LogMel features({});
  for (const double f : {300.0, 1000.0, 3000.0}) {
    const Tensor tone = empty({800});
    for (int64_t t = 0; t < 800; ++t)
      tone.data<float>()[t] =
          static_cast<float>(std::sin(2 * std::numbers::pi * f * static_cast<double>(t) / 8000));
    const std::vector<double> y = features(tone).values();
    const auto loudest = std::max_element(y.begin(), y.begin() + 40) - y.begin();
    const double step = to_mel(MelScale::htk, 4000) / 41;  // filter m is centred at (m + 1) steps
    CHECK(std::abs(static_cast<double>(loudest + 1) * step - to_mel(MelScale::htk, f)) <= step);
  }
  for (const double y : features(zeros({100})).values()) CHECK(y == doctest::Approx(std::log(1e-10)));
  CHECK(features(ones({1})).shape() == Shape{1, 40});
  CHECK(features(ones({200})).shape() == Shape{1, 40});
  CHECK(features(ones({201})).shape() == Shape{2, 40});
}

TEST_CASE("options out of range and other tensors are errors") {
  CHECK_THROWS_WITH_AS(LogMel({.window = 300}), doctest::Contains("window is 300 and fft 256"), Error);
  CHECK_THROWS_WITH_AS(LogMel({.hop = 0}), doctest::Contains("hop 0"), Error);
  CHECK_THROWS_WITH_AS(LogMel({.high = 5000}), doctest::Contains("0 to 5000 Hz"), Error);
  CHECK_THROWS_WITH_AS(LogMel({.floor = 0}), doctest::Contains("floor is 0"), Error);
  CHECK_THROWS_WITH_AS(LogMel({.mels = 200}), doctest::Contains("fewer mels or a larger fft"), Error);
  const LogMel features({});
  CHECK_THROWS_WITH_AS(features(ones({2, 300})), doctest::Contains("[2, 300]"), Error);
  CHECK_THROWS_WITH_AS(features(zeros({0})), doctest::Contains("T > 0"), Error);
  CHECK_THROWS_WITH_AS(features(ones({300}, DType::float64)), doctest::Contains("float64"), Error);
}
