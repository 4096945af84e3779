#include "nn/generate.h"

#include <algorithm>
#include <cmath>

#include "core/tape.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

struct Candidate {
  double weight;  ///< e^((logit − highest)/temperature)
  int64_t token;
};

bool more_likely(const Candidate& x, const Candidate& y) {
  return x.weight != y.weight ? x.weight > y.weight : x.token < y.token;
}

double total(const std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& c : candidates) sum += c.weight;
  return sum;
}

void keep_top_k(std::vector<Candidate>& candidates, int64_t k) {
  if (k <= 0 || k >= static_cast<int64_t>(candidates.size())) return;
  std::nth_element(candidates.begin(), candidates.begin() + k, candidates.end(), more_likely);
  candidates.resize(static_cast<size_t>(k));
}

/// Sorts no more than is kept: of a large vocabulary a few dozen tokens carry most of the probability.
void keep_top_p(std::vector<Candidate>& candidates, double p) {
  if (p >= 1) return;
  const double wanted = p * total(candidates);
  double mass = 0;
  size_t kept = 0;
  for (size_t sorted = 0; kept < candidates.size() && mass < wanted;) {
    const size_t next = std::min(candidates.size(), 4 * sorted + 32);
    std::partial_sort(candidates.begin() + static_cast<int64_t>(sorted),
                      candidates.begin() + static_cast<int64_t>(next), candidates.end(), more_likely);
    sorted = next;
    while (kept < sorted && mass < wanted) mass += candidates[kept++].weight;
  }
  candidates.resize(std::max<size_t>(kept, 1));
}

size_t held(const std::vector<KeyValueCache>& caches) {
  return caches.empty() ? 0 : static_cast<size_t>(caches[0].size());
}

}  // namespace

int64_t sample_token(const Tensor& logits, const SamplingOptions& o, Generator& generator) {
  check(o.temperature >= 0 && std::isfinite(o.temperature) && o.top_k >= 0 && o.top_p > 0 && o.top_p <= 1,
        "generate: wanted a finite temperature ≥ 0, top_k ≥ 0 and top_p in (0, 1], got {}, {} and {}",
        o.temperature, o.top_k, o.top_p);
  check(logits.rank() == 1 && logits.numel() > 0, "generate: the logits are {}, wanted [V]", logits.shape());
  const std::vector<double> x = logits.values();
  size_t best = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    check(!std::isnan(x[i]), "generate: the logit of token {} is NaN", i);
    if (x[i] > x[best]) best = i;
  }
  check(std::isfinite(x[best]), "generate: the highest logit is {}, wanted a finite one", x[best]);
  if (o.temperature == 0) return static_cast<int64_t>(best);
  std::vector<Candidate> candidates(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    candidates[i] = {std::exp((x[i] - x[best]) / o.temperature), static_cast<int64_t>(i)};
  keep_top_k(candidates, o.top_k);
  keep_top_p(candidates, o.top_p);
  double left = generator.next_uniform() * total(candidates);
  for (const Candidate& c : candidates)
    if ((left -= c.weight) < 0) return c.token;
  return static_cast<int64_t>(best);  // rounding left a remainder
}

std::vector<int64_t> generate(Gpt& model, std::vector<int64_t> tokens, int64_t count,
                              const SamplingOptions& options) {
  check(!tokens.empty(), "generate: the prompt is empty");
  check(count >= 0, "generate: {} tokens are wanted", count);
  const Tape::Pause pause;
  const ModeScope evaluation(model, false);
  Generator generator(options.seed);
  std::vector<KeyValueCache> caches;
  const Device device = model.tokens.weight.value().device();
  const auto context = static_cast<size_t>(model.options().context);
  size_t seen = tokens.size() - std::min(tokens.size(), context);  // where what the caches lack begins
  for (int64_t i = 0; i < count; ++i) {
    if (held(caches) + tokens.size() - seen > context) {
      // The positions are used up: start again from the newer half of the context.
      caches.clear();
      seen = tokens.size() - std::max<size_t>(1, context / 2);
    }
    const std::span<const int64_t> fresh(tokens.data() + seen, tokens.size() - seen);
    const auto time = static_cast<int64_t>(fresh.size());
    const Tensor features = model.features(index_tensor(fresh, {1, time}, device), &caches);
    const Tensor logits = model.logits(slice(features, 1, time - 1));  // of the last token alone
    seen = tokens.size();
    tokens.push_back(sample_token(reshape(logits, {-1}), options, generator));
  }
  return tokens;
}

}  // namespace vitrine::nn
