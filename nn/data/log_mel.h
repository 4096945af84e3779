// Log-mel features of sound.
#pragma once

#include <cstdint>
#include <memory>

#include "core/tensor.h"

namespace vitrine::nn {

/// How mel numbers m follow from frequencies f in Hz, and how the filters are scaled.
enum class MelScale {
  /// m = 2595 log10(1 + f / 700) (O'Shaughnessy 1987); each filter has the height 1.
  htk,
  /// m = 3f / 200 below 1000 Hz, and 15 + 27 ln(f / 1000) / ln 6.4 above it; the filter from f0 to
  /// f2 has the height 2 / (f2 − f0), so that all have the same area (Slaney, Auditory Toolbox,
  /// 1998).
  slaney,
};

double to_mel(MelScale scale, double hertz);
double to_hertz(MelScale scale, double mel);

struct LogMelOptions {
  int64_t rate = 8000;   ///< samples per second
  int64_t window = 200;  ///< samples in a frame: 25 ms at the default rate
  int64_t hop = 80;      ///< samples from one frame to the next: 10 ms
  int64_t fft = 256;     ///< points of the transform, at least `window`
  int64_t mels = 40;     ///< filters
  double low = 0;        ///< the frequency in Hz at which the first filter begins
  double high = 0;       ///< the frequency at which the last one ends; 0: half of the rate
  double floor = 1e-10;  ///< energies below are raised to it
  MelScale scale = MelScale::htk;
};

/// Samples [T] → log-mel features [F, mels], float32:
///   y[t, m] = ln max(floor, Σ_k filter[m, k] · |X_t[k]|²),
/// where X_t is the Fourier transform of x[t·hop + n] · w[n], n < window, padded with zeros to
/// `fft` points, and w[n] = ½ − ½ cos(2πn / window) is the Hann window. F = 1 + ⌈max(0, T − window)
/// / hop⌉: the last frame is padded with zeros. Computed in float64. Errors: options out of range,
/// and a filter so narrow that no frequency of the transform is inside it.
class LogMel {
 public:
  explicit LogMel(const LogMelOptions& options);
  ~LogMel();
  LogMel(LogMel&&) noexcept;
  /// Float32 samples, [T] with T > 0. May be called on several threads at once.
  Tensor operator()(const Tensor& samples) const;
  /// The triangles, float64 [mels, fft / 2 + 1]. Filter m rises from 0 at frequency c_m to its
  /// height at c_{m+1} and falls to 0 at c_{m+2}; the c are mels + 2 frequencies, evenly spaced in
  /// mel from `low` to `high`. Column k is the frequency k · rate / fft.
  const Tensor& filters() const;
  const LogMelOptions& options() const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace vitrine::nn
