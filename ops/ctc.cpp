#include "ops/ctc.h"

#include <cmath>
#include <utility>

#include "core/creation.h"
#include "core/parallel.h"
#include "core/record.h"
#include "ops/cpu/rows.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/index_check.h"
#include "ops/join.h"
#include "ops/kernels_ctc.h"
#include "ops/operands.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine {
namespace {

/// The checked integers of a loss. Targets from a row's target length on are blanks.
struct Alignment {
  Tensor targets, input_lengths, target_lengths;  // int64, contiguous
  int64_t blank, batch, time, classes, labels;

  Alignment(const Tensor& logits, const Tensor& given, const CtcOptions& o) : blank(o.blank) {
    check_floating("ctc_loss", "logits", logits);
    check(logits.rank() == 3, "ctc_loss: logits is {}, wanted [B, T, V]", logits.shape());
    batch = logits.size(0), time = logits.size(1), classes = logits.size(2);
    check(given.rank() == 2 && given.size(0) == batch,
          "ctc_loss: targets is {}, wanted [{}, L] for logits {}", given.shape(), batch, logits.shape());
    check(!is_floating(given.dtype()) && given.dtype() != DType::boolean,
          "ctc_loss: targets is {}, wanted int64, int32 or uint8", describe(given));
    labels = given.size(1);
    check(blank >= 0 && blank < classes, "ctc_loss: blank is {}, wanted a class in [0, {})", blank, classes);
    input_lengths = lengths("input_lengths", o.input_lengths, time, logits.device());
    target_lengths = lengths("target_lengths", o.target_lengths, labels, logits.device());
    const Tensor positions = arange(0, static_cast<double>(labels), 1, DType::int64, logits.device());
    const Tensor read = less(unsqueeze(positions, 0), unsqueeze(target_lengths, 1));
    targets = checked_index(where(read, cast(given, DType::int64), static_cast<double>(blank)),
                            {"ctc_loss", "targets", classes});
    // Not on a GPU, which would have to be waited for
    check(!targets.device().is_cpu() ||
              any(logical_and(read, equal(targets, full_like(targets, static_cast<double>(blank))))).item() ==
                  0,
          "ctc_loss: a target is {}, which is the blank; wanted labels of other classes", blank);
  }

 private:
  Tensor lengths(const char* name, const Tensor& given, int64_t most, Device device) const {
    if (!given.defined()) return full({batch}, static_cast<double>(most), DType::int64, device);
    check(given.shape() == Shape{batch}, "ctc_loss: {} is {}, wanted [{}]", name, describe(given), batch);
    return checked_index(given, {"ctc_loss", name, most + 1});
  }
};

/// [B, L] between copies of `fill`: [B, 2L + 1].
Tensor between(const Tensor& x, double fill) {
  const int64_t batch = x.size(0), n = x.size(1);
  const Tensor pairs = stack({full_like(x, fill), x}, 2);
  return concat({reshape(pairs, {batch, 2 * n}), full({batch, 1}, fill, x.dtype(), x.device())}, 1);
}

/// x moved by n states, with `never` in the first n.
Tensor moved(const Tensor& x, int64_t n, double never) {
  return slice(pad(x, {0, n}, {0, 0}, PadMode::constant, never), 1, 0, x.size(1));
}

/// The recursion of α over frames. A finite number, far below any sum of log-probabilities, takes
/// the place of −∞, so that gradients have no −∞ − −∞.
Tensor defined_losses(const Tensor& x, const Alignment& a) {
  const double never = x.dtype() == DType::float32 ? -1e37 : -1e300;
  const auto numbers = [&](double value) { return full_like(a.input_lengths, value); };
  const Tensor no_labels = equal(a.target_lengths, numbers(0));
  const Tensor empty = where(no_labels, zeros({a.batch}, x.dtype(), x.device()), INFINITY);
  if (a.time == 0) return empty;
  const Tensor classes = between(a.targets, static_cast<double>(a.blank)),
               is_label = between(ones_like(a.targets), 0);
  const Tensor skips = logical_and(equal(is_label, ones_like(is_label)),
                                   not_equal(classes, moved(classes, 2, static_cast<double>(a.blank))));
  const Tensor states = arange(0, static_cast<double>(2 * a.labels + 1), 1, DType::int64, x.device());
  const auto emits = [&](int64_t t) { return gather(select(x, 1, t), 1, classes); };
  Tensor alpha = where(less(states, full({}, 2, DType::int64, x.device())), emits(0), never);
  for (int64_t t = 1; t < a.time; ++t) {
    const Tensor skipped = where(skips, moved(alpha, 2, never), never);
    const Tensor next = log_sum_exp(stack({alpha, moved(alpha, 1, never), skipped}, 0), {0}) + emits(t);
    alpha = where(unsqueeze(greater(a.input_lengths, numbers(static_cast<double>(t))), 1), next, alpha);
  }
  const Tensor last = unsqueeze(a.target_lengths * 2.0, 1);
  const Tensor in_blank = gather(alpha, 1, last), in_label = gather(alpha, 1, maximum(last - 1.0, 0.0));
  const Tensor losses = -log_sum_exp(
      concat({in_blank, where(unsqueeze(no_labels, 1), full_like(in_label, never), in_label)}, 1));
  const Tensor finite = where(greater(losses, full({}, -never / 2, x.dtype(), x.device())),
                              full_like(losses, INFINITY), losses);
  return where(equal(a.input_lengths, numbers(0)), empty, finite);
}

/// The loss of each row.
Tensor row_losses(const Tensor& log_probabilities, const Alignment& a) {
  if (const auto y =
          through_definition({log_probabilities}, [&] { return defined_losses(log_probabilities, a); }))
    return *y;
  const Tensor x = packed(log_probabilities);
  Tensor losses = empty({a.batch}, x.dtype(), x.device()),
         alpha = empty({a.batch, a.time, 2 * a.labels + 1}, DType::float64, x.device());
  VITRINE_RUN(ctc_loss, losses, alpha, x, a.targets, a.input_lengths, a.target_lengths, a.blank);
  return record("ctc_loss", {log_probabilities}, losses,
                [a, x = Saved(x), alpha = Saved(alpha)](const Tensor& dy) -> Grads {
                  Tensor dx = zeros_like(x.get());
                  Tensor scratch = empty({a.batch, 3, 2 * a.labels + 1}, DType::float64, x->device());
                  VITRINE_RUN(ctc_loss_backward, dx, scratch, packed(dy), alpha.get(), x.get(), a.targets,
                              a.input_lengths, a.target_lengths, a.blank);
                  return {dx};
                });
}

Tensor reduced(const Tensor& losses, const Alignment& a, const CtcOptions& o) {
  const Tensor infinite = full({}, INFINITY, losses.dtype(), losses.device());
  const Tensor y = o.zero_infinity ? where(not_equal(losses, infinite), losses, 0.0) : losses;
  if (o.reduction == Reduction::none) return y;
  if (o.reduction == Reduction::sum) return sum(y);
  return mean(y / cast(maximum(a.target_lengths, 1.0), y.dtype()));
}

}  // namespace

