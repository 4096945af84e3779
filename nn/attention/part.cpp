#include "nn/attention/part.h"

#include "ops/join.h"
#include "ops/view.h"

namespace vitrine::nn {

Tensor AttentionPart::prepare_queries(const Tensor& q, const RowPositions&) const { return q; }
Tensor AttentionPart::prepare_keys(const Tensor& k, const RowPositions&) const { return k; }
Tensor AttentionPart::prepare_values(const Tensor& v, const RowPositions&) const { return v; }

void AttentionPart::Memory::put_before(const Tensor& q, Tensor& keys, Tensor& values,
                                       AttentionMask& mask) const {
  if (!k.defined()) return;
  mask = mask.after_memory(k.size(1), q.size(2), keys.size(2), q.device());
  const auto add = [heads = q.size(1)](const Tensor& own, Tensor& x) {
    check(own.rank() == 3 && own.size(0) == heads && own.size(2) == x.size(3),
          "attention: the keys or values of a memory are {}, wanted [{}, M, {}]", own.shape(), heads,
          x.size(3));
    const Shape rows = {x.size(0), heads, own.size(1), own.size(2)};
    x = concat({expand(cast(own, x.dtype()), rows), define::repeat_key_heads(x, heads)}, 2);
  };
  add(k, keys), add(v, values);
}

bool shares_positions(const AttentionPartRow& row, const AttentionPart& part) {
  return part.traits().positions || part.traits().distances || row.stage == Stage::mask;
}

}  // namespace vitrine::nn
