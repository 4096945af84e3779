#include "nn/models/recurrent_encoder_decoder.h"

#include <algorithm>
#include <utility>

#include "core/creation.h"
#include "core/record.h"
#include "nn/attention/mask.h"
#include "nn/fixed_state.h"
#include "nn/layers/xavier.h"
#include "nn/layers/zero_padding.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

LuongScore luong_score(SourceScore score) {
  switch (score) {
    case SourceScore::none:  // of one state alone, whose weight is 1
    case SourceScore::dot: return LuongScore::dot;
    case SourceScore::general: return LuongScore::general;
    case SourceScore::concat: return LuongScore::concat;
    case SourceScore::additive: return LuongScore::additive;
  }
  fail("RecurrentEncoderDecoder: an unknown score");
}

const RecurrentEncoderDecoderOptions& checked(const RecurrentEncoderDecoderOptions& o) {
  check_options(o, "RecurrentEncoderDecoder");
  check(o.width % 2 == 0, "RecurrentEncoderDecoder: width is {}, wanted an even number", o.width);
  check(o.score != SourceScore::none || (o.view == LuongView::global && !o.coverage),
        "RecurrentEncoderDecoder: a local view or coverage without attention; wanted a score");
  return o;
}

void check_decoding(const Tensor& ids, const StackCall& call, int64_t context) {
  check(ids.rank() == 2 && ids.size(1) >= 1,
        "RecurrentEncoderDecoder: the ids are {}, wanted [B, T] with T of at least 1", ids.shape());
  check(call.state || ids.size(1) <= context, "RecurrentEncoderDecoder: {} positions, the context holds {}",
        ids.size(1), context);
  check(call.source.defined(),
        "RecurrentEncoderDecoder: there is no memory; wanted that of encode(), as the source");
  check(!call.padding.defined() && !call.mask.allowed.defined() && !call.mask.bias.defined(),
        "RecurrentEncoderDecoder: a recurrence has no mask and no padding before a text; wanted prompts of "
        "one length");
}

/// bool [B, S], true in the first lengths[b] places of row b; undefined if the lengths are.
Tensor visible_places(const Tensor& source, const Tensor& lengths) {
  if (!lengths.defined()) return {};
  const Tensor places = arange(0, static_cast<double>(source.size(1)), 1, DType::int64, source.device());
  return less(places, unsqueeze(lengths, -1));
}

/// The last state of each direction in source [B, S, C]: [B, C].
Tensor summary_of(const Tensor& source, const Tensor& lengths) {
  const int64_t half = source.size(2) / 2;
  const Tensor first = select(source, 1, 0), backward = slice(first, 1, half, 2 * half);
  if (!lengths.defined()) return concat({slice(select(source, 1, -1), 1, 0, half), backward}, 1);
  const Tensor last = reshape(maximum(lengths - 1, 0), {source.size(0), 1, 1});
  const Tensor index = expand(last, {source.size(0), 1, half});
  return concat({select(gather(slice(source, 2, 0, half), 1, index), 1, 0), backward}, 1);
}

}  // namespace

void RecurrentEncoderDecoderOptions::list(OptionList& o) {
  const auto no_attention = [this] { return score == SourceScore::none ? "there is no attention" : ""; };
  o.group("Model");
  o("source-vocabulary", source_vocabulary, "number of source tokens").at_least(1);
  o("vocabulary", vocabulary, "number of target tokens").at_least(1);
  o("context", context, "longest target, in tokens").at_least(1);
  o("width", width, "number of channels").at_least(2);
  o("dropout", dropout, "dropout probability").at_least(0).below(1);
  o("cell", cell, "the recurrent cell");
  o("score", score, "how the decoder compares its state with those of the encoder");
  o("view", view, "which states the decoder sees").unless(no_attention);
  o("half-window", half_window, "states on each side that a local view shows").at_least(1).unless([this] {
    return view == LuongView::global ? "the view is global" : "";
  });
  o("feeding", feeding, "what the decoder reads besides a token");
  o("coverage", coverage, "the score reads the earlier weights").unless(no_attention);
  o("checkpoint-steps", recompute_steps, "save memory: run the recurrences again in the backward pass")
      .decides(Role::execution);
}

