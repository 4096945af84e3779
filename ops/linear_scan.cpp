#include "ops/linear_scan.h"

#include <algorithm>
#include <vector>

#include "core/flops.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/kernels.h"
#include "ops/matmul.h"
#include "ops/operands.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine {
namespace {

/// The operands, checked: vectors in one dtype, decays and the state in its wide dtype. A state
/// that is not given is zero. Undefined: no decay, nothing erased.
struct Scan {
  Tensor q, k, v, log_decay, erase_to, erase_from, first;
  double scale;
  DType dtype, wide;
  int64_t batch, heads, time, rows, columns;

  Scan(const Tensor& q0, const Tensor& k0, const Tensor& v0, const LinearScanOptions& o) : scale(o.scale) {
    check(q0.rank() == 4, "linear_scan: q is {}, wanted [B, H, T, dk]", q0.shape());
    batch = q0.size(0), heads = q0.size(1), time = q0.size(2), rows = q0.size(3);
    check(v0.rank() == 4 && v0.size(0) == batch && v0.size(1) == heads && v0.size(2) == time,
          "linear_scan: v is {}, wanted [{}, {}, {}, dv]", v0.shape(), batch, heads, time);
    columns = v0.size(3);
    check(o.erase_to.defined() == o.erase_from.defined(), "linear_scan: erase_{} is given without erase_{}",
          o.erase_to.defined() ? "to" : "from", o.erase_to.defined() ? "from" : "to");
    dtype = q0.dtype();
    for (const Tensor* x : {&k0, &v0, &o.erase_to, &o.erase_from})
      if (x->defined()) dtype = promote(dtype, x->dtype());
    wide = accumulation_dtype(dtype);
    q = vectors("q", q0), k = vectors("k", k0), v = cast(floating("v", v0), dtype);
    erase_to = vectors("erase_to", o.erase_to), erase_from = vectors("erase_from", o.erase_from);
    log_decay = decays(o.log_decay), first = initial(o.state);
  }

  Tensor empty_state() const { return empty(first.shape(), wide, q.device()); }

 private:
  static const Tensor& floating(const char* argument, const Tensor& x) {
    check_floating("linear_scan", argument, x);
    return x;
  }

  Tensor vectors(const char* argument, const Tensor& x) const {
    if (!x.defined()) return x;
    check(x.shape() == Shape{batch, heads, time, rows}, "linear_scan: {} is {}, wanted [{}, {}, {}, {}]",
          argument, x.shape(), batch, heads, time, rows);
    return cast(floating(argument, x), dtype);
  }

  Tensor decays(const Tensor& g) const {
    if (!g.defined()) return g;
    check_floating("linear_scan", "log_decay", g);
    Shape shape{batch, heads, time};
    if (g.rank() == 4) shape.push_back(rows);
    bool fits = g.rank() == shape.rank();
    for (int axis = 0; fits && axis < shape.rank(); ++axis)
      fits = g.size(axis) == shape[axis] || g.size(axis) == 1;
    check(fits,
          "linear_scan: log_decay is {}, wanted [{}, {}, {}] or [{}, {}, {}, {}], or 1 in place of sizes",
          g.shape(), batch, heads, time, batch, heads, time, rows);
    return expand(cast(g, wide), shape);  // so that gradients are added up in the wide dtype
  }

  Tensor initial(const Tensor& state) const {
    const Shape shape{batch, heads, rows, columns};
    if (!state.defined()) return zeros(shape, wide, q.device());
    check(state.shape() == shape, "linear_scan: state is {}, wanted {}", state.shape(), shape);
    return cast(floating("state", state), wide);
  }
};

/// x with contiguous rows, as kernels require.
Tensor readable(const Tensor& x) { return !x.defined() || x.strides()[3] == 1 ? x : packed(x); }
Tensor packed_or_none(const Tensor& x) { return x.defined() ? packed(x) : x; }

}  // namespace

