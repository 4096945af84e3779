#include "nn/recurrent/recurrent.h"

#include <utility>

#include "core/creation.h"
#include "core/record.h"
#include "core/tape.h"
#include "core/tensor_kernels.h"
#include "nn/fixed_state.h"
#include "nn/init.h"
#include "nn/layers/zero_padding.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// For each position of states [B, T, C] the previous state; 0 for the first position.
Tensor shifted(const Tensor& states, bool reverse) {
  const int64_t time = states.size(1);
  const Tensor none = zeros({states.size(0), 1, states.size(2)}, states.dtype(), states.device());
  return reverse ? concat({slice(states, 1, 1, time), none}, 1)
                 : concat({none, slice(states, 1, 0, time - 1)}, 1);
}

}  // namespace

Recurrent::Direction::Direction(int64_t width, int64_t channels, int64_t gates, const ProjectionBias& b)
    : input(width, gates * channels, b.query), recurrent(orthogonal({gates * channels, channels})) {}

void Recurrent::Direction::fields(Fields& f) {
  f("input", input);
  f("recurrent", recurrent);
  f("bias", bias);
}

Recurrent::Recurrent(const MixerOptions& o, int64_t gates, int64_t in)
    : options_(o), in_(in == 0 ? o.width : in) {
  check(o.width > 0 && in_ > 0, "a recurrence: the width is {}, and that of x {}, wanted at least 1", o.width,
        in_);
  check(o.causal || o.width % 2 == 0,
        "a recurrence: the width {} is odd, and each of the two directions has half of it", o.width);
  const int64_t count = o.causal ? 1 : 2;
  for (int64_t i = 0; i < count; ++i) directions.emplace_back(in_, o.width / count, gates, o.bias);
}

void Recurrent::check_call(const Tensor& x, const MixerCall& call) const {
  const std::string name = kind();
  check(x.rank() == 3 && x.size(2) == in_, "{}: x is {}, wanted [B, T, {}]", name, x.shape(), in_);
  const AttentionMask& m = call.mask;
  check(!m.allowed.defined() && !m.bias.defined() && m.left == AttentionForm::kUnlimited,
        "{}: a recurrence has no pairs of positions, so that no mask can hide one; wanted lengths, and in "
        "generation prompts of one length",
        name);
  check(m.causal == options_.causal, "{}: the mask is {}causal and the recurrence is {}", name,
        m.causal ? "" : "not ", options_.causal ? "causal" : "of two directions");
  check(!call.source.defined(), "{}: a recurrence reads one sequence, so that a source has no place", name);
  if (call.state == nullptr) return;
  check(options_.causal,
        "{}: a recurrence of two directions cannot be continued, as later positions come first", name);
  check(!call.lengths.defined(), "{}: a state and lengths cannot be given at once", name);
}

Tensor Recurrent::forward(const Tensor& x, const MixerCall& call) const {
  check_call(x, call);
  const ModuleScope scope(kind());
  FixedState* const state = FixedState::of(call.state, kind());
  std::vector<Tensor> outputs, weights_of;
  for (size_t i = 0; i < directions.size(); ++i) {
    const Direction& direction = directions[i];
    const RecurrentOptions options{.lengths = call.lengths, .reverse = i == 1};
    const Tensor sums = direction.input.forward(x);
    const auto states = run(direction, sums, state ? state->states : std::vector<Tensor>{}, options);
    outputs.push_back(zero_padding(states[0], call.lengths));
    if (call.trace) {
      const Tape::Pause pause;
      weights_of.push_back(weights(direction, sums, states[0], options.reverse));
    }
    if (state == nullptr || x.size(1) == 0) continue;
    std::vector<Tensor> last;
    for (const Tensor& s : states) last.push_back(vitrine::clone(select(s, 1, -1)));
    state->advance(x.size(1), std::move(last));
  }
  if (call.trace) {
    *call.trace = {};
    call.trace->weights = stack(weights_of, 1);
    // The share of the state before the first position is missing
    call.trace->distribution = false;
    if (options_.causal)
      call.trace->visible = AttentionMask{.causal = true}.visible(x.size(1), x.size(1), x.device());
  }
  return outputs.size() == 1 ? outputs[0] : concat(outputs, -1);
}

std::vector<Tensor> Recurrent::states(const Tensor& x, const std::vector<Tensor>& first) const {
  check_call(x, {.mask = {.causal = true}});
  const ModuleScope scope(kind());
  return run(directions[0], directions[0].input.forward(x), first, {});
}

