#include "nn/attention/differential.h"

#include <cmath>

#include "nn/init.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace vitrine::nn {
namespace {

/// The sizes of one map.
AttentionSizes halved(const AttentionSizes& sizes) {
  check(sizes.head_size % 2 == 0,
        "differential: the head size is {}, wanted an even number for two maps, such as {}", sizes.head_size,
        sizes.head_size + 1);
  return {sizes.heads, sizes.head_size / 2, sizes.context};
}

/// The caches of the two maps, from make_state; nullptr without a state.
StateList* caches_of(DecodingState* state) {
  auto* const caches = dynamic_cast<StateList*>(state);
  check(state == nullptr || (caches != nullptr && caches->states.size() == 2),
        "differential: the state is not one of differential attention; wanted what its make_state gave");
  return caches;
}

}  // namespace

DifferentialAttention::DifferentialAttention(const AttentionName& parts, const AttentionSizes& sizes,
                                             std::optional<double> initial, double eps)
    : map(parts, sizes.heads, halved(sizes).head_size, sizes.context),
      gain(constant({sizes.head_size}, 1)),
      initial_(initial.value_or(initial_for_layer(sizes.layer))),
      eps_(eps) {
  check(initial_ >= 0 && initial_ < 1, "differential: λ₀ is {}, wanted at least 0 and below 1", initial_);
  for (Parameter* p : {&first_query, &first_key, &second_query, &second_key})
    *p = normal({sizes.head_size / 2}, 0.1);
}

double DifferentialAttention::initial_for_layer(int64_t layer) {
  return layer == 0 ? 0.8 : 0.8 - 0.6 * std::exp(-0.3 * static_cast<double>(layer - 1));
}

Tensor DifferentialAttention::lambda() const {
  const auto product = [](const Parameter& x, const Parameter& y) {
    const DType type = accumulation_dtype(x.dtype());
    return exp(sum(cast(x, type) * cast(y, type)));
  };
  return product(first_query, first_key) - product(second_query, second_key) + initial_;
}

Tensor DifferentialAttention::forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                      const AttentionMask& mask, DecodingState* state,
                                      MixerTrace* trace) const {
  const int64_t size = gain.numel(), half = size / 2;
  check(q.rank() == 4 && k.rank() == 4 && q.size(3) == size && k.size(3) == size,
        "differential: q is {} and k {}, wanted [B, H, T, {}]", q.shape(), k.shape(), size);
  StateList* const caches = caches_of(state);
  MixerTrace second_trace;
  const auto read = [&](int64_t begin, size_t which, MixerTrace* traced) {
    return map.forward(slice(q, -1, begin, begin + half), slice(k, -1, begin, begin + half), v, mask,
                       caches ? caches->states[which].get() : nullptr, traced);
  };
  const Tensor first = read(0, 0, trace), second = read(half, 1, trace ? &second_trace : nullptr);
  const Tensor factor = lambda();
  if (trace) {
    trace->weights = trace->weights - cast(factor, trace->weights.dtype()) * second_trace.weights;
    trace->distribution = false;
  }
  return rms_norm(first - cast(factor, first.dtype()) * second, gain, eps_) * (1 - initial_);
}

std::unique_ptr<DecodingState> DifferentialAttention::make_state(int64_t batch, int64_t capacity) const {
  auto caches = std::make_unique<StateList>();
  for (int i = 0; i < 2; ++i) caches->states.push_back(map.make_state(batch, capacity));
  return caches;
}

std::string DifferentialAttention::explain(bool weights_wanted, const AttentionMask& mask) const {
  return "differential: two maps, each " + map.explain(weights_wanted, mask);
}

void DifferentialAttention::fields(Fields& f) {
  f("map", map);
  f("first_query", first_query);
  f("first_key", first_key);
  f("second_query", second_query);
  f("second_key", second_key);
  f("gain", gain);
}

DifferentialAttention DifferentialAttention::clone() {
  return clone_into([this] {
    return DifferentialAttention(map.name(), {map.sizes().heads, gain.numel(), map.sizes().context}, initial_,
                                 eps_);
  });
}

}  // namespace vitrine::nn