LinearScanStates define::linear_scan(const Tensor& q0, const Tensor& k0, const Tensor& v0,
                                     const LinearScanOptions& options) {
  const Scan s(q0, k0, v0, options);
  const auto row = [&](const Tensor& x, int64_t t) { return slice(cast(x, s.wide), 2, t, t + 1); };
  const auto column = [&](const Tensor& x, int64_t t) { return transpose(row(x, t)); };
  Tensor state = s.first;
  std::vector<Tensor> os;
  for (int64_t t = 0; t < s.time; ++t) {
    Tensor next = state;
    if (s.log_decay.defined())
      next =
          next * exp(s.log_decay.rank() == 4 ? column(s.log_decay, t) : unsqueeze(row(s.log_decay, t), -1));
    if (s.erase_to.defined()) next = next + column(s.erase_to, t) * matmul(row(s.erase_from, t), state);
    state = next + column(s.k, t) * row(s.v, t);
    os.push_back(matmul(row(s.q, t), state) * s.scale);
  }
  return {os.empty() ? cast(s.v, s.dtype) : cast(concat(os, 2), s.dtype), state};
}

LinearScanStates linear_scan(const Tensor& q0, const Tensor& k0, const Tensor& v0,
                             const LinearScanOptions& options) {
  const Scan s(q0, k0, v0, options);
  const auto inputs = {s.q, s.k, s.v, s.first, s.log_decay, s.erase_to, s.erase_from};
  if (const auto states = through_definition(inputs, [&] {
        return define::linear_scan(s.q, s.k, s.v, {s.log_decay, s.erase_to, s.erase_from, s.first, s.scale});
      }))
    return *states;
  const bool erases = s.erase_to.defined();
  const Tensor q = readable(s.q), k = readable(s.k), v = readable(s.v), g = packed_or_none(s.log_decay),
               to = readable(s.erase_to), from = readable(s.erase_from);
  Tensor o = empty(s.v.shape(), s.dtype, q.device()), state = s.empty_state(), erased, boundaries;
  if (std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return has_gradient(x); })) {
    const int64_t chunks = (s.time + kScanChunk - 1) / kScanChunk;
    boundaries = empty({s.batch, s.heads, chunks, s.rows, s.columns}, s.wide, q.device());
    if (erases) erased = empty(s.v.shape(), s.wide, q.device());
  }
  // A position writes k·vᵀ into the state and reads q·S; what erases reads and writes once more.
  const double flops = (erases ? 8.0 : 4.0) * static_cast<double>(v.numel()) * static_cast<double>(s.rows);
  count_flops("linear_scan", flops);
  VITRINE_RUN(linear_scan, o, state, erased, boundaries, q, k, v, g, to, from, packed(s.first), s.scale);
  const auto backward = [q = Saved(q), k = Saved(k), v = Saved(v), g = Saved(g), to = Saved(to),
                         from = Saved(from), erased = Saved(erased), boundaries = Saved(boundaries),
                         wide = s.wide, scale = s.scale, flops](const Backward& b) -> Grads {
    const Shape shape = boundaries->shape();
    const Tensor dy = b.dy(0).defined() ? readable(b.dy(0)) : zeros_like(v.get());
    const Tensor dstate = b.dy(1).defined()
                              ? packed(b.dy(1))
                              : zeros({shape[0], shape[1], shape[3], shape[4]}, wide, dy.device());
    Tensor dv = empty(dy.shape(), dy.dtype(), dy.device()), dfirst = empty_like(dstate), added;
    if (to->defined()) added = empty(dy.shape(), wide, dy.device());
    if (b.needs(2) || b.needs(3) || to->defined()) {
      count_flops("linear_scan_backward_columns", flops);
      VITRINE_RUN(linear_scan_backward_columns, dv, added, dfirst, dy, dstate, q.get(), k.get(), g.get(),
                  to.get(), from.get(), scale);
    }
    const auto like = [](const Tensor& x, DType dtype) { return empty(x.shape(), dtype, x.device()); };
    Tensor dq = like(q, q->dtype()), dk = like(k, k->dtype()), dg, dto, dfrom;
    if (to->defined()) dto = like(to, to->dtype()), dfrom = like(from, from->dtype());
    if (b.needs(4)) dg = like(q, wide);
    if (b.needs(0) || b.needs(1) || b.needs(4) || b.needs(5) || b.needs(6)) {
      count_flops("linear_scan_backward_rows", flops);
      VITRINE_RUN(linear_scan_backward_rows, dq, dk, dg, dto, dfrom, dy, dstate, q.get(), k.get(), v.get(),
                  g.get(), to.get(), from.get(), erased.get(), added, boundaries.get(), scale);
    }
    if (dg.defined() && g->rank() == 3) dg = sum(dg, {-1});
    return {dq, dk, dv, dfirst, dg, dto, dfrom};
  };
  const auto states = record_all("linear_scan", inputs, {o, state}, backward);
  return {states[0], states[1]};
}

}  // namespace vitrine
