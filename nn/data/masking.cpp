#include "nn/data/masking.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/random.h"

namespace vitrine::nn {

TokenMasking::TokenMasking(const Tokenizer& tokenizer, uint64_t seed, MaskingOptions options)
    : options_(std::move(options)), seed_(seed), special_(static_cast<size_t>(tokenizer.size())) {
  const auto& [share, masked, replaced, mask] = options_;
  check(share > 0 && share <= 1, "TokenMasking: share is {}, wanted in (0, 1]", share);
  check(masked >= 0 && replaced >= 0 && masked + replaced <= 1,
        "TokenMasking: masked is {} and replaced {}, wanted at least 0 and a sum of at most 1", masked,
        replaced);
  const auto id = tokenizer.find(mask);
  check(id.has_value(), "TokenMasking: the vocabulary has no token {}", mask);
  mask_ = *id;
  for (const int64_t one : tokenizer.special_tokens()) special_[static_cast<size_t>(one)] = true;
  for (int64_t one = 0; one < tokenizer.size(); ++one)
    if (!special_[static_cast<size_t>(one)]) ordinary_.push_back(one);
  check(!ordinary_.empty(), "TokenMasking: all tokens of the vocabulary are special");
}

Batch TokenMasking::operator()(Batch batch, int64_t index) const {
  check(!batch.tensors.empty() && batch.tensors[0].rank() == 2 && batch.tensors[0].dtype() == DType::int64,
        "TokenMasking: the batch does not begin with int64 ids [B, T]");
  const Shape shape = batch.tensors[0].shape();
  std::vector<int64_t> ids, places, targets;
  for (const double id : batch.tensors[0].values()) {
    check(id >= 0 && id < static_cast<double>(special_.size()),
          "TokenMasking: the batch has the id {}, and the vocabulary {} tokens", id, special_.size());
    ids.push_back(static_cast<int64_t>(id));
  }
  Generator random;
  random.set(seed_, static_cast<uint64_t>(index) << 32);
  for (int64_t begin = 0; begin < std::ssize(ids); begin += shape[1]) {
    std::vector<int64_t> candidates;
    for (int64_t at = begin; at < begin + shape[1]; ++at)
      if (!special_[static_cast<size_t>(ids[static_cast<size_t>(at)])]) candidates.push_back(at);
    const auto all = std::ssize(candidates);
    const auto count =
        std::min(all, std::max<int64_t>(1, std::llround(options_.share * static_cast<double>(all))));
    for (int64_t i = 0; i < count; ++i)  // the beginning of a shuffle
      std::swap(candidates[static_cast<size_t>(i)],
                candidates[static_cast<size_t>(i + random.next_below(all - i))]);
    std::sort(candidates.begin(), candidates.begin() + count);
    for (int64_t i = 0; i < count; ++i) {
      int64_t& id = ids[static_cast<size_t>(places.emplace_back(candidates[static_cast<size_t>(i)]))];
      targets.push_back(id);
      const double u = random.next_uniform();
      if (u < options_.masked)
        id = mask_;
      else if (u < options_.masked + options_.replaced)
        id = ordinary_[static_cast<size_t>(random.next_below(std::ssize(ordinary_)))];
    }
  }
  check(!places.empty(), "TokenMasking: batch {} has only special tokens", index);
  const int64_t chosen = std::ssize(places);
  batch.tensors[0] = index_tensor(ids, shape);
  batch.tensors.push_back(index_tensor(places, {chosen}));
  batch.tensors.push_back(index_tensor(targets, {chosen}));
  batch.tokens = chosen;
  return batch;
}

}  // namespace vitrine::nn
