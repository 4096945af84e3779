#include "nn/generation/sampling.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace vitrine::nn {

namespace {

struct WeightedToken {
  double weight;  ///< e^((logit − highest)/temperature)
  int64_t token;
};

bool more_likely(const WeightedToken& x, const WeightedToken& y) {
  return x.weight != y.weight ? x.weight > y.weight : x.token < y.token;
}

double total(const std::vector<WeightedToken>& candidates) {
  double sum = 0;
  for (const WeightedToken& c : candidates) sum += c.weight;
  return sum;
}

void keep_top_k(std::vector<WeightedToken>& candidates, int64_t k) {
  if (k <= 0 || k >= static_cast<int64_t>(candidates.size())) return;
  std::nth_element(candidates.begin(), candidates.begin() + k, candidates.end(), more_likely);
  candidates.resize(static_cast<size_t>(k));
}

/// Sorts only the candidates that are kept: in a large vocabulary, a few dozen tokens have most of
/// the probability.
void keep_top_p(std::vector<WeightedToken>& candidates, double p) {
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

/// Keeps the tokens with at least `p` of the highest weight, which is 1.
void keep_min_p(std::vector<WeightedToken>& candidates, double p) {
  if (p > 0) std::erase_if(candidates, [p](const WeightedToken& c) { return c.weight < p; });
}

/// Makes each token of the text less likely, once however often it occurs.
void penalize(std::vector<double>& logits, const std::vector<int64_t>& text, double penalty) {
  if (penalty == 1) return;
  std::vector<bool> seen(logits.size());
  for (const int64_t token : text) {
    const auto i = static_cast<size_t>(token);
    check(token >= 0 && i < logits.size(), "generate: the text has the token {}, outside [0, {})", token,
          logits.size());
    if (!seen[i]) logits[i] = logits[i] > 0 ? logits[i] / penalty : logits[i] * penalty;
    seen[i] = true;
  }
}

void check_ranges(const SamplingOptions& o) {
  check(o.temperature >= 0 && std::isfinite(o.temperature) && o.top_k >= 0 && o.top_p > 0 && o.top_p <= 1,
        "generate: wanted a finite temperature ≥ 0, top_k ≥ 0 and top_p in (0, 1], got {}, {} and {}",
        o.temperature, o.top_k, o.top_p);
  check(o.min_p >= 0 && o.min_p <= 1 && o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty),
        "generate: wanted min_p in [0, 1] and a finite repetition_penalty > 0, got {} and {}", o.min_p,
        o.repetition_penalty);
}

}  // namespace

void SamplingOptions::list(OptionList& o) {
  o.group("Sampling");
  o("temperature", temperature, "logits are divided by it; 0: the most likely token").at_least(0);
  o("top-k", top_k, "sample from the k most likely tokens; 0: from all").at_least(0);
  o("top-p", top_p, "sample from the fewest most likely tokens whose probabilities sum to at least this")
      .above(0)
      .at_most(1);
  o("min-p", min_p, "sample only from tokens with at least this share of the highest probability")
      .at_least(0)
      .at_most(1);
  o("repetition-penalty", repetition_penalty,
    "the logits of tokens that the text already contains are divided by it, or multiplied if negative")
      .above(0);
  o("seed", seed, "one seed always gives the same text");
}

int64_t sample_token(const Tensor& logits, const SamplingOptions& o, Generator& generator,
                     const std::vector<int64_t>& text) {
  check_ranges(o);
  check(logits.rank() == 1 && logits.numel() > 0, "generate: the logits are {}, wanted [V]", logits.shape());
  std::vector<double> x = logits.values();
  penalize(x, text, o.repetition_penalty);
  size_t best = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    check(!std::isnan(x[i]), "generate: the logit of token {} is NaN", i);
    if (x[i] > x[best]) best = i;
  }
  check(std::isfinite(x[best]), "generate: the highest logit is {}, wanted a finite one", x[best]);
  if (o.temperature == 0) return static_cast<int64_t>(best);
  std::vector<WeightedToken> candidates(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    candidates[i] = {std::exp((x[i] - x[best]) / o.temperature), static_cast<int64_t>(i)};
  keep_top_k(candidates, o.top_k);
  keep_top_p(candidates, o.top_p);
  keep_min_p(candidates, o.min_p);
  double left = generator.next_uniform() * total(candidates);
  for (const WeightedToken& c : candidates)
    if ((left -= c.weight) < 0) return c.token;
  return static_cast<int64_t>(best);  // reached if rounding leaves a remainder
}

}  // namespace vitrine::nn
