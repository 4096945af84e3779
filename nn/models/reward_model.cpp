#include "nn/models/reward_model.h"

#include "core/creation.h"
#include "core/record.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/view.h"

namespace vitrine::nn {

RewardModel::RewardModel(const GptOptions& options) : body(options), head(options.width, 1, Bias::no, 0) {
  named_parameters();  // sets the parameters' names, for messages and drawings
}

Tensor RewardModel::forward(const Tensor& ids, const Tensor& lengths) const {
  check(ids.rank() == 2, "RewardModel: the ids are {}, wanted [B, T]", ids.shape());
  const int64_t batch = ids.size(0), time = ids.size(1);
  if (lengths.defined()) {
    check(lengths.shape() == Shape{batch} && lengths.dtype() == DType::int64,
          "RewardModel: the lengths are {}, wanted int64 [{}]", describe(lengths), batch);
    if (lengths.device().is_cpu())
      for (const double length : lengths.values())
        check(length >= 1 && length <= static_cast<double>(time),
              "RewardModel: a length is {}, wanted 1 to {}", length, time);
  }
  const Tensor features = body.features(ids, {.lengths = lengths});
  Tensor last;
  if (lengths.defined()) {
    const Tensor row =
        arange(0, static_cast<double>(batch * time), static_cast<double>(time), DType::int64, ids.device());
    last = index_select(reshape(features, {batch * time, -1}), 0, row + lengths - 1.0);
  } else {
    last = select(features, 1, time - 1);
  }
  const ModuleScope scope("reward");
  return squeeze(head.forward(last), {1});
}

void RewardModel::fields(Fields& f) {
  f("body", body);
  f("head", head);
}

RewardModel RewardModel::clone() {
  return clone_into([this] { return RewardModel(body.options()); });
}

}  // namespace vitrine::nn
