#include "nn/attention/multi_head.h"

#include "core/creation.h"
#include "core/record.h"
#include "core/tensor_kernels.h"
#include "ops/matmul.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// [B, T, H·D] → [B, H, T, D].
Tensor split_heads(const Tensor& x, int64_t heads) {
  return permute(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}

const MultiHeadOptions& checked(const MultiHeadOptions& o) {
  check(o.width > 0 && o.heads > 0 && o.width % o.heads == 0,
        "MultiHeadAttention: the width {} is no multiple of the {} heads", o.width, o.heads);
  check(o.key_heads >= 0 && (o.key_heads == 0 || o.heads % o.key_heads == 0),
        "MultiHeadAttention: {} query heads cannot share {} key heads evenly", o.heads, o.key_heads);
  return o;
}

int64_t key_heads_of(const MultiHeadOptions& o) { return o.key_heads ? o.key_heads : o.heads; }

}  // namespace

MultiHeadAttention::MultiHeadAttention(const MultiHeadOptions& o)
    : query_key_value(checked(o).width, o.width + 2 * o.width / o.heads * key_heads_of(o), o.bias),
      out(o.width, o.width, o.bias, o.out_deviation),
      attention(make_attention(o.attention, {o.heads, o.width / o.heads, o.context})),
      options_(o),
      heads_(o.heads),
      key_heads_(key_heads_of(o)),
      head_size_(o.width / o.heads) {}

Tensor MultiHeadAttention::attend(const std::vector<Tensor>& qkv, const AttentionMask& mask,
                                  KeyValueCache* cache, AttentionTrace* trace) const {
  const Tensor q = split_heads(qkv[0], heads_), k = split_heads(qkv[1], key_heads_),
               v = split_heads(qkv[2], key_heads_);
  if (on_projected) on_projected(q, k, v);
  const Tensor y = attention->forward(q, k, v, mask, cache, trace);
  return out.forward(reshape(permute(y, {0, 2, 1, 3}), {y.size(0), y.size(2), heads_ * head_size_}));
}

Tensor MultiHeadAttention::forward(const Tensor& x, const AttentionMask& mask, KeyValueCache* cache,
                                   AttentionTrace* trace) const {
  check(x.rank() == 3, "MultiHeadAttention: x is {}, wanted [B, T, {}]", x.shape(), heads_ * head_size_);
  const ModuleScope scope("attention");
  const int64_t width = heads_ * head_size_, key_width = key_heads_ * head_size_;
  return attend(split(query_key_value.forward(x), {width, key_width, key_width}, -1), mask, cache, trace);
}

Tensor MultiHeadAttention::cross(const Tensor& x, const Tensor& source, const AttentionMask& mask,
                                 AttentionTrace* trace) const {
  check(x.rank() == 3 && source.rank() == 3,
        "MultiHeadAttention: x is {} and source {}, wanted [B, T, {}] each", x.shape(), source.shape(),
        heads_ * head_size_);
  const ModuleScope scope("attention");
  const int64_t width = heads_ * head_size_, key_width = key_heads_ * head_size_;
  // The rows of the one weight that make queries, or keys and values.
  const auto project = [&](const Tensor& from, int64_t begin, int64_t end) {
    const Parameter& bias = query_key_value.bias;
    return linear(from, slice(query_key_value.weight, 0, begin, end),
                  bias.defined() ? slice(bias, 0, begin, end) : Tensor());
  };
  const auto kv = split(project(source, width, width + 2 * key_width), key_width, -1);
  return attend({project(x, 0, width), kv[0], kv[1]}, mask, nullptr, trace);
}

MultiHeadAttention MultiHeadAttention::clone() {
  return clone_into([this] { return MultiHeadAttention(options_); });
}

void MultiHeadAttention::fields(Fields& f) {
  f("query_key_value", query_key_value);
  f("attention", *attention);
  f("out", out);
}

}  // namespace vitrine::nn
