#include "ops/recurrent.h"

#include <algorithm>
#include <vector>

#include "core/adjoint.h"
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

/// The operands in one dtype, checked, with zeros for initial states that are not given.
struct Sequence {
  Tensor x, recurrent, h0;
  RecurrentOptions options;
  int64_t batch, time, channels, gates;
  DType dtype, wide;

  Sequence(const char* op, int64_t gates, const Tensor& x0, const Tensor& recurrent0, const Tensor& first,
           const RecurrentOptions& o)
      : options(o), gates(gates) {
    check_floating(op, "x", x0);
    check_floating(op, "recurrent", recurrent0);
    check(recurrent0.rank() == 2 && recurrent0.size(0) == gates * recurrent0.size(1),
          "{}: recurrent is {}, wanted [{}·C, C]", op, recurrent0.shape(), gates);
    channels = recurrent0.size(1);
    check(x0.rank() == 3 && x0.size(2) == gates * channels, "{}: x is {}, wanted [B, T, {}] for recurrent {}",
          op, x0.shape(), gates * channels, recurrent0.shape());
    batch = x0.size(0), time = x0.size(1);
    dtype = promote(x0.dtype(), recurrent0.dtype()), wide = accumulation_dtype(dtype);
    x = cast(x0, dtype), recurrent = cast(recurrent0, dtype), h0 = state(op, "h0", first, dtype);
    if (!o.lengths.defined()) return;
    check(o.lengths.dtype() == DType::int64 && o.lengths.shape() == Shape{batch},
          "{}: lengths are {}, wanted int64[{}]", op, describe(o.lengths), batch);
    options.lengths = packed(o.lengths);
  }

  Tensor state(const char* op, const char* name, const Tensor& given, DType type) const {
    if (!given.defined()) return zeros({batch, channels}, type, x.device());
    check_floating(op, name, given);
    check(given.shape() == Shape{batch, channels}, "{}: {} is {}, wanted [{}, {}]", op, name, given.shape(),
          batch, channels);
    return cast(given, type);
  }

  Tensor empty_states(DType type, int64_t width) const {
    return empty({batch, time, width}, type, x.device());
  }

  /// Calls f(t, previous position or −1) for the positions in the order in which they are computed.
  template <class F>
  void forward(F&& f) const {
    for (int64_t i = 0; i < time; ++i) f(position(i), i == 0 ? -1 : position(i - 1));
  }
  template <class F>
  void backward(F&& f) const {
    for (int64_t i = time - 1; i >= 0; --i) f(position(i), i == 0 ? -1 : position(i - 1));
  }

  /// The state before each position, as one tensor: `first`, then all of `states` except the last.
  Tensor before(const Tensor& first, const Tensor& states) const {
    Tensor all = empty_states(states.dtype(), channels);
    if (time == 0) return all;
    Tensor begin = select(all, 1, position(0));
    VITRINE_RUN(copy, begin, first);
    Tensor others = options.reverse ? slice(all, 1, 0, time - 1) : slice(all, 1, 1, time);
    VITRINE_RUN(copy, others, options.reverse ? slice(states, 1, 1, time) : slice(states, 1, 0, time - 1));
    return all;
  }

  /// bool [B, 1]: the rows that have position t.
  Tensor active(int64_t t) const {
    return unsqueeze(greater(options.lengths, full_like(options.lengths, static_cast<double>(t))), -1);
  }

 private:
  int64_t position(int64_t i) const { return options.reverse ? time - 1 - i : i; }
};

/// Position t of states [B, T, ·], or `first` if t is −1.
Tensor at(const Tensor& states, int64_t t, const Tensor& first = {}) {
  if (t < 0) return first;
  return states.defined() ? select(states, 1, t) : Tensor();
}

/// dy with contiguous rows, as kernels require; undefined if nothing depends on the output.
Tensor readable(const Tensor& dy) { return dy.defined() ? packed(dy) : dy; }

/// z = x·y, or z += x·y if `add`.
void multiply(Tensor& z, const Tensor& x, const Tensor& y, bool add) {
  count_flops("matmul", 2.0 * static_cast<double>(z.numel()) * static_cast<double>(x.size(-1)));
  VITRINE_RUN(matmul, z, x, y, add);
}

