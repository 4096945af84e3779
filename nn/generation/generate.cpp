#include "nn/generation/generate.h"

#include <algorithm>
#include <span>

#include "core/creation.h"
#include "core/tape.h"
#include "ops/view.h"

namespace vitrine::nn {

std::vector<int64_t> generate(LanguageModel& model, std::vector<int64_t> tokens, int64_t count,
                              const SamplingOptions& options, const std::vector<int64_t>& stop) {
  check(!tokens.empty(), "generate: the prompt is empty");
  check(count >= 0, "generate: {} tokens are wanted", count);
  const Tape::Pause pause;
  const ModeScope evaluation(model, false);
  Generator generator(options.seed);
  auto state = model.make_state();
  const Device device = model.device();
  const auto context = static_cast<size_t>(model.context());
  // The index of the first token that is not in the state.
  size_t seen =
      state->capacity() == DecodingState::kUnlimited ? 0 : tokens.size() - std::min(tokens.size(), context);
  for (int64_t i = 0; i < count; ++i) {
    if (state->length() + static_cast<int64_t>(tokens.size() - seen) > state->capacity()) {
      // The state is full: start again from the newer half of the context.
      state = model.make_state();
      seen = tokens.size() - std::max<size_t>(1, context / 2);
    }
    const std::span<const int64_t> fresh(tokens.data() + seen, tokens.size() - seen);
    const auto time = static_cast<int64_t>(fresh.size());
    const Tensor features = model.features(index_tensor(fresh, {1, time}, device), {.state = state.get()});
    const Tensor logits = model.logits(slice(features, 1, time - 1));  // for the last token only
    seen = tokens.size();
    tokens.push_back(sample_token(reshape(logits, {-1}), options, generator));
    if (std::find(stop.begin(), stop.end(), tokens.back()) != stop.end()) break;
  }
  return tokens;
}

}  // namespace vitrine::nn
