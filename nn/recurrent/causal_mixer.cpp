#include "nn/recurrent/causal_mixer.h"

#include <utility>

#include "core/creation.h"
#include "core/record.h"
#include "core/tape.h"
#include "nn/fixed_state.h"
#include "nn/layers/zero_padding.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {

CausalMixer::CausalMixer(std::string name, const MixerOptions& options)
    : options_(options), name_(std::move(name)) {
  check(options.width > 0, "{}: the width is {}, wanted at least 1", name_, options.width);
  check(
      options.causal,
      "{}: positions are read from the first to the last, so that later ones cannot be seen; wanted a causal "
      "mixer",
      name_);
}

Tensor CausalMixer::forward(const Tensor& x, const MixerCall& call) const {
  check(x.rank() == 3 && x.size(2) == options_.width, "{}: x is {}, wanted [B, T, {}]", name_, x.shape(),
        options_.width);
  const AttentionMask& m = call.mask;
  check(m.causal, "{}: the mask is not causal, and later positions cannot be seen", name_);
  check(
      !m.allowed.defined() && !m.bias.defined() && m.left == AttentionForm::kUnlimited && m.right >= 0,
      "{}: there are no pairs of positions, so that no mask can hide one; wanted lengths, and in generation "
      "prompts of one length",
      name_);
  check(!call.source.defined(), "{}: one sequence is read, so that a source has no place", name_);
  check(call.state == nullptr || !call.lengths.defined(), "{}: a state and lengths cannot be given at once",
        name_);
  const ModuleScope scope(name_);
  FixedState* const fixed = FixedState::of(call.state, name_);
  if (call.trace) {
    *call.trace = {};
    call.trace->distribution = false;
    call.trace->visible = AttentionMask{.causal = true}.visible(x.size(1), x.size(1), x.device());
  }
  std::vector<Tensor> state = fixed ? fixed->states : std::vector<Tensor>();
  const Tensor y = run(zero_padding(x, call.lengths), state, call.trace);
  if (fixed && x.size(1) > 0) fixed->advance(x.size(1), std::move(state));
  return zero_padding(y, call.lengths);
}

std::unique_ptr<DecodingState> CausalMixer::make_state(int64_t, int64_t) const {
  return std::make_unique<FixedState>(name_);
}

Tensor CausalMixer::weights_of(int64_t batch, int64_t time, int64_t channels, const Tensor& like,
                               const std::function<Tensor(const Tensor& v)>& read) {
  const Tape::Pause pause;
  const Tensor unit = eye(time, -1, like.dtype(), like.device());
  std::vector<Tensor> columns;
  for (int64_t j = 0; j < time; ++j)
    columns.push_back(
        mean(read(contiguous(expand(unsqueeze(select(unit, 0, j), -1), {batch, time, channels}))), {-1}));
  return time == 0 ? zeros({batch, 1, 0, 0}, like.dtype(), like.device()) : unsqueeze(stack(columns, -1), 1);
}

Tensor shifted(const Tensor& x, const Tensor& previous) {
  const Tensor first =
      previous.defined() ? unsqueeze(previous, 1) : zeros({x.size(0), 1, x.size(2)}, x.dtype(), x.device());
  return slice(concat({cast(first, x.dtype()), x}, 1), 1, 0, x.size(1));
}

}  // namespace vitrine::nn
