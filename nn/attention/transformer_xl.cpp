#include "nn/attention/transformer_xl.h"

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "core/record.h"
#include "core/tape.h"
#include "nn/attention/positions.h"
#include "nn/init.h"
#include "nn/layers/heads.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// x [B, H, Tq, Tk + Tq − 1], where column c is the distance Tk − 1 − c, → [B, H, Tq, Tk] with the
/// distance of each pair: row i is shifted to the left by Tq − 1 − i. A column of zeros before the
/// rows makes this shift a reshape, because each row then begins one element later.
Tensor by_pair(const Tensor& x, int64_t keys) {
  const int64_t batch = x.size(0), heads = x.size(1), queries = x.size(2), columns = x.size(3);
  const Tensor padded = reshape(pad(x, {0, 0, 0, 1}, {0, 0, 0, 0}), {batch, heads, columns + 1, queries});
  return slice(reshape(slice(padded, 2, 1), {batch, heads, queries, columns}), 3, 0, keys);
}

/// The inputs of the last positions.
class SegmentState : public DecodingState {
 public:
  int64_t length() const override { return length_; }
  std::unique_ptr<DecodingState> clone() const override {
    const Tape::Pause pause;
    auto copy = std::make_unique<SegmentState>(*this);
    if (hidden.defined()) copy->hidden = vitrine::clone(hidden);
    return copy;
  }
  std::vector<Tensor*> tensors() override { return {&hidden}; }
  void advance(int64_t positions) { length_ += positions; }

  Tensor hidden;  ///< [B, positions, C]; undefined before the first

 private:
  int64_t length_ = 0;
};

/// The mask for the last `kept` of `keys` keys.
AttentionMask of_last(AttentionMask mask, int64_t keys, int64_t kept) {
  for (Tensor* x : {&mask.allowed, &mask.bias})
    if (x->defined() && x->size(-1) == keys) *x = slice(*x, -1, keys - kept);
  return mask;
}

const MixerOptions& with_even_heads(const MixerOptions& o) {
  check(o.width > 0 && o.heads > 0 && o.width % (2 * o.heads) == 0 && o.key_heads >= 0 &&
            (o.key_heads == 0 || o.heads % o.key_heads == 0),
        "transformer_xl: a width of {} for {} heads and {} key heads, wanted an even number of channels per "
        "head, and heads that share keys evenly",
        o.width, o.heads, o.key_heads);
  return o;
}

}  // namespace

Tensor relative_attention(const Tensor& q0, const Tensor& k0, const Tensor& v0, const Tensor& r,
                          const Tensor& u, const Tensor& w, const AttentionMask& mask, MixerTrace* trace) {
  vitrine::detail::check_attention(q0, k0, v0, {});
  const int64_t heads = q0.size(1), queries = q0.size(2), keys = k0.size(2), size = q0.size(3);
  check(r.shape() == Shape{heads, keys + queries - 1, size} && u.shape() == Shape{heads, size} &&
            w.shape() == u.shape(),
        "relative_attention: r is {}, u {} and w {}, wanted [{}, {}, {}] and twice [{}, {}]", r.shape(),
        u.shape(), w.shape(), heads, keys + queries - 1, size, heads, size);
  const DType type = accumulation_dtype(q0.dtype());
  const Tensor q = cast(q0, type), k = define::repeat_key_heads(cast(k0, type), heads),
               v = define::repeat_key_heads(cast(v0, type), heads);
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  const auto with_bias = [&](const Tensor& bias) { return (q + unsqueeze(cast(bias, type), 1)) * scale; };
  Tensor scores =
      matmul(with_bias(u), transpose(k)) + by_pair(matmul(with_bias(w), transpose(cast(r, type))), keys);
  if (mask.bias.defined()) scores = scores + cast(mask.bias, type);
  const Tensor visible = mask.visible(queries, keys, q.device());
  const Tensor weights = softmax(visible.defined() ? where(visible, scores, -INFINITY) : scores);
  if (trace) {
    *trace = {};
    trace->q = q0, trace->k = k0, trace->v = v0;
    trace->weights = weights, trace->scale = scale, trace->visible = visible;
  }
  return cast(matmul(weights, v), q0.dtype());
}

TransformerXl::TransformerXl(const MixerOptions& o, int64_t memory)
    : query(with_even_heads(o).width, o.width, o.bias.query),
      key_value(o.width, 2 * o.width / o.heads * (o.key_heads ? o.key_heads : o.heads), o.bias.key),
      relative(o.width, o.width, Bias::no),
      out(o.width, o.width, o.bias.out, o.out_deviation),
      content_bias(constant({o.heads, o.width / o.heads}, 0)),
      position_bias(constant({o.heads, o.width / o.heads}, 0)),
      options_(o),
      memory_(memory ? memory : o.context) {
  check(memory_ > 0, "transformer_xl: a memory of {} positions, wanted at least 1", memory_);
}

Tensor TransformerXl::forward(const Tensor& x, const MixerCall& call) const {
  const int64_t width = options_.width, heads = options_.heads, queries = x.size(1);
  check(x.rank() == 3 && x.size(2) == width, "transformer_xl: x is {}, wanted [B, T, {}]", x.shape(), width);
  check(!call.source.defined(), "transformer_xl: distances have no meaning between x and a source");
  if (queries == 0) return x;
  const ModuleScope scope(kind());
  auto* const state = dynamic_cast<SegmentState*>(call.state);
  check(call.state == nullptr || state != nullptr,
        "transformer_xl: the state is not one of Transformer-XL; wanted what make_state gave");
  const int64_t past = state ? state->length() : 0;
  const Tensor seen = state && state->hidden.defined() ? concat({state->hidden, x}, 1) : x;
  const int64_t keys = seen.size(1);
  const auto kv = split(key_value.forward(seen), key_value.weight.shape()[0] / 2, -1);
  const int64_t key_heads = kv[0].size(2) * heads / width;
  const Tensor distances =
      flip(sinusoidal_positions(keys + queries - 1, width, 10000, 1 - queries, x.dtype(), x.device()), {0});
  const Tensor r = select(split_heads(unsqueeze(relative.forward(distances), 0), heads), 0, 0);
  const AttentionMask mask =
      of_last(with_lengths(call.mask, call.lengths, x.size(0), past + queries), past + queries, keys);
  const Tensor y =
      relative_attention(split_heads(query.forward(x), heads), split_heads(kv[0], key_heads),
                         split_heads(kv[1], key_heads), r, content_bias, position_bias, mask, call.trace);
  if (state) {
    const Tape::Pause pause;
    state->hidden = vitrine::clone(slice(seen, 1, std::max<int64_t>(keys - memory_, 0)));
    state->advance(queries);
  }
  return out.forward(join_heads(y));
}

std::unique_ptr<DecodingState> TransformerXl::make_state(int64_t, int64_t) const {
  return std::make_unique<SegmentState>();
}

std::string TransformerXl::explain(const MixerCall&) const {
  return fmt::format(
      "transformer_xl: generic: the weights are kept as a tensor [B, H, Tq, Tk]; a state holds the "
      "inputs of the last {} positions",
      memory_);
}

void TransformerXl::fields(Fields& f) {
  f("query", query);
  f("key_value", key_value);
  f("relative", relative);
  f("out", out);
  f("content_bias", content_bias);
  f("position_bias", position_bias);
}

TransformerXl TransformerXl::clone() {
  return clone_into([this] { return TransformerXl(options_, memory_); });
}

}  // namespace vitrine::nn
