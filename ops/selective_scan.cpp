#include "ops/selective_scan.h"

#include <algorithm>
#include <vector>

#include "core/flops.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/kernels.h"
#include "ops/operands.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine {
namespace {

/// The operands, checked: sequences in one dtype, the rest in its wide dtype.
struct Scan {
  Tensor u, delta, a, b, c, skip, first;
  DType dtype, wide;
  int64_t batch, time, channels, states;

  Scan(const Tensor& u0, const Tensor& delta0, const Tensor& a0, const Tensor& b0, const Tensor& c0,
       const SelectiveScanOptions& o) {
    check(u0.rank() == 3, "selective_scan: u is {}, wanted [B, T, D]", u0.shape());
    batch = u0.size(0), time = u0.size(1), channels = u0.size(2);
    check(a0.rank() == 2 && a0.size(0) == channels, "selective_scan: a is {}, wanted [{}, N]", a0.shape(),
          channels);
    states = a0.size(1);
    dtype = promote(promote(u0.dtype(), delta0.dtype()), promote(b0.dtype(), c0.dtype()));
    check_floating("selective_scan", "a", a0);
    wide = accumulation_dtype(promote(dtype, a0.dtype()));
    if (wide == DType::float64) dtype = wide;
    u = given("u", u0, {batch, time, channels}, dtype);
    delta = given("delta", delta0, {batch, time, channels}, dtype);
    a = given("a", a0, {channels, states}, wide);
    b = given("b", b0, {batch, time, states}, dtype), c = given("c", c0, {batch, time, states}, dtype);
    if (o.skip.defined()) skip = given("skip", o.skip, {channels}, wide);
    first = o.state.defined() ? given("state", o.state, {batch, channels, states}, wide)
                              : zeros({batch, channels, states}, wide, u.device());
  }

 private:
  static Tensor given(const char* argument, const Tensor& x, const Shape& shape, DType type) {
    check_floating("selective_scan", argument, x);
    check(x.shape() == shape, "selective_scan: {} is {}, wanted {}", argument, x.shape(), shape);
    return cast(x, type);
  }
};

}  // namespace

SelectiveScanStates define::selective_scan(const Tensor& u0, const Tensor& delta0, const Tensor& a,
                                           const Tensor& b0, const Tensor& c0,
                                           const SelectiveScanOptions& options) {
  const Scan s(u0, delta0, a, b0, c0, options);
  const Tensor u = cast(s.u, s.wide), delta = cast(s.delta, s.wide), b = cast(s.b, s.wide),
               c = cast(s.c, s.wide);
  // Of position t: the channels as a column, the N numbers of b and c as a row.
  const auto column = [](const Tensor& x, int64_t t) { return unsqueeze(select(x, 1, t), -1); };
  const auto row = [](const Tensor& x, int64_t t) { return unsqueeze(select(x, 1, t), 1); };
  Tensor h = s.first;
  std::vector<Tensor> ys;
  for (int64_t t = 0; t < s.time; ++t) {
    h = exp(column(delta, t) * s.a) * h + column(delta, t) * column(u, t) * row(b, t);
    const Tensor y = sum(row(c, t) * h, {-1});
    ys.push_back(s.skip.defined() ? y + s.skip * select(u, 1, t) : y);
  }
  return {ys.empty() ? s.u : cast(stack(ys, 1), s.dtype), h};
}

SelectiveScanStates selective_scan(const Tensor& u0, const Tensor& delta0, const Tensor& a0, const Tensor& b0,
                                   const Tensor& c0, const SelectiveScanOptions& options) {
  const Scan s(u0, delta0, a0, b0, c0, options);
  const auto inputs = {s.u, s.delta, s.a, s.b, s.c, s.skip, s.first};
  if (const auto states = through_definition(inputs, [&] {
        return define::selective_scan(s.u, s.delta, s.a, s.b, s.c, {s.skip, s.first});
      }))
    return *states;
  const Tensor u = packed(s.u), delta = packed(s.delta), a = packed(s.a), b = packed(s.b), c = packed(s.c),
               skip = s.skip.defined() ? packed(s.skip) : s.skip;
  Tensor y = empty_like(u), state = empty(s.first.shape(), s.wide, u.device()), boundaries;
  const int64_t chunks = (s.time + kScanChunk - 1) / kScanChunk;
  if (std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return has_gradient(x); }))
    boundaries = empty({s.batch, chunks, s.channels, s.states}, s.wide, u.device());
  // A position adds b·u to each element of the state and reads c·S.
  const double flops = 4.0 * static_cast<double>(u.numel()) * static_cast<double>(s.states);
  count_flops("selective_scan", flops);
  VITRINE_RUN(selective_scan, y, state, boundaries, u, delta, a, b, c, skip, packed(s.first));
  const auto backward = [u = Saved(u), delta = Saved(delta), a = Saved(a), b = Saved(b), c = Saved(c),
                         skip = Saved(skip), boundaries = Saved(boundaries), wide = s.wide,
                         shape = s.first.shape(), flops](const Backward& g) -> Grads {
    const Device device = u->device();
    const Tensor dy = g.dy(0).defined() ? packed(g.dy(0)) : zeros_like(u.get());
    const Tensor dstate = g.dy(1).defined() ? packed(g.dy(1)) : zeros(shape, wide, device);
    Tensor du = empty_like(u.get()), ddelta = empty_like(u.get()), da = empty(shape, wide, device),
           dfirst = empty_like(da), dskip;
    if (skip->defined()) dskip = empty({shape[0], shape[1]}, wide, device);
    const int64_t groups = (shape[1] + kScanChannels - 1) / kScanChannels;
    Tensor db = empty({shape[0], groups, b->size(1), shape[2]}, wide, device), dc = empty_like(db);
    count_flops("selective_scan_backward", 2 * flops);
    VITRINE_RUN(selective_scan_backward, du, ddelta, da, db, dc, dskip, dfirst, dy, dstate, u.get(),
                delta.get(), a.get(), b.get(), c.get(), skip.get(), boundaries.get());
    const auto over = [](const Tensor& parts, int64_t axis, DType dtype) {
      return cast(sum(parts, {axis}), dtype);
    };
    return {du,
            ddelta,
            over(da, 0, wide),
            over(db, 1, b->dtype()),
            over(dc, 1, b->dtype()),
            dskip.defined() ? over(dskip, 0, wide) : dskip,
            dfirst};
  };
  const auto states = record_all("selective_scan", inputs, {y, state}, backward);
  return {states[0], states[1]};
}

}  // namespace vitrine
