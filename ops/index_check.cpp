#include "ops/index_check.h"

#include "core/creation.h"
#include "core/kernels.h"

namespace vitrine {

Tensor checked_index(const Tensor& index, const IndexRule& rule) {
  check(is_integer(index.dtype()), "{}: {} is {}, wanted int64 or int32", rule.op, rule.argument,
        describe(index));
  // The check needs the numbers, so an index that lies on a GPU is copied from there.
  Tensor y = index.device().is_cpu() ? copy_as(index, DType::int64) : copy_as(to_cpu(index), DType::int64);
  int64_t* const data = y.data<int64_t>();
  for (int64_t i = 0; i < y.numel(); ++i) {
    if (rule.except && data[i] == *rule.except) continue;
    check(data[i] >= (rule.negative ? -rule.limit : 0) && data[i] < rule.limit,
          "{}: {} has {} at position {}, outside [{}, {})", rule.op, rule.argument, data[i], i,
          rule.negative ? -rule.limit : 0, rule.limit);
    if (data[i] < 0) data[i] += rule.limit;
  }
  if (index.device().is_cpu()) return y;
  Tensor moved = empty(y.shape(), DType::int64, index.device());
  VITRINE_RUN_ON(index.device(), transfer, moved, y);
  return moved;
}

}  // namespace vitrine
