#include "nn/data/windows.h"

#include <utility>

#include "core/creation.h"
#include "core/random.h"

namespace vitrine::nn {

WindowLoader::WindowLoader(Tokens tokens, int64_t batch, int64_t time, uint64_t seed)
    : tokens_(std::move(tokens)), batch_(batch), time_(time), seed_(seed) {
  check(batch > 0 && time > 0, "WindowLoader: wanted a batch and a length above 0, got {} and {}", batch,
        time);
  check(tokens_.size() > time, "WindowLoader: {} tokens do not hold one window of {} and what follows it",
        tokens_.size(), time);
}

Batch WindowLoader::at(const std::vector<int64_t>& starts, int64_t time) const {
  const auto rows = static_cast<int64_t>(starts.size());
  Tensor ids = empty({rows, time}, DType::int64), targets = empty({rows, time}, DType::int64);
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t t = 0; t < time; ++t) {
      const int64_t from = starts[static_cast<size_t>(b)] + t;
      ids.data<int64_t>()[b * time + t] = tokens_[from];
      targets.data<int64_t>()[b * time + t] = tokens_[from + 1];
    }
  return {{ids, targets}, rows * time};
}

Batch WindowLoader::batch(int64_t index) const {
  Generator generator(seed_);
  // Far apart, so that batches never use the same random numbers
  generator.set(seed_, static_cast<uint64_t>(index) << 32);
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < batch_; ++i) starts.push_back(generator.next_below(tokens_.size() - time_));
  return at(starts, time_);
}

std::vector<Batch> WindowLoader::whole() const {
  std::vector<Batch> result;
  std::vector<int64_t> starts;
  const int64_t predicted = tokens_.size() - 1, last = predicted - time_;
  for (int64_t start = 0; start <= last; start += time_) {
    starts.push_back(start);
    if (static_cast<int64_t>(starts.size()) == batch_ || start + time_ > last)
      result.push_back(at(std::exchange(starts, {}), time_));
  }
  if (const int64_t rest = predicted % time_; rest > 0) result.push_back(at({predicted - rest}, rest));
  return result;
}

std::string WindowLoader::fingerprint() const {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, one token per step
  for (const int64_t token : tokens_) hash = (hash ^ static_cast<uint64_t>(token)) * 0x100000001b3;
  return fmt::format("{} tokens of hash {:016x}", tokens_.size(), hash);
}

}  // namespace vitrine::nn
