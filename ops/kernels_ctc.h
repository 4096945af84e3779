// The kernels of CTC, and the recursions that both devices compute. A path is in a state s of 2L +
// 1 at each frame: state 2i is the blank before label i, state 2i + 1 is label i.
#pragma once

#include "core/kernel_macros.h"
#include "core/math.h"

namespace vitrine {

/// losses [B] of log-probabilities [B, T, V], both in float32 or float64, and α [B, T, 2L + 1] in
/// float64, because α grows with the frames and its exponentials would lose digits. All are
/// contiguous. targets [B, L] and lengths [B] are int64 and checked. α of frames and states beyond
/// a row's lengths is not written.
VITRINE_KERNEL(ctc_loss, Tensor& losses, Tensor& alpha, const Tensor& log_probabilities,
               const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
               int64_t blank);
/// dx [B, T, V], zeros before: −dlosses times the probability that a path has the class at the
/// frame. scratch [B, 3, 2L + 1] in float64.
VITRINE_KERNEL(ctc_loss_backward, Tensor& dx, Tensor& scratch, const Tensor& dlosses, const Tensor& alpha,
               const Tensor& log_probabilities, const Tensor& targets, const Tensor& input_lengths,
               const Tensor& target_lengths, int64_t blank);

/// log(eᵃ + eᵇ + eᶜ); −∞ if all are; NaN if one is.
VITRINE_HD inline double log_add(double a, double b, double c) {
  const double most = math::max(math::max(a, b), c);
  if (!(most > -INFINITY) || !math::is_finite(most)) return a + b + c;
  return most + math::log(math::exp(a - most) + math::exp(b - most) + math::exp(c - most));
}

/// One row of the batch, with log-probabilities of type T.
template <class T>
struct CtcRow {
  const T* log_probabilities;  // [T, V]
  const int64_t* labels;
  int64_t classes, count, frames, blank;
  double never = -INFINITY;

  VITRINE_HD CtcRow(int64_t b, const T* x, const int64_t* targets, const int64_t* input_lengths,
                    const int64_t* target_lengths, int64_t time, int64_t classes, int64_t most, int64_t blank)
      : log_probabilities(x + b * time * classes),
        labels(targets + b * most),
        classes(classes),
        count(target_lengths[b]),
        frames(input_lengths[b]),
        blank(blank) {}

  VITRINE_HD int64_t states() const { return 2 * count + 1; }
  VITRINE_HD int64_t class_of(int64_t s) const { return s % 2 == 0 ? blank : labels[s / 2]; }
  /// Whether a path can go from state s − 2 to s.
  VITRINE_HD bool skips(int64_t s) const {
    return s % 2 == 1 && s >= 3 && labels[s / 2] != labels[s / 2 - 1];
  }
  VITRINE_HD double emits(int64_t t, int64_t s) const {
    return static_cast<double>(log_probabilities[t * classes + class_of(s)]);
  }

  /// α_t(s), given α_{t−1}.
  VITRINE_HD double alpha(int64_t t, int64_t s, const double* before) const {
    if (t == 0) return s < 2 ? emits(0, s) : never;
    return log_add(before[s], s >= 1 ? before[s - 1] : never, skips(s) ? before[s - 2] : never) + emits(t, s);
  }
  /// The loss, given α of all frames, `width` states each.
  VITRINE_HD double loss(const double* alphas, int64_t width) const {
    if (frames == 0) return count == 0 ? 0.0 : INFINITY;
    const double* const last = alphas + (frames - 1) * width;
    return -log_add(last[states() - 1], count > 0 ? last[states() - 2] : never, never);
  }
  /// β_t(s), the log-probability of the frames after t, given β_{t+1}.
  VITRINE_HD double beta(int64_t t, int64_t s, const double* after) const {
    const int64_t n = states();
    if (t == frames - 1) return s >= n - 2 ? 0.0 : never;
    const auto next = [&](int64_t to, bool allowed) {
      return allowed ? after[to] + emits(t + 1, to) : never;
    };
    return log_add(next(s, true), next(s + 1, s + 1 < n), next(s + 2, s + 2 < n && skips(s + 2)));
  }
  /// Whether s is the first state of its class.
  VITRINE_HD bool is_first(int64_t s) const {
    if (s % 2 == 0) return s == 0;
    for (int64_t i = 1; i < s; i += 2)
      if (class_of(i) == class_of(s)) return false;
    return class_of(s) != blank;
  }
};

}  // namespace vitrine
