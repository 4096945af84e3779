#include "ops/index_check.h"

#include "core/creation.h"

namespace vitrine {

Tensor checked_index(const Tensor& index, const IndexRule& rule) {
  check(is_integer(index.dtype()), "{}: {} is {}, wanted int64, int32 or uint8", rule.op, rule.argument,
        describe(index));
  // If [0, limit) is empty, a GPU has no valid element to read until the error is reported.
  check(index.device().is_cpu() || rule.limit > 0 || rule.except || index.numel() == 0,
        "{}: {} has {} indices, but there are none in [0, 0)", rule.op, rule.argument, index.numel());
  Tensor y = empty(index.shape(), DType::int64, index.device());
  VITRINE_RUN(check_index, y, index, rule);
  return y;
}

void cpu::check_index(Tensor& y, const Tensor& index, const IndexRule& rule) {
  copy(y, index);
  int64_t* const data = y.data<int64_t>();
  const int64_t low = rule.negative ? -rule.limit : 0;
  for (int64_t i = 0; i < y.numel(); ++i) {
    if (rule.except && data[i] == *rule.except) continue;
    check(data[i] >= low && data[i] < rule.limit, "{}: {} has {} at position {}, outside [{}, {})", rule.op,
          rule.argument, data[i], i, low, rule.limit);
    if (data[i] < 0) data[i] += rule.limit;
  }
}

}  // namespace vitrine
