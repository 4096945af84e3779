#include "nn/generation/generate.h"

#include <algorithm>
#include <span>

#include "core/creation.h"
#include "core/tape.h"
#include "ops/view.h"

namespace vitrine::nn {

namespace {

size_t held(const std::vector<KeyValueCache>& caches) {
  return caches.empty() ? 0 : static_cast<size_t>(caches[0].size());
}

}  // namespace

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