Tensor define::ctc_loss(const Tensor& logits, const Tensor& targets, const CtcOptions& options) {
  const Alignment a(logits, targets, options);
  const Tensor x = cast(logits, accumulation_dtype(logits.dtype()));
  return reduced(defined_losses(log_softmax(x), a), a, options);
}

Tensor ctc_loss(const Tensor& logits, const Tensor& targets, const CtcOptions& options) {
  const Alignment a(logits, targets, options);
  const Tensor x = cast(logits, accumulation_dtype(logits.dtype()));
  return reduced(row_losses(log_softmax(x), a), a, options);
}

namespace {

/// Calls f(b, row b, α of row b) for all rows.
template <class T, class F>
void for_each_ctc_row(const Tensor& x, const Tensor& targets, const Tensor& input_lengths,
                      const Tensor& target_lengths, int64_t blank, F&& f) {
  const int64_t time = x.size(1), classes = x.size(2), labels = targets.size(1);
  parallel_for(0, x.size(0), grain_for(time * (2 * labels + 1) * 16), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      f(b, CtcRow<T>(b, x.data<T>(), targets.data<int64_t>(), input_lengths.data<int64_t>(),
                     target_lengths.data<int64_t>(), time, classes, labels, blank));
  });
}

}  // namespace

void cpu::ctc_loss(Tensor& losses, Tensor& alpha, const Tensor& x, const Tensor& targets,
                   const Tensor& input_lengths, const Tensor& target_lengths, int64_t blank) {
  cpu::visit_wide(x.dtype(), "ctc_loss", [&]<class T>(Type<T>) {
    const int64_t time = x.size(1), width = alpha.size(2);
    for_each_ctc_row<T>(x, targets, input_lengths, target_lengths, blank,
                        [&](int64_t b, const CtcRow<T>& row) {
                          double* const alphas = alpha.data<double>() + b * time * width;
                          double* now = alphas;
                          const double* before = now;
                          for (int64_t t = 0; t < row.frames; ++t, before = now, now += width)
                            for (int64_t s = 0; s < row.states(); ++s) now[s] = row.alpha(t, s, before);
                          losses.data<T>()[b] = static_cast<T>(row.loss(alphas, width));
                        });
  });
}

void cpu::ctc_loss_backward(Tensor& dx, Tensor& scratch, const Tensor& dlosses, const Tensor& alpha,
                            const Tensor& x, const Tensor& targets, const Tensor& input_lengths,
                            const Tensor& target_lengths, int64_t blank) {
  cpu::visit_wide(x.dtype(), "ctc_loss_backward", [&]<class T>(Type<T>) {
    const int64_t time = x.size(1), classes = x.size(2), width = alpha.size(2);
    for_each_ctc_row<T>(
        x, targets, input_lengths, target_lengths, blank, [&](int64_t b, const CtcRow<T>& row) {
          const T dloss = dlosses.data<T>()[b];
          const double* const alphas = alpha.data<double>() + b * time * width;
          const double loss = row.loss(alphas, width);
          if (loss == INFINITY) return;
          double* after = scratch.data<double>() + b * 3 * width;
          double* now = after + width;
          for (int64_t t = row.frames - 1; t >= 0; --t, std::swap(now, after)) {
            T* const to = dx.data<T>() + (b * time + t) * classes;
            for (int64_t s = 0; s < row.states(); ++s) {
              now[s] = row.beta(t, s, after);
              to[row.class_of(s)] -= dloss * static_cast<T>(math::exp(alphas[t * width + s] + now[s] + loss));
            }
          }
        });
  });
}

}  // namespace vitrine
