#include "ops/additive_scores.h"

#include "core/flops.h"
#include "ops/elementwise.h"
#include "ops/kernels.h"
#include "ops/operands.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine {
namespace {

/// The shape without its axis `axis`, counted from the end.
Shape without(Shape shape, int axis) {
  shape.erase(shape.rank() + axis);
  return shape;
}

void check_additive(const Tensor& q, const Tensor& k, const Tensor& w) {
  check_floating("additive_scores", "q", q);
  check(q.rank() >= 2 && k.rank() == q.rank() && w.rank() == q.rank() - 1 &&
            without(q.shape(), -2) == w.shape() && without(k.shape(), -2) == w.shape(),
        "additive_scores: q is {}, k {} and w {}, wanted [.., Tq, A], [.., Tk, A] and [.., A] with the same "
        "leading axes",
        q.shape(), k.shape(), w.shape());
  check(q.dtype() == k.dtype() && q.dtype() == w.dtype(),
        "additive_scores: q is {}, k {} and w {}, wanted one dtype", name(q.dtype()), name(k.dtype()),
        name(w.dtype()));
}

/// [.., T, A] → contiguous [N, A, T] in the wide dtype, as the kernels read it.
Tensor channel_rows(const Tensor& x) {
  const Tensor rows = transpose(x.alias(x.shape(), x.strides()));
  const DType wide = accumulation_dtype(x.dtype());
  const Tensor y = x.dtype() == wide ? packed(rows) : copy_as(rows, wide);
  const Shape& s = y.shape();
  const int64_t channels = y.size(-2), time = y.size(-1);
  return y.alias({channels * time == 0 ? numel(without(without(s, -1), -1)) : y.numel() / (channels * time),
                  channels, time},
                 contiguous_strides({1, channels, time}));
}

}  // namespace

Tensor define::additive_scores(const Tensor& q, const Tensor& k, const Tensor& w) {
  const DType wide = accumulation_dtype(q.dtype());
  const Tensor hidden = tanh(unsqueeze(cast(q, wide), -2) + unsqueeze(cast(k, wide), -3));
  return cast(sum(hidden * unsqueeze(unsqueeze(cast(w, wide), -2), -2), {-1}), q.dtype());
}

Tensor additive_scores(const Tensor& q, const Tensor& k, const Tensor& w) {
  check_additive(q, k, w);
  if (const auto y = through_definition({q, k, w}, [&] { return define::additive_scores(q, k, w); }))
    return *y;
  const DType wide = accumulation_dtype(q.dtype());
  Shape shape = q.shape();
  shape.back() = k.size(-2);
  Tensor s = empty(shape, wide, q.device());
  const auto rounded = [](const Tensor& x, DType dtype) {
    return x.dtype() == dtype ? x : copy_as(x, dtype);
  };
  const auto weights = [wide](const Tensor& x) { return x.dtype() == wide ? packed(x) : copy_as(x, wide); };
  // A hidden value is a sum and a product that is added; tanh is not counted.
  const double flops = 3.0 * static_cast<double>(s.numel() * q.size(-1));
  count_flops("additive_scores", flops);
  VITRINE_RUN(additive_scores, s, channel_rows(q), channel_rows(k), weights(w));
  return record(
      "additive_scores", {q, k, w}, rounded(s, q.dtype()),
      [q = Saved(q), k = Saved(k), w = Saved(w), wide, flops, rounded, weights](const Tensor& ds) -> Grads {
        const Tensor queries = channel_rows(q.get()), keys = channel_rows(k.get());
        Tensor dq = empty_like(queries), dk = empty_like(keys), dw = empty(w->shape(), wide, w->device());
        count_flops("additive_scores_backward", 3 * flops);
        VITRINE_RUN(additive_scores_backward, dq, dk, dw, weights(ds), queries, keys, weights(w.get()));
        const auto as = [&](const Tensor& dx, const Tensor& x) {
          return rounded(reshape(transpose(dx), x.shape()), x.dtype());
        };
        return {as(dq, q.get()), as(dk, k.get()), rounded(dw, w->dtype())};
      });
}

}  // namespace vitrine