RecurrentEncoderDecoder::RecurrentEncoderDecoder(const RecurrentEncoderDecoderOptions& o)
    : source_tokens(checked(o).source_vocabulary, o.width, 1),
      tokens(o.vocabulary, o.width, 1),
      dropout(o.dropout),
      encoder(make_recurrent(o.cell, {.width = o.width, .causal = false})),
      decoder(make_recurrent(o.cell, {.width = o.width}, (o.feeding == Feeding::none ? 1 : 2) * o.width)),
      bridge(o.width, o.width),
      attention({.width = o.width,
                 .source_width = o.width,
                 .score = luong_score(o.score),
                 .view = o.view,
                 .half_window = o.half_window,
                 .coverage = o.coverage}),
      head(o.width, o.vocabulary),
      options_(o) {
  named_parameters();  // sets the parameters' names, for messages and drawings
  xavier_linear_layers(*this);
}

Memory RecurrentEncoderDecoder::encode(const Tensor& source, const Tensor& lengths) const {
  check(source.rank() == 2 && source.size(1) >= 1,
        "RecurrentEncoderDecoder: the source is {}, wanted [B, S] with at least one token", source.shape());
  const ModuleScope scope("encoder");
  const Tensor x = dropout.forward(source_tokens.forward(source));
  const auto forward = [this, x, lengths] { return encoder->forward(x, {.lengths = lengths}); };
  return {options_.recompute_steps ? recompute(*encoder, forward) : forward(), lengths};
}

/// What a step passes to the next one.
struct RecurrentEncoderDecoder::Carried {
  Tensor read, coverage;       ///< h̃ [B, 1, C], and [B, 1, S] or undefined
  std::vector<Tensor> states;  ///< of the decoder, [B, C] each

  std::vector<Tensor> tensors() const {
    std::vector<Tensor> all = {read};
    if (coverage.defined()) all.push_back(coverage);
    all.insert(all.end(), states.begin(), states.end());
    return all;
  }
  static Carried of(const std::vector<Tensor>& all, bool covers) {
    return {all[0], covers ? all[1] : Tensor(), {all.begin() + (covers ? 2 : 1), all.end()}};
  }
};

RecurrentEncoderDecoder::Carried RecurrentEncoderDecoder::start(const Tensor& source,
                                                                const Tensor& summary) const {
  const auto nothing = [&](int64_t size) {
    return zeros({source.size(0), 1, size}, source.dtype(), source.device());
  };
  return {nothing(options_.width),
          options_.coverage ? cast(nothing(source.size(1)), accumulation_dtype(source.dtype())) : Tensor(),
          {tanh(bridge.forward(summary))}};
}

/// One step, or several that need nothing of each other but the state.
struct RecurrentEncoderDecoder::Step {
  Decoded decoded;
  std::vector<Tensor> states = {};  ///< at each position: h, and c of an LSTM, [B, T, C] each

  std::vector<Tensor> tensors() const {
    std::vector<Tensor> all = {decoded.inputs, decoded.read, decoded.context, decoded.weights,
                               decoded.visible};
    all.insert(all.end(), states.begin(), states.end());
    return all;
  }
  static Step of(const std::vector<Tensor>& all, const Tensor& coverage) {
    const std::vector<Tensor> states(all.begin() + 5, all.end());
    return {{all[0], states[0], all[1], all[2], all[3], all[4], coverage}, states};
  }
};

RecurrentEncoderDecoder::Step RecurrentEncoderDecoder::step(const Tensor& x, const Tensor& source,
                                                            const Tensor& visible, int64_t position,
                                                            const Carried& carried) const {
  Step made{.decoded = {.inputs = x, .coverage = carried.coverage}};
  Decoded& part = made.decoded;
  const auto attend = [&](const Tensor& h) {
    const auto found = attention.attend(h, source, visible, position, carried.coverage);
    part.context = found.context, part.weights = found.weights, part.visible = found.visible;
  };
  if (options_.feeding == Feeding::context) attend(unsqueeze(carried.states[0], 1));
  if (options_.feeding != Feeding::none)
    part.inputs = concat({x, options_.feeding == Feeding::context ? part.context : carried.read}, -1);
  made.states = decoder->states(part.inputs, carried.states);
  part.h = made.states[0];
  if (options_.feeding != Feeding::context) attend(part.h);
  part.read = attention.combine(part.context, part.h);
  return made;
}

