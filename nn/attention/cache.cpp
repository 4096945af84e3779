#include "nn/attention/cache.h"

#include <algorithm>

#include "core/creation.h"
#include "core/tape.h"
#include "core/tensor_kernels.h"
#include "ops/view.h"

namespace vitrine::nn {

std::unique_ptr<DecodingState> KeyValueCache::clone() const {
  const Tape::Pause pause;
  auto copy = std::make_unique<KeyValueCache>(*this);
  if (k_.defined()) copy->k_ = vitrine::clone(k_), copy->v_ = vitrine::clone(v_);
  return copy;
}

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
  const int64_t end = length_ + k.size(2);
  check(capacity_ == 0 || end <= capacity_, "KeyValueCache: {} positions are wanted, there is room for {}",
        end, capacity_);
  const auto add = [&](Tensor& all, const Tensor& x) {
    if (!all.defined() || all.size(2) < end) {  // without a capacity, the memory doubles
      const Tensor larger = empty({x.size(0), x.size(1), std::max({capacity_, end, 2 * length_}), x.size(3)},
                                  x.dtype(), x.device());
      if (length_ > 0) {
        Tensor old = slice(larger, 2, 0, length_);
        VITRINE_RUN(copy, old, slice(all, 2, 0, length_));
      }
      all = larger;
    }
    Tensor fresh = slice(all, 2, length_, end);
    VITRINE_RUN(copy, fresh, x);
    return slice(all, 2, 0, end);
  };
  const Tape::Pause pause;
  std::pair<Tensor, Tensor> result{add(k_, k), add(v_, v)};
  length_ = end;
  return result;
}

}  // namespace vitrine::nn
