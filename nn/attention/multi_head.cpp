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

std::pair<Tensor, Tensor> KeyValueCache::append(const Tensor& k, const Tensor& v) {
  check(Tape::recording() == nullptr,
        "KeyValueCache: what it holds has no gradient; decode under Tape::Pause");
  const auto continues = [](const Tensor& all, const Tensor& x) {
    return !all.defined() || (x.size(0) == all.size(0) && x.size(1) == all.size(1) &&
                              x.size(3) == all.size(3) && x.dtype() == all.dtype());
  };
  check(k.rank() == 4 && v.rank() == 4 && k.size(2) == v.size(2),
        "KeyValueCache: k is {} and v {}, wanted [B, Hkv, T, D] for the same positions", describe(k),
        describe(v));
  check(continues(k_, k) && continues(v_, v),
        "KeyValueCache: k is {} and v {}, which do not continue {} and {}", describe(k), describe(v),
        describe(k_), describe(v_));
  const int64_t end = size_ + k.size(2);
  check(capacity_ == 0 || end <= capacity_, "KeyValueCache: {} positions are wanted, there is room for {}",
        end, capacity_);
  const auto add = [&](Tensor& all, const Tensor& x) {
    if (!all.defined() || all.size(2) < end) {  // a cache without capacity doubles
      const Tensor larger = empty({x.size(0), x.size(1), std::max({capacity_, end, 2 * size_}), x.size(3)},
                                  x.dtype(), x.device());
      if (size_ > 0) {
        Tensor old = slice(larger, 2, 0, size_);
        VITRINE_RUN(copy, old, slice(all, 2, 0, size_));
      }
      all = larger;
    }
    Tensor fresh = slice(all, 2, size_, end);
    VITRINE_RUN(copy, fresh, x);
    return slice(all, 2, 0, end);
  };
  const Tape::Pause pause;
  std::pair<Tensor, Tensor> result{add(k_, k), add(v_, v)};
  size_ = end;
  return result;
}

MultiHeadAttention::MultiHeadAttention(const MultiHeadOptions& o)
    : query_key_value(checked(o).width, o.width + 2 * o.width / o.heads * key_heads_of(o), o.bias),
      out(o.width, o.width, o.bias, o.out_deviation),
      attention(parse_attention(o.attention), o.heads, o.width / o.heads, o.context),
      options_(o),
      heads_(o.heads),
      key_heads_(key_heads_of(o)),
      head_size_(o.width / o.heads) {}

Tensor MultiHeadAttention::merge(const Tensor& y) const {
  return out.forward(reshape(permute(y, {0, 2, 1, 3}), {y.size(0), y.size(2), heads_ * head_size_}));
}

Tensor MultiHeadAttention::forward(const Tensor& x, const AttentionMask& mask, KeyValueCache* cache,
                                   AttentionTrace* trace) const {
  check(x.rank() == 3, "MultiHeadAttention: x is {}, wanted [B, T, {}]", x.shape(), heads_ * head_size_);
  const ModuleScope scope("attention");
  const auto qkv = split(query_key_value.forward(x),
                         {heads_ * head_size_, key_heads_ * head_size_, key_heads_ * head_size_}, -1);
  if (cache) attention.check_cacheable();
  const int64_t past = cache ? cache->size() : 0;
  const Tensor q = split_heads(qkv[0], heads_);
  Tensor k = split_heads(qkv[1], key_heads_), v = split_heads(qkv[2], key_heads_);
  if (on_projected) on_projected(q, k, v);
  k = attention.prepare_keys(k, past), v = attention.prepare_values(v, past);
  if (cache) std::tie(k, v) = cache->append(k, v);
  return merge(attention.forward(q, k, v, mask, past, trace));
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
  const Tensor q = split_heads(project(x, 0, width), heads_);
  const Tensor k = split_heads(kv[0], key_heads_), v = split_heads(kv[1], key_heads_);
  if (on_projected) on_projected(q, k, v);
  const int64_t first_query = source.size(1) - x.size(1);  // as masks and ALiBi place queries
  return merge(attention.forward(q, attention.prepare_keys(k, 0), attention.prepare_values(v, 0), mask,
                                 first_query, trace));
}

MultiHeadAttention MultiHeadAttention::clone() {
  return clone_into([this] { return MultiHeadAttention(options_); });
}

void MultiHeadAttention::fields(Fields& f) {
  f("query_key_value", query_key_value);
  f("attention", attention);
  f("out", out);
}

}  // namespace vitrine::nn