RecurrentEncoderDecoder::Decoded RecurrentEncoderDecoder::decode(const Tensor& ids,
                                                                 const StackCall& call) const {
  FixedState* const state = FixedState::of(call.state, kind());
  check_decoding(ids, call, options_.context);
  const int64_t time = ids.size(1), past = state ? state->length() : 0;
  const ModuleScope scope("decoder");
  const Tensor summary = summary_of(call.source, call.source_lengths);
  const bool attends = options_.score != SourceScore::none;
  // Without attention the decoder sees one state, the summary.
  const Tensor source = attends ? call.source : unsqueeze(summary, 1);
  const Tensor visible = attends ? visible_places(call.source, call.source_lengths) : Tensor();
  const Tensor x = dropout.forward(tokens.forward(ids));
  Carried carried = past > 0 ? Carried::of(state->states, options_.coverage) : start(call.source, summary);

  // Positions that need nothing of the one before them but its state are computed together.
  const int64_t chunk = options_.feeding == Feeding::none && !options_.coverage ? time : 1;
  std::vector<Decoded> parts;
  for (int64_t t = 0; t < time; t += chunk) {
    const auto run = [=, this, own = slice(x, 1, t, t + chunk)] {
      return step(own, source, visible, past + t, carried).tensors();
    };
    const Step made =
        Step::of(options_.recompute_steps ? recompute_all(*this, run) : run(), carried.coverage);
    const Decoded& part = made.decoded;
    carried.states.clear();
    for (const Tensor& s : made.states) carried.states.push_back(select(s, 1, -1));
    carried.read = slice(part.read, 1, chunk - 1, chunk);
    if (options_.coverage) carried.coverage = carried.coverage + part.weights;
    parts.push_back(part);
  }
  if (state) state->advance(time, carried.tensors());
  const auto joined = [&](Tensor Decoded::*member) {
    std::vector<Tensor> all;
    for (const Decoded& part : parts)
      if ((part.*member).defined()) all.push_back(part.*member);
    return all.empty() ? Tensor() : all.size() == 1 ? all[0] : concat(all, 1);
  };
  const Tensor weights = joined(&Decoded::weights), seen = joined(&Decoded::visible);
  if (call.traces && attends) {
    MixerTrace& trace = call.traces->emplace_back();
    trace.weights = unsqueeze(weights, 1);
    if (seen.defined()) trace.visible = unsqueeze(seen, 1);
    trace.distribution = options_.view != LuongView::predictive;
  }
  return {.inputs = joined(&Decoded::inputs),
          .h = joined(&Decoded::h),
          .read = joined(&Decoded::read),
          .context = joined(&Decoded::context),
          .weights = weights,
          .visible = seen,
          .coverage = joined(&Decoded::coverage)};
}

Tensor RecurrentEncoderDecoder::features(const Tensor& ids, const StackCall& call) const {
  return zero_padding(dropout.forward(decode(ids, call).read), call.lengths);
}

std::unique_ptr<DecodingState> RecurrentEncoderDecoder::make_state(int64_t) const {
  return std::make_unique<FixedState>(kind());
}

void RecurrentEncoderDecoder::fields(Fields& f) {
  f("source_tokens", source_tokens);
  f("tokens", tokens);
  f("dropout", dropout);
  f("encoder", encoder);
  f("decoder", decoder);
  f("bridge", bridge);
  f("attention", attention);
  f("head", head);
}

RecurrentEncoderDecoder RecurrentEncoderDecoder::clone() {
  return clone_into([this] { return RecurrentEncoderDecoder(options_); });
}

}  // namespace vitrine::nn
