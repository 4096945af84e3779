#include "ops/linear_scan.h"

#include <optional>
#include <utility>

#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/kernels.h"
#include "ops/matmul.h"
#include "ops/operands.h"
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
    check(o.erase_to.defined() == o.erase_from.defined(),
          "linear_scan: erase_{} is given without erase_{}", o.erase_to.defined() ? "to" : "from",
          o.erase_to.defined() ? "from" : "to");
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
    check(fits, "linear_scan: log_decay is {}, wanted [{}, {}, {}] or [{}, {}, {}, {}], or 1 in place of sizes",
          g.shape(), batch, heads, time, batch, heads, time, rows);
    return cast(expand(g, shape), wide);
  }

  Tensor initial(const Tensor& state) const {
    const Shape shape{batch, heads, rows, columns};
    if (!state.defined()) return zeros(shape, wide, q.device());
    check(state.shape() == shape, "linear_scan: state is {}, wanted {}", state.shape(), shape);
    return cast(floating("state", state), wide);
  }
};

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
      next = next * exp(s.log_decay.rank() == 4 ? column(s.log_decay, t)
                                                : unsqueeze(row(s.log_decay, t), -1));
    if (s.erase_to.defined()) next = next + column(s.erase_to, t) * matmul(row(s.erase_from, t), state);
    state = next + column(s.k, t) * row(s.v, t);
    os.push_back(matmul(row(s.q, t), state) * s.scale);
  }
  return {os.empty() ? cast(s.v, s.dtype) : cast(concat(os, 2), s.dtype), state};
}

LinearScanStates linear_scan(const Tensor& q, const Tensor& k, const Tensor& v,
                             const LinearScanOptions& options) {
  return define::linear_scan(q, k, v, options);
}

}  // namespace vitrine
