#include "nn/data/log_mel.h"

#include <fftw3.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numbers>
#include <vector>

#include "core/creation.h"

namespace vitrine::nn {
namespace {

constexpr double kBreak = 1000, kBreakMel = 15, kLinear = 200.0 / 3;
const double kLogStep = std::log(6.4) / 27;

LogMelOptions checked(LogMelOptions o) {
  check(o.rate > 0 && o.hop > 0 && o.mels > 0, "LogMel: rate {}, hop {} and mels {} must be above 0", o.rate,
        o.hop, o.mels);
  check(o.window > 0 && o.fft >= o.window && o.fft <= 1 << 20,
        "LogMel: the window is {} and fft {}, wanted 0 < window <= fft <= 2^20", o.window, o.fft);
  if (o.high == 0) o.high = static_cast<double>(o.rate) / 2;
  check(o.low >= 0 && o.low < o.high && o.high <= static_cast<double>(o.rate) / 2,
        "LogMel: the frequencies go from {} to {} Hz, wanted a range from 0 to {}", o.low, o.high,
        o.rate / 2);
  check(o.floor > 0, "LogMel: the floor is {}, wanted above 0", o.floor);
  return o;
}

Tensor triangles(const LogMelOptions& o) {
  const double first = to_mel(o.scale, o.low), last = to_mel(o.scale, o.high);
  const auto corner = [&](int64_t i) {
    return to_hertz(o.scale,
                    first + (last - first) * static_cast<double>(i) / static_cast<double>(o.mels + 1));
  };
  const int64_t bins = o.fft / 2 + 1;
  const Tensor filters = zeros({o.mels, bins}, DType::float64);
  for (int64_t m = 0; m < o.mels; ++m) {
    const double left = corner(m), top = corner(m + 1), right = corner(m + 2);
    const double height = o.scale == MelScale::slaney ? 2 / (right - left) : 1;
    double sum = 0;
    for (int64_t k = 0; k < bins; ++k) {
      const double f = static_cast<double>(k * o.rate) / static_cast<double>(o.fft);
      const double y =
          height * std::max(0.0, std::min((f - left) / (top - left), (right - f) / (right - top)));
      filters.data<double>()[m * bins + k] = y;
      sum += y;
    }
    check(sum > 0,
          "LogMel: no frequency of {} points is inside filter {}, from {:.1f} to {:.1f} Hz: wanted fewer"
          " mels or a larger fft",
          o.fft, m, left, right);
  }
  return filters;
}

/// FFTW's planner is not thread-safe; its transforms are.
std::mutex& planner() {
  static std::mutex mutex;
  return mutex;
}

struct Free {
  void operator()(void* memory) const { fftw_free(memory); }
};
using Reals = std::unique_ptr<double[], Free>;
using Complexes = std::unique_ptr<fftw_complex[], Free>;

Reals reals(int64_t count) { return Reals(fftw_alloc_real(static_cast<size_t>(count))); }
Complexes complexes(int64_t count) { return Complexes(fftw_alloc_complex(static_cast<size_t>(count))); }

}  // namespace

double to_mel(MelScale scale, double hertz) {
  if (scale == MelScale::htk) return 2595 * std::log10(1 + hertz / 700);
  return hertz < kBreak ? hertz / kLinear : kBreakMel + std::log(hertz / kBreak) / kLogStep;
}

double to_hertz(MelScale scale, double mel) {
  if (scale == MelScale::htk) return 700 * (std::pow(10, mel / 2595) - 1);
  return mel < kBreakMel ? mel * kLinear : kBreak * std::exp((mel - kBreakMel) * kLogStep);
}

struct LogMel::State {
  LogMelOptions options;
  Tensor filters;
  std::vector<double> window;
  fftw_plan plan;

  explicit State(const LogMelOptions& o) : options(checked(o)), filters(triangles(options)) {
    for (int64_t n = 0; n < o.window; ++n)
      window.push_back(0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(n) /
                                            static_cast<double>(o.window)));
    const Reals x = reals(o.fft);
    const Complexes y = complexes(o.fft / 2 + 1);
    const std::lock_guard lock(planner());
    // A plan by estimate is the same in every run; one by measurement is not
    plan = fftw_plan_dft_r2c_1d(static_cast<int>(o.fft), x.get(), y.get(), FFTW_ESTIMATE);
    check(plan != nullptr, "LogMel: FFTW has no plan for {} points", o.fft);
  }
  State(const State&) = delete;
  ~State() {
    const std::lock_guard lock(planner());
    fftw_destroy_plan(plan);
  }
};

LogMel::LogMel(const LogMelOptions& options) : state_(std::make_unique<const State>(options)) {}
LogMel::~LogMel() = default;
LogMel::LogMel(LogMel&&) noexcept = default;

const Tensor& LogMel::filters() const { return state_->filters; }
const LogMelOptions& LogMel::options() const { return state_->options; }

Tensor LogMel::operator()(const Tensor& samples) const {
  check(samples.rank() == 1 && samples.numel() > 0 && samples.dtype() == DType::float32 &&
            samples.is_contiguous() && samples.device().is_cpu(),
        "LogMel: the samples are {}, wanted float32[T] with T > 0 on the CPU", describe(samples));
  const LogMelOptions& o = state_->options;
  const int64_t time = samples.numel(), bins = o.fft / 2 + 1;
  const int64_t frames = 1 + (std::max<int64_t>(0, time - o.window) + o.hop - 1) / o.hop;
  const Reals x = reals(o.fft);
  const Complexes spectrum = complexes(bins);
  std::vector<double> power(static_cast<size_t>(bins));
  Tensor y = empty({frames, o.mels});
  const auto* const filters = state_->filters.data<double>();
  for (int64_t t = 0; t < frames; ++t) {
    const float* const from = samples.data<float>() + t * o.hop;
    const int64_t there = std::clamp<int64_t>(time - t * o.hop, 0, o.window);
    std::fill_n(x.get(), o.fft, 0.0);
    for (int64_t n = 0; n < there; ++n)
      x[static_cast<size_t>(n)] = from[n] * state_->window[static_cast<size_t>(n)];
    fftw_execute_dft_r2c(state_->plan, x.get(), spectrum.get());
    for (size_t k = 0; k < power.size(); ++k)
      power[k] = spectrum[k][0] * spectrum[k][0] + spectrum[k][1] * spectrum[k][1];
    for (int64_t m = 0; m < o.mels; ++m) {
      double energy = 0;
      for (int64_t k = 0; k < bins; ++k) energy += filters[m * bins + k] * power[static_cast<size_t>(k)];
      y.data<float>()[t * o.mels + m] = static_cast<float>(std::log(std::max(energy, o.floor)));
    }
  }
  return y;
}

}  // namespace vitrine::nn
