#include "nn/attention/memory_tokens.h"

#include "core/creation.h"
#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/view.h"

namespace vitrine::nn {

MemoryTokens::MemoryTokens(int64_t count, int64_t width) {
  check(count > 0 && width > 0, "MemoryTokens: {} tokens of {} channels, wanted numbers above 0", count,
        width);
  tokens = normal({count, width}, 0.02);
}

MemoryTokens::MemoryTokens(const Tensor& rows) : tokens(copy_as(rows, accumulation_dtype(rows.dtype()))) {
  check(rows.rank() == 2 && rows.size(0) > 0, "MemoryTokens: the rows are {}, wanted [M, C]", rows.shape());
}

Tensor MemoryTokens::before(const Tensor& x) const {
  const int64_t width = tokens.shape()[1];
  check(x.rank() == 3 && x.size(2) == width, "MemoryTokens: x is {}, wanted [B, T, {}]", x.shape(), width);
  return concat({expand(tokens, {x.size(0), tokens.shape()[0], width}), x}, 1);
}

AttentionMask MemoryTokens::before(const AttentionMask& mask, int64_t time) const {
  AttentionMask longer = mask;
  const int64_t count = tokens.shape()[0];
  for (Tensor* x : {&longer.allowed, &longer.bias}) {
    if (!x->defined()) continue;
    check(x->rank() >= 2 && x->size(-1) == time && (x->size(-2) == time || x->size(-2) == 1),
          "MemoryTokens: a mask or bias is {}, wanted [.., {} or 1, {}]", x->shape(), time, time);
    std::vector<int64_t> first(static_cast<size_t>(x->rank()), 0), none = first;
    first.back() = count;
    if (x->size(-2) == time) first[first.size() - 2] = count;
    *x = pad(*x, first, none, PadMode::constant, x->dtype() == DType::boolean ? 1 : 0);
  }
  if (mask.first > 0) longer.first += count;
  return longer;
}

Tensor MemoryTokens::lengths(const Tensor& lengths) const {
  return lengths + static_cast<double>(tokens.shape()[0]);
}

Tensor MemoryTokens::rest(const Tensor& y) const { return slice(y, 1, tokens.shape()[0]); }

MemoryTokens MemoryTokens::clone() {
  return clone_into([this] { return MemoryTokens(tokens.shape()[0], tokens.shape()[1]); });
}

}  // namespace vitrine::nn
