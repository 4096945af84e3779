// LSTM, GRU and the simple recurrent network, with one direction and ONNX's default activations.
#include <utility>
#include <vector>

#include "core/creation.h"
#include "core/error.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/recurrent.h"
#include "ops/view.h"
#include "tests/ops/onnx/adapters.h"

namespace vitrine::test {
namespace {

/// Blocks of C rows in another order: a gate of ONNX for each gate of the library.
Tensor in_order(const Tensor& gates, const std::vector<size_t>& order) {
  const std::vector<Tensor> blocks = split(gates, gates.size(0) / static_cast<int64_t>(order.size()));
  std::vector<Tensor> result;
  for (const size_t i : order) result.push_back(blocks.at(i));
  return concat(result, 0);
}

/// The operands of a case, with the batch first and without the axis of directions.
struct Recurrence {
  bool batch_first;
  Tensor x, recurrent;    ///< x·Wᵀ of all gates and positions, [B, T, G·C], and R [G·C, C]
  Tensor bias_x, bias_h;  ///< [G·C]; undefined if the case has none
  Tensor h0;              ///< [B, C] or undefined
  RecurrentOptions options = {};

  Recurrence(Case c, const std::vector<size_t>& order) {
    check(c.attribute("direction", std::string("forward")) == "forward", "wanted the direction forward");
    batch_first = c.attribute("layout", 0) == 1;
    const Tensor w = in_order(squeeze(c.in(1), {0}), order);
    recurrent = in_order(squeeze(c.in(2), {0}), order);
    check(c.attribute("hidden_size", recurrent.size(1)) == recurrent.size(1), "R has another hidden size");
    if (c.has(3)) {
      const std::vector<Tensor> halves = split(squeeze(c.in(3), {0}), w.size(0));
      bias_x = in_order(halves[0], order), bias_h = in_order(halves[1], order);
    }
    x = linear(batch_first ? c.in(0) : transpose(c.in(0), 0, 1), w, bias_x);
    if (c.has(4)) options.lengths = copy_as(c.in(4), DType::int64);
    if (c.has(5)) h0 = state(c.in(5));
  }
  /// [B, C], of ONNX's [1, B, C] or [B, 1, C].
  Tensor state(const Tensor& s) const { return squeeze(s, {batch_first ? 1 : 0}); }
  /// Y, and the state after the last position, of the states [B, T, C] of all positions. Rows end
  /// together.
  Outputs outputs(const Tensor& h) const {
    const int64_t axis = batch_first ? 1 : 0;
    return {batch_first ? unsqueeze(h, 2) : unsqueeze(transpose(h, 0, 1), 1),
            unsqueeze(select(h, 1, h.size(1) - 1), axis)};
  }
};

/// ONNX has the gates i, o, f, c.
Outputs lstm_case(Case c) {
  const Recurrence r(c, {0, 2, 3, 1});
  const Tensor x = r.bias_h.defined() ? r.x + r.bias_h : r.x;
  const LstmStates states = lstm(x, r.recurrent, r.h0, c.has(6) ? r.state(c.in(6)) : Tensor(), r.options);
  Outputs all = r.outputs(states.h);
  all.push_back(r.outputs(states.c)[1]);
  return all;
}

/// ONNX has the gates z, r, h. Its reset gate comes before the product unless linear_before_reset
/// is set; with one position and a state of 0 both are the same.
Outputs gru_case(Case c) {
  const Recurrence r(c, {1, 0, 2});
  check(c.attribute("linear_before_reset", 0) == 1 || (r.x.size(1) == 1 && !r.h0.defined()),
        "wanted a reset gate after the product");
  check(!r.bias_h.defined(), "wanted no bias");
  return r.outputs(gru(r.x, r.recurrent, {}, r.h0, r.options));
}

/// h ← tanh(x·Wᵀ + h·Rᵀ + b).
Outputs rnn_case(Case c) {
  const Recurrence r(c, {0});
  const Tensor bias = r.bias_h.defined() ? r.bias_h : zeros({r.recurrent.size(0)}, r.x.dtype());
  Tensor h = r.h0.defined() ? r.h0 : zeros({r.x.size(0), r.recurrent.size(1)}, r.x.dtype());
  std::vector<Tensor> states;
  for (int64_t t = 0; t < r.x.size(1); ++t) {
    h = tanh(select(r.x, 1, t) + linear(h, r.recurrent, bias));
    states.push_back(h);
  }
  return r.outputs(stack(states, 1));
}

}  // namespace

const OnnxAdapters kRecurrentAdapters = {{"LSTM", lstm_case}, {"GRU", gru_case}, {"RNN", rnn_case}};

}  // namespace vitrine::test
