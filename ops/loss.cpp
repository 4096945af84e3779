#include "ops/loss.h"

#include <algorithm>
#include <cmath>

#include "core/convert.h"
#include "ops/activation.h"
#include "ops/cpu/rows.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/index_check.h"
#include "ops/kernels.h"
#include "ops/operands.h"
#include "ops/plain.h"
#include "ops/reduce.h"
#include "ops/softmax.h"

namespace vitrine {
namespace {

/// Checks the arguments of a classification loss; returns the targets as int64.
Tensor check_classes(const char* op, const char* argument, const Tensor& scores, const Tensor& targets,
                     const CrossEntropyOptions& options) {
  check_floating(op, argument, scores);
  check(scores.rank() >= 1, "{}: {} is a scalar, wanted [..., V]", op, argument);
  Shape rows = scores.shape();
  const int64_t classes = rows.back();
  rows.erase(rows.rank() - 1);
  check(targets.shape() == rows, "{}: targets has the shape {}, wanted {}, for {} of shape {}", op,
        targets.shape(), rows, argument, scores.shape());
  check(options.label_smoothing >= 0 && options.label_smoothing <= 1,
        "{}: label_smoothing is {}, wanted 0 to 1", op, options.label_smoothing);
  constexpr int64_t kExact = int64_t{1} << 53;
  check(-kExact <= options.ignore_index && options.ignore_index <= kExact,
        "{}: ignore_index is {}, wanted -2^53 to 2^53", op, options.ignore_index);
  const Tensor& weights = options.class_weights;
  check(!weights.defined() || weights.shape() == Shape{classes},
        "{}: class_weights has the shape {}, wanted [{}]", op, weights.defined() ? weights.shape() : Shape(),
        classes);
  return checked_index(targets, {op, "targets", classes, false, options.ignore_index});
}

/// Whether the target is not the one to ignore.
Tensor is_counted(const Tensor& targets, const CrossEntropyOptions& options) {
  return not_equal(targets, full_like(targets, static_cast<double>(options.ignore_index)));
}

/// The weight of each row's loss in the sum, a constant: its class weight (or 1), or 0 if the
/// target is ignored. For a mean it is divided by the sum of the weights.
Tensor row_weights(const Tensor& targets, const CrossEntropyOptions& options, DType dtype) {
  const Tensor by_class = options.class_weights.defined() ? detach(options.class_weights) : Tensor();
  const Tape::Pause pause;
  const Tensor valid = is_counted(targets, options);
  Tensor weights = cast(valid, dtype);
  if (by_class.defined()) {
    const Tensor of_class = index_select(by_class, 0, where(valid, targets, 0.0));
    weights = weights * cast(of_class, dtype);
  }
  if (options.reduction != Reduction::mean) return weights;
  const Tensor total = sum(weights);
  // A mean over no rows is 0
  return weights / where(not_equal(total, zeros_like(total)), total, 1.0);
}

/// Σ losses·weights, or losses·weights for Reduction::none. A loss with weight 0 is ignored even if
/// it is infinite.
Tensor weigh(const Tensor& losses, const Tensor& weights, Reduction reduction) {
  const Tensor weighted =
      where(not_equal(weights, zeros({}, weights.dtype(), weights.device())), losses * weights, 0.0);
  return reduction == Reduction::none ? weighted : sum(weighted);
}

/// −log_probabilities[target], or its smoothed form, per row; 0 where ignored.
Tensor row_losses(const Tensor& log_probabilities, const Tensor& targets,
                  const CrossEntropyOptions& options) {
  Tensor valid, classes;
  {
    const Tape::Pause pause;
    valid = is_counted(targets, options);
    classes = unsqueeze(where(valid, targets, 0.0), -1);
  }
  const double s = options.label_smoothing;
  Tensor losses = -squeeze(gather(log_probabilities, -1, classes), {-1});
  if (s > 0) losses = (1 - s) * losses - s * mean(log_probabilities, {-1});
  return where(valid, losses, 0.0);
}

}  // namespace

Tensor define::cross_entropy(const Tensor& logits, const Tensor& targets,
                             const CrossEntropyOptions& options) {
  const DType dtype = accumulation_dtype(logits.dtype());
  return weigh(row_losses(vitrine::log_softmax(cast(logits, dtype)), targets, options),
               row_weights(targets, options, dtype), options.reduction);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const Tensor classes = check_classes("cross_entropy", "logits", logits, targets, options);
  if (const auto y =
          through_definition({logits}, [&] { return define::cross_entropy(logits, classes, options); }))
    return *y;
  const Tensor x = in_rows(logits);
  Tensor losses = empty(targets.shape(), accumulation_dtype(x.dtype()), x.device());
  Tensor shift = empty_like(losses), total = empty_like(losses);
  VITRINE_RUN(cross_entropy, losses, shift, total, x, classes, options.ignore_index, options.label_smoothing);
  const Tensor weights = row_weights(classes, options, losses.dtype());
  const Tensor loss = weigh(losses, weights, options.reduction);
  return record("cross_entropy", {logits}, loss,
                [x = Saved(x), classes = Saved(classes), shift = Saved(shift), total = Saved(total),
                 weights = Saved(weights), shape = logits.shape(), ignore = options.ignore_index,
                 smoothing = options.label_smoothing](const Tensor& dy) -> Grads {
                  const Tensor dx = empty_rows("cross_entropy_backward", shape, x->dtype(), x->device());
                  Tensor rows = in_rows(dx);
                  VITRINE_RUN(cross_entropy_backward, rows, packed(dy * weights), x.get(), classes.get(),
                              shift.get(), total.get(), ignore, smoothing);
                  return {dx};
                });
}

void plain::cross_entropy(Tensor& losses, const Tensor& logits, const Tensor& targets) {
  const int64_t n = logits.size(-1);
  for (int64_t row = 0; row < logits.size(0); ++row) {
    const double* const x = logits.data<double>() + row * n;
    const double largest = *std::max_element(x, x + n);
    double total = 0;
    for (int64_t i = 0; i < n; ++i) total += std::exp(x[i] - largest);
    losses.data<double>()[row] = largest + std::log(total) - x[targets.data<int64_t>()[row]];
  }
}

/// The softmax minus 1 at the target.
void plain::cross_entropy_backward(Tensor& dx, const Tensor& dlosses, const Tensor& logits,
                                   const Tensor& targets) {
  const int64_t n = logits.size(-1);
  plain::softmax(dx, logits);
  for (int64_t row = 0; row < logits.size(0); ++row) {
    double* const to = dx.data<double>() + row * n;
    to[targets.data<int64_t>()[row]] -= 1;
    for (int64_t i = 0; i < n; ++i) to[i] *= dlosses.data<double>()[row];
  }
}

void cpu::cross_entropy(Tensor& losses, Tensor& shift, Tensor& total, const Tensor& logits,
                        const Tensor& targets, int64_t ignore, double label_smoothing) {
  const int64_t apart = logits.strides()[0];
  for_each_row("cross_entropy", logits, [&](auto type, int64_t row, int64_t, size_t n) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const int64_t target = targets.data<int64_t>()[row];
    const S* const x = logits.data<S>() + row * apart;
    T& loss = losses.data<T>()[row];
    if (target == ignore) {
      loss = 0;
      return;
    }
    const SumExp<T> sum = sum_exp(x, n);
    shift.data<T>()[row] = sum.shift;
    total.data<T>()[row] = sum.total;
    // x is subtracted from the shift first: both may be large, and the difference is exact if it is
    // small.
    const T log_total = std::log(sum.total);
    const auto loss_of = [&](T score) {
      return sum.total == 0 ? std::numeric_limits<T>::infinity() : (sum.shift - score) + log_total;
    };
    loss = loss_of(static_cast<T>(x[target]));
    if (label_smoothing > 0) {
      const T s = static_cast<T>(label_smoothing);
      loss = (1 - s) * loss + s * loss_of(vecmath::sum(x, n) / static_cast<T>(n));
    }
  });
}