/// w(t, j) = the mean over channels of take_j·keep_{j+1}·…·keep_t: the share of the input at
/// position j in the state at position t.
Tensor Recurrent::weights(const Direction& direction, const Tensor& sums, const Tensor& h,
                          bool reverse) const {
  const Gates g = gates(direction, cast(sums, accumulation_dtype(sums.dtype())), shifted(h, reverse));
  const int64_t batch = h.size(0), time = h.size(1);
  if (time == 0) return zeros({batch, 0, 0}, g.take.dtype(), h.device());
  std::vector<Tensor> rows(static_cast<size_t>(time));
  Tensor held;  // [B, C, positions so far], the newest last
  for (int64_t i = 0; i < time; ++i) {
    const int64_t t = reverse ? time - 1 - i : i;
    const Tensor taken = unsqueeze(select(g.take, 1, t), -1);
    held = held.defined() ? concat({held * unsqueeze(select(g.keep, 1, t), -1), taken}, -1) : taken;
    Tensor row = mean(held, {1});
    if (reverse) row = flip(row, {1});
    const Tensor others = zeros({batch, time - 1 - i}, row.dtype(), row.device());
    rows[static_cast<size_t>(t)] = reverse ? concat({others, row}, -1) : concat({row, others}, -1);
  }
  return stack(rows, 1);
}

std::unique_ptr<DecodingState> Recurrent::make_state(int64_t, int64_t) const {
  return std::make_unique<FixedState>(kind());
}

std::string Recurrent::explain(const MixerCall&) const {
  return fmt::format("{}: position after position in {} direction{}, one product for all gates at each",
                     kind(), directions.size(), directions.size() == 1 ? "" : "s");
}

void Recurrent::fields(Fields& f) {
  const char* const names[] = {"forward", "backward"};
  if (directions.size() == 1)
    directions[0].fields(f);
  else
    for (size_t i = 0; i < directions.size(); ++i) f(names[i], directions[i]);
}

Lstm::Lstm(const MixerOptions& o, int64_t in) : Recurrent(o, 4, in) {
  for (Direction& d : directions) {
    if (!d.input.bias.defined()) continue;
    const int64_t channels = d.recurrent.shape()[1];
    Tensor forget = slice(d.input.bias.master(), 0, channels, 2 * channels);
    const Tape::Pause pause;
    VITRINE_RUN(fill, forget, 1);
  }
}

std::vector<Tensor> Lstm::run(const Direction& d, const Tensor& sums, const std::vector<Tensor>& first,
                              const RecurrentOptions& options) const {
  const auto before = [&](size_t i) { return i < first.size() ? first[i] : Tensor(); };
  const LstmStates s = lstm(sums, d.recurrent, before(0), before(1), options);
  return {s.h, s.c};
}

Recurrent::Gates Lstm::gates(const Direction& d, const Tensor& sums, const Tensor& h_before) const {
  const auto all =
      split(sums + cast(matmul(h_before, transpose(d.recurrent)), sums.dtype()), sums.size(-1) / 4, -1);
  return {.keep = sigmoid(all[1]), .take = sigmoid(all[0])};
}

Lstm Lstm::clone() {
  return clone_into([this] { return Lstm(options_, in_); });
}

Gru::Gru(const MixerOptions& o, int64_t in) : Recurrent(o, 3, in) {
  for (Direction& d : directions)
    if (o.bias.query == Bias::yes) d.bias = constant({d.recurrent.shape()[1]}, 0);
}

std::vector<Tensor> Gru::run(const Direction& d, const Tensor& sums, const std::vector<Tensor>& first,
                             const RecurrentOptions& options) const {
  return {gru(sums, d.recurrent, d.bias.defined() ? Tensor(d.bias) : Tensor(),
              first.empty() ? Tensor() : first[0], options)};
}

Recurrent::Gates Gru::gates(const Direction& d, const Tensor& sums, const Tensor& h_before) const {
  const int64_t channels = sums.size(-1) / 3;
  const Tensor back = cast(matmul(h_before, transpose(d.recurrent)), sums.dtype());
  const Tensor update =
      sigmoid(slice(sums, -1, channels, 2 * channels) + slice(back, -1, channels, 2 * channels));
  return {.keep = update, .take = 1 - update};
}

Gru Gru::clone() {
  return clone_into([this] { return Gru(options_, in_); });
}

std::unique_ptr<Recurrent> make_recurrent(Cell cell, const MixerOptions& options, int64_t in) {
  if (cell == Cell::lstm) return std::make_unique<Lstm>(options, in);
  return std::make_unique<Gru>(options, in);
}

}  // namespace vitrine::nn