/// dW = Σ dsumsᵀ·h_before over all rows and positions.
Grad gradient_of_weight(const Tensor& dsums, const Tensor& h_before) {
  return Grad::into([dy = flatten(dsums, 0, 1), h = flatten(h_before, 0, 1)](Tensor& dw, bool fresh) {
    multiply(dw, transpose(dy), h, !fresh);
  });
}

std::vector<Tensor> in_order(std::vector<Tensor> states, bool reverse) {
  if (reverse) std::reverse(states.begin(), states.end());
  return states;
}

}  // namespace

LstmStates define::lstm(const Tensor& x0, const Tensor& recurrent0, const Tensor& h0, const Tensor& c0,
                        const RecurrentOptions& options) {
  const Sequence s("lstm", 4, x0, recurrent0, h0, options);
  const Tensor x = cast(s.x, s.wide), weight = transpose(cast(s.recurrent, s.wide));
  Tensor h = cast(s.h0, s.wide), c = s.state("lstm", "c0", c0, s.wide);
  std::vector<Tensor> hs, cs;
  s.forward([&](int64_t t, int64_t) {
    const auto sums = split(select(x, 1, t) + matmul(h, weight), s.channels, -1);
    const Tensor next_c = sigmoid(sums[1]) * c + sigmoid(sums[0]) * tanh(sums[2]);
    const Tensor next_h = sigmoid(sums[3]) * tanh(next_c);
    const bool some = s.options.lengths.defined();
    c = some ? where(s.active(t), next_c, c) : next_c;
    h = some ? where(s.active(t), next_h, h) : next_h;
    hs.push_back(h), cs.push_back(c);
  });
  if (hs.empty()) return {s.empty_states(s.dtype, s.channels), s.empty_states(s.wide, s.channels)};
  const bool reverse = options.reverse;
  return {cast(stack(in_order(hs, reverse), 1), s.dtype), stack(in_order(cs, reverse), 1)};
}

LstmStates lstm(const Tensor& x0, const Tensor& recurrent0, const Tensor& h0, const Tensor& c0,
                const RecurrentOptions& options) {
  const Sequence s("lstm", 4, x0, recurrent0, h0, options);
  const Tensor first_c = s.state("lstm", "c0", c0, s.wide);
  if (const auto states = through_definition({s.x, s.recurrent, s.h0, first_c}, [&] {
        return define::lstm(s.x, s.recurrent, s.h0, first_c, options);
      }))
    return *states;
  const Tensor x = packed(s.x), weight = packed(s.recurrent), h_first = packed(s.h0),
               c_first = packed(first_c);
  Tensor h = s.empty_states(s.dtype, s.channels), c = s.empty_states(s.wide, s.channels),
         gates = s.empty_states(s.wide, 4 * s.channels),
         product = empty({s.batch, 4 * s.channels}, s.wide, x.device());
  s.forward([&](int64_t t, int64_t before) {
    const Tensor h_before = at(h, before, h_first);
    Tensor next_h = at(h, t), next_c = at(c, t), gate = at(gates, t);
    multiply(product, h_before, transpose(weight), false);
    VITRINE_RUN(lstm_cell, next_h, next_c, gate, at(x, t), product, h_before, at(c, before, c_first),
                s.options.lengths, t);
  });
  const auto backward = [s, weight = Saved(weight), h = Saved(h), c = Saved(c), gates = Saved(gates),
                         h_first = Saved(h_first), c_first = Saved(c_first)](const Backward& b) -> Grads {
    const Tensor dh_all = readable(b.dy(0)), dc_all = readable(b.dy(1));
    Tensor dx = s.empty_states(s.dtype, 4 * s.channels);
    Tensor dh = zeros({s.batch, s.channels}, s.wide, dx.device()), dc = zeros_like(dh);
    s.backward([&](int64_t t, int64_t before) {
      Tensor dsums = at(dx, t);
      VITRINE_RUN(lstm_cell_backward, dsums, dh, dc, at(dh_all, t), at(dc_all, t), at(gates, t), at(c, t),
                  at(c, before, c_first), s.options.lengths, t);
      multiply(dh, dsums, weight, true);
    });
    return {dx, gradient_of_weight(dx, s.before(h_first, h)), cast(dh, s.dtype), dc};
  };
  const auto states = record_all("lstm", {s.x, s.recurrent, s.h0, first_c}, {h, c}, backward);
  return {states[0], states[1]};
}

