#include "nn/attention/multi_head.h"

#include <utility>

#include "core/creation.h"
#include "core/record.h"
#include "nn/attention/names.h"
#include "nn/init.h"
#include "nn/layers/heads.h"
#include "ops/join.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

int64_t key_heads_of(const MixerOptions& o) { return o.key_heads ? o.key_heads : o.heads; }

/// The channels of queries, keys and values together, of options that fit together.
int64_t projected_width(const MixerOptions& o) {
  check_heads("MultiHeadAttention", o.width, o.heads, o.key_heads);
  return o.width + 2 * o.width / o.heads * key_heads_of(o);
}

bool alike(const ProjectionBias& b) { return b.query == b.key && b.key == b.value; }

/// The projected keys and values of the source of cross-attention. The first step computes them,
/// and later steps read them.
class SourceState : public DecodingState {
 public:
  int64_t length() const override { return length_; }
  std::unique_ptr<DecodingState> clone() const override {
    const Tape::Pause pause;
    auto copy = std::make_unique<SourceState>(*this);
    if (k.defined()) copy->k = vitrine::clone(k), copy->v = vitrine::clone(v);
    return copy;
  }
  std::vector<Tensor*> tensors() override { return {&k, &v}; }
  void advance(int64_t positions) { length_ += positions; }

  Tensor k, v;

 private:
  int64_t length_ = 0;
};

}  // namespace

MultiHeadAttention::MultiHeadAttention(const MixerOptions& o)
    : MultiHeadAttention(o, [](const MixerOptions& options) {
        return make_attention(options.name, {options.heads, options.width / options.heads, options.context});
      }) {}

MultiHeadAttention::MultiHeadAttention(const MixerOptions& o, MakeAttention make)
    : query_key_value(o.width, projected_width(o), alike(o.bias) ? o.bias.query : Bias::no),
      out(o.width, o.width, o.bias.out, o.out_deviation),
      attention(make(o)),
      options_(o),
      make_(std::move(make)),
      heads_(o.heads),
      key_heads_(key_heads_of(o)),
      head_size_(o.width / o.heads) {
  if (alike(o.bias)) return;
  const int64_t keys = key_heads_ * head_size_;
  query_key_value.bias =
      constant({(o.bias.query == Bias::yes ? o.width : 0) + (o.bias.key == Bias::yes ? keys : 0) +
                (o.bias.value == Bias::yes ? keys : 0)},
               0);
}

/// One number per row of the weight; 0 for a projection without bias.
Tensor MultiHeadAttention::bias() const {
  const Parameter& own = query_key_value.bias;
  if (!own.defined()) return {};
  if (alike(options_.bias)) return own;
  const int64_t keys = key_heads_ * head_size_;
  std::vector<Tensor> rows;
  int64_t at = 0;
  for (const auto& [bias, size] : {std::pair{options_.bias.query, options_.width},
                                   {options_.bias.key, keys},
                                   {options_.bias.value, keys}}) {
    const bool has = bias == Bias::yes;
    rows.push_back(has ? slice(own, 0, at, at + size)
                       : zeros({size}, own.value().dtype(), own.value().device()));
    if (has) at += size;
  }
  return concat(rows, 0);
}

MultiHeadAttention::Heads MultiHeadAttention::project(const Tensor& x) const {
  const int64_t width = heads_ * head_size_, key_width = key_heads_ * head_size_;
  const auto qkv = split(query_key_value.product(x, bias()), {width, key_width, key_width}, -1);
  return {split_heads(qkv[0], heads_), split_heads(qkv[1], key_heads_), split_heads(qkv[2], key_heads_)};
}

MultiHeadAttention::Heads MultiHeadAttention::project(const Tensor& x, const Tensor& source) const {
  const int64_t width = heads_ * head_size_, key_width = key_heads_ * head_size_;
  // The rows of the shared weight for the queries, or for keys and values.
  const auto rows = [&](const Tensor& from, int64_t begin, int64_t end) {
    const Tensor all = bias();
    return query_key_value.product(from, all.defined() ? slice(all, 0, begin, end) : Tensor(), begin, end);
  };
  Heads heads;
  heads.q = split_heads(rows(x, 0, width), heads_);
  if (!source.defined()) return heads;
  const auto kv = split(rows(source, width, width + 2 * key_width), key_width, -1);
  heads.k = split_heads(kv[0], key_heads_), heads.v = split_heads(kv[1], key_heads_);
  return heads;
}

Tensor MultiHeadAttention::forward(const Tensor& x, const MixerCall& call) const {
  const Tensor& source = call.source;
  check(x.rank() == 3, "MultiHeadAttention: x is {}, wanted [B, T, {}]", x.shape(), heads_ * head_size_);
  check(!source.defined() || source.rank() == 3, "MultiHeadAttention: source is {}, wanted [B, S, {}]",
        source.defined() ? source.shape() : Shape(), heads_ * head_size_);
  const ModuleScope scope("attention");
  auto* const kept = dynamic_cast<SourceState*>(call.state);
  Heads h;
  if (kept) {
    const AttentionMask& mask = call.mask;
    check(
        !mask.causal && mask.left == AttentionForm::kUnlimited && mask.right == AttentionForm::kUnlimited,
        "MultiHeadAttention: decoding with a source knows no position of a query in the source, so that the mask "
        "cannot be causal or a window");
    h = project(x, kept->k.defined() ? Tensor() : source);
    if (kept->k.defined()) h.k = kept->k, h.v = kept->v;
    check(h.k.defined(), "MultiHeadAttention: the first step of decoding with a source has none");
    kept->k = h.k, kept->v = h.v;
    kept->advance(x.size(1));
  } else {
    check(!source.defined() || call.state == nullptr,
          "MultiHeadAttention: decoding with a source needs the state of make_source_state");
    h = source.defined() ? project(x, source) : project(x);
  }
  if (on_projected) on_projected(h.q, h.k, h.v);
  const int64_t past = call.state && !kept ? call.state->length() : 0;
  const AttentionMask mask = with_lengths(call.mask, call.lengths, x.size(0), past + h.k.size(2));
  const Tensor y = attention->forward(h.q, h.k, h.v, mask, kept ? nullptr : call.state, call.trace);
  return out.forward(join_heads(y));
}

std::unique_ptr<DecodingState> MultiHeadAttention::make_state(int64_t batch, int64_t capacity) const {
  return attention->make_state(batch, capacity);
}

std::unique_ptr<DecodingState> MultiHeadAttention::make_source_state() const {
  check(
      !attention->needs_positions(),
      "MultiHeadAttention: decoding with a source knows no position of a query in the source, which {} needs",
      options_.name);
  return std::make_unique<SourceState>();
}

std::string MultiHeadAttention::explain(const MixerCall& call) const {
  return attention->explain(call.trace != nullptr, call.mask);
}

MultiHeadAttention MultiHeadAttention::clone() {
  return clone_into([this] { return MultiHeadAttention(options_, make_); });
}

void MultiHeadAttention::fields(Fields& f) {
  f("query_key_value", query_key_value);
  f("attention", *attention);
  f("out", out);
}

}  // namespace vitrine::nn
