#include "ops/index_check.h"

#include "core/creation.h"
#include "core/kernels.h"

namespace vitrine {

Tensor checked_index(const Tensor& index, const IndexRule& rule) {
  check(is_integer(index.dtype()), "{}: {} is {}, wanted int64 or int32", rule.op, rule.argument,
        describe(index));
  // The check needs the numbers, so an index that lies on a GPU is copied from there.
  Tensor y = copy_as(index.device().is_cpu() ? index : copy_to(index, Device::cpu), DType::int64);
  int64_t* const data = y.data<int64_t>();
  for (int64_t i = 0; i < y.numel(); ++i) {
    if (rule.except && data[i] == *rule.except) continue;
    check(data[i] >= (rule.negative ? -rule.limit : 0) && data[i] < rule.limit,
          "{}: {} has {} at position {}, outside [{}, {})", rule.op, rule.argument, data[i], i,
          rule.negative ? -rule.limit : 0, rule.limit);
    if (data[i] < 0) data[i] += rule.limit;
  }
  return index.device().is_cpu() ? y : copy_to(y, index.device());
}

}  // namespace vitrine