Tensor define::gru(const Tensor& x0, const Tensor& recurrent0, const Tensor& bias, const Tensor& h0,
                   const RecurrentOptions& options) {
  const Sequence s("gru", 3, x0, recurrent0, h0, options);
  const Tensor x = cast(s.x, s.wide), weight = transpose(cast(s.recurrent, s.wide));
  Tensor h = cast(s.h0, s.wide);
  std::vector<Tensor> hs;
  s.forward([&](int64_t t, int64_t) {
    const auto in = split(select(x, 1, t), s.channels, -1), back = split(matmul(h, weight), s.channels, -1);
    const Tensor reset = sigmoid(in[0] + back[0]), update = sigmoid(in[1] + back[1]);
    const Tensor hidden = bias.defined() ? back[2] + cast(bias, s.wide) : back[2];
    const Tensor next = (1 - update) * tanh(in[2] + reset * hidden) + update * h;
    h = s.options.lengths.defined() ? where(s.active(t), next, h) : next;
    hs.push_back(h);
  });
  if (hs.empty()) return s.empty_states(s.dtype, s.channels);
  return cast(stack(in_order(hs, options.reverse), 1), s.dtype);
}

Tensor gru(const Tensor& x0, const Tensor& recurrent0, const Tensor& bias0, const Tensor& h0,
           const RecurrentOptions& options) {
  const Sequence s("gru", 3, x0, recurrent0, h0, options);
  check(!bias0.defined() || bias0.shape() == Shape{s.channels}, "gru: bias is {}, wanted [{}]",
        bias0.defined() ? bias0.shape() : Shape(), s.channels);
  const Tensor bias = bias0.defined() ? cast(bias0, s.wide) : Tensor();
  if (const auto y = through_definition({s.x, s.recurrent, bias, s.h0},
                                        [&] { return define::gru(s.x, s.recurrent, bias, s.h0, options); }))
    return *y;
  const Tensor x = packed(s.x), weight = packed(s.recurrent), h_first = packed(s.h0),
               shift = bias.defined() ? packed(bias) : bias;
  Tensor h = s.empty_states(s.dtype, s.channels), gates = s.empty_states(s.wide, 4 * s.channels),
         product = empty({s.batch, 3 * s.channels}, s.wide, x.device());
  s.forward([&](int64_t t, int64_t before) {
    const Tensor h_before = at(h, before, h_first);
    Tensor next_h = at(h, t), gate = at(gates, t);
    multiply(product, h_before, transpose(weight), false);
    VITRINE_RUN(gru_cell, next_h, gate, at(x, t), product, shift, h_before, s.options.lengths, t);
  });
  return record("gru", {s.x, s.recurrent, bias, s.h0}, h,
                [s, weight = Saved(weight), h = Saved(h), gates = Saved(gates),
                 h_first = Saved(h_first)](const Backward& b) -> Grads {
                  Tensor dx = s.empty_states(s.dtype, 3 * s.channels),
                         dproduct = s.empty_states(s.dtype, 3 * s.channels);
                  Tensor dh = zeros({s.batch, s.channels}, s.wide, dx.device());
                  const Tensor dy = readable(b.dy());
                  s.backward([&](int64_t t, int64_t before) {
                    Tensor dsums = at(dx, t), dback = at(dproduct, t);
                    VITRINE_RUN(gru_cell_backward, dsums, dback, dh, at(dy, t), at(gates, t),
                                at(h, before, h_first), s.options.lengths, t);
                    multiply(dh, dback, weight, true);
                  });
                  Grads grads(4);
                  grads[0] = dx, grads[1] = gradient_of_weight(dproduct, s.before(h_first, h));
                  if (b.needs(2)) grads[2] = sum(cast(slice(dproduct, -1, 2 * s.channels), s.wide), {0, 1});
                  grads[3] = cast(dh, s.dtype);
                  return grads;
                });
}

}  // namespace vitrine
