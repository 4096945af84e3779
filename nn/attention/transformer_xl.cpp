#include "nn/attention/transformer_xl.h"

#include <algorithm>

#include "core/creation.h"
#include "core/record.h"
#include "core/tape.h"
#include "nn/attention/positions.h"
#include "nn/init.h"
#include "nn/layers/heads.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
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

/// The mask for the last `kept` of `keys` keys of `batch` rows. Positions count as before, so a
/// dropped key 0 is at a negative start.
AttentionMask of_last(AttentionMask mask, int64_t keys, int64_t kept, int64_t batch, Device device) {
  const int64_t dropped = keys - kept;
  if (dropped == 0) return mask;
  mask.first = std::max<int64_t>(mask.first - dropped, 0);
  const Tensor start = mask.start.defined() ? mask.start : zeros({batch}, DType::int64, device);
  mask.start = start - static_cast<double>(dropped);
  for (Tensor* x : {&mask.allowed, &mask.bias})
    if (x->defined() && x->size(-1) == keys) *x = slice(*x, -1, keys - kept);
  return mask;
}

const MixerOptions& checked(const MixerOptions& o, const AttentionName& parts) {
  check_stages("transformer_xl", parts, TransformerXl::stages());
  const int64_t pairs = 2 * std::max<int64_t>(1, o.heads);
  check(o.width > 0 && o.heads > 0 && o.width % (2 * o.heads) == 0 && o.key_heads >= 0 &&
            (o.key_heads == 0 || o.heads % o.key_heads == 0),
        "transformer_xl: a width of {} for {} heads and {} key heads, wanted an even number of channels per "
        "head, such as a width of {}, and heads that share keys evenly",
        o.width, o.heads, o.key_heads, std::max(pairs, (o.width + pairs - 1) / pairs * pairs));
  return o;
}

}  // namespace

Tensor relative_attention(const ComposedAttention& read, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& r, const Tensor& u, const Tensor& w, const AttentionMask& given,
                          MixerTrace* trace) {
  vitrine::detail::check_attention(q, k, v, {});
  const int64_t heads = q.size(1), queries = q.size(2), keys = k.size(2), size = q.size(3);
  check(r.shape() == Shape{heads, keys + queries - 1, size} && u.shape() == Shape{heads, size} &&
            w.shape() == u.shape(),
        "relative_attention: r is {}, u {} and w {}, wanted [{}, {}, {}] and twice [{}, {}]", r.shape(),
        u.shape(), w.shape(), heads, keys + queries - 1, size, heads, size);
  check_stages("relative_attention", read.name(), TransformerXl::stages());
  check(read.sizes().head_size == size,
        "relative_attention: `read` is made for heads of {} channels, and q has {}", read.sizes().head_size,
        size);
  const DType type = accumulation_dtype(q.dtype());
  const Tensor by_distance = matmul(cast(q, type) + unsqueeze(cast(w, type), 1), transpose(cast(r, type)));
  const Tensor of_positions = by_pair(by_distance * read.scale(), keys);
  AttentionMask mask = given;
  mask.bias = given.bias.defined() ? of_positions + cast(given.bias, type) : of_positions;
  const Tensor y = read.forward(q + unsqueeze(cast(u, q.dtype()), 1), k, v, mask, nullptr, trace);
  if (trace) trace->q = q;
  return y;
}

const std::vector<Stage>& TransformerXl::stages() {
  static const std::vector<Stage> stages = {Stage::mask, Stage::normalize, Stage::reweight, Stage::read,
                                            Stage::combine};
  return stages;
}

TransformerXl::TransformerXl(const MixerOptions& o, int64_t memory, const AttentionName& parts)
    : query(checked(o, parts).width, o.width, o.bias.query),
      key_value(o.width, 2 * o.width / o.heads * (o.key_heads ? o.key_heads : o.heads), o.bias.key),
      relative(o.width, o.width, Bias::no),
      out(o.width, o.width, o.bias.out, o.out_deviation),
      content_bias(constant({o.heads, o.width / o.heads}, 0)),
      position_bias(constant({o.heads, o.width / o.heads}, 0)),
      read(parts, o.heads, o.width / o.heads, o.context),
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
  const AttentionMask mask = of_last(with_lengths(call.mask, call.lengths, x.size(0), past + queries),
                                     past + queries, keys, x.size(0), x.device());
  const Tensor y =
      relative_attention(read, split_heads(query.forward(x), heads), split_heads(kv[0], key_heads),
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

std::string TransformerXl::explain(const MixerCall& call) const {
  return fmt::format(
      "transformer_xl: a state holds the inputs of the last {} positions; the term of distances "
      "is a bias, kept as a tensor [B, H, Tq, Tk]; {}",
      memory_, read.explain(call.trace != nullptr, call.mask));
}

void TransformerXl::fields(Fields& f) {
  f("query", query);
  f("key_value", key_value);
  f("relative", relative);
  f("out", out);
  f("content_bias", content_bias);
  f("position_bias", position_bias);
  f("read", read);
}

TransformerXl TransformerXl::clone() {
  return clone_into([this] { return TransformerXl(options_, memory_, read.name()); });
}

}  // namespace vitrine::nn