void cpu::cross_entropy_backward(Tensor& dx, const Tensor& dlosses, const Tensor& logits,
                                 const Tensor& targets, const Tensor& shift, const Tensor& total,
                                 int64_t ignore, double label_smoothing) {
  const bool stream = dx.numel() * dx.element_size() > kStreamBytes;
  for_each_row("cross_entropy_backward", logits, [&](auto type, int64_t row, int64_t, size_t n) {
    using S = typename decltype(type)::type;
    using T = AccumulatorOf<S>;
    const int64_t target = targets.data<int64_t>()[row];
    S* const to = dx.data<S>() + row * dx.strides()[0];
    const T sum = total.data<T>()[row];
    if (target == ignore || sum == 0) {
      std::fill_n(to, n, S(0.0f));
      return;
    }
    const S* const x = logits.data<S>() + row * logits.strides()[0];
    const T by = shift.data<T>()[row], up = dlosses.data<T>()[row];
    const T s = static_cast<T>(label_smoothing), share = s / static_cast<T>(n);
    scaled_exp_minus(to, x, by, up / sum, up * share, n, stream);
    const T p = std::exp(static_cast<T>(x[target]) - by) / sum;
    to[target] = S(up * (p - (1 - s) - share));  // from the wide p: rounded once
  });
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, const CrossEntropyOptions& options) {
  const Tensor classes = check_classes("nll_loss", "log_probabilities", log_probabilities, targets, options);
  const DType dtype = accumulation_dtype(log_probabilities.dtype());
  return weigh(row_losses(cast(log_probabilities, dtype), classes, options),
               row_weights(classes, options, dtype), options.reduction);
}

namespace {

Tensor reduce(const char* op, const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  check(reduction == Reduction::sum || losses.numel() > 0, "{}: there is no mean of no losses, {}", op,
        losses.shape());
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

void check_pair(const char* op, const char* x_name, const Tensor& x, const char* y_name, const Tensor& y) {
  check_floating(op, x_name, x);
  check(x.shape() == y.shape(), "{}: {} has the shape {} and {} the shape {}, wanted the same", op, x_name,
        x.shape(), y_name, y.shape());
}

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  check_pair("mse_loss", "x", x, "y", y);
  const DType dtype = accumulation_dtype(promote(x.dtype(), y.dtype()));
  return reduce("mse_loss", square(cast(x, dtype) - cast(y, dtype)), reduction);
}

Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets, Reduction reduction) {
  check_pair("binary_cross_entropy", "logits", logits, "targets", targets);
  VITRINE_RUN_AS("binary_cross_entropy", check_shares, packed(targets), "binary_cross_entropy", "targets");
  const DType dtype = accumulation_dtype(promote(logits.dtype(), targets.dtype()));
  const Tensor x = cast(logits, dtype), y = cast(targets, dtype);
  // Both terms are positive, so a small loss is not a difference of large numbers.
  return reduce("binary_cross_entropy", y * softplus(-x) + (1 - y) * softplus(x), reduction);
}

void cpu::check_shares(const Tensor& x, const char* op, const char* argument) {
  visit_all(x.dtype(), [&](auto type) {
    const auto* const data = x.data<typename decltype(type)::type>();
    for (int64_t i = 0; i < x.numel(); ++i) {
      const auto share = convert<double>(data[i]);
      check(share >= 0 && share <= 1, "{}: {} has {} at position {}, outside [0, 1]", op, argument, share, i);
    }
  });
}

}  // namespace vitrine
