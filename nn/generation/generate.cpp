#include "nn/generation/generate.h"

#include <numeric>
#include <utility>

#include "core/tape.h"
#include "nn/generation/text_batch.h"
#include "ops/view.h"

namespace vitrine::nn {

std::vector<std::vector<int64_t>> generate_batch(LanguageModel& model,
                                                 std::vector<std::vector<int64_t>> prompts, int64_t count,
                                                 const SamplingOptions& options, const GenerateCall& call) {
  check(count >= 0, "generate: {} tokens are wanted, and the number must be at least 0", count);
  call.stop.validate("generate", model.vocabulary());
  const Tape::Pause pause;
  const ModeScope evaluation(model, false);
  TextBatch batch("generate", model, model.device(), prompts, call.memory);
  std::vector<Generator> generators;
  for (size_t i = 0; i < prompts.size(); ++i) generators.emplace_back(options.seed + i);
  std::vector<size_t> numbers(prompts.size());  // the prompt of each text that goes on
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  for (int64_t step = 0; step < count && batch.size() > 0; ++step) {
    const Tensor logits = batch.next_logits();
    std::vector<int64_t> parents, tokens;
    std::vector<size_t> going_on;
    for (size_t b = 0; b < batch.size(); ++b) {
      const size_t i = numbers[b];
      const int64_t token =
          sample_token(select(logits, 0, static_cast<int64_t>(b)), options, generators[i], batch.text(b));
      if (call.on_token) call.on_token(static_cast<int64_t>(i), token);
      const bool ends = call.stop.ends(batch.text(b), prompts[i].size(), token);
      if (ends || step + 1 == count) {
        prompts[i] = batch.text(b);
        prompts[i].push_back(token);
      } else {
        parents.push_back(static_cast<int64_t>(b)), tokens.push_back(token), going_on.push_back(i);
      }
    }
    batch.extend(parents, tokens);
    numbers = std::move(going_on);
  }
  return prompts;
}

std::vector<int64_t> generate(LanguageModel& model, std::vector<int64_t> prompt, int64_t count,
                              const SamplingOptions& options, const GenerateCall& call) {
  return generate_batch(model, {std::move(prompt)}, count, options, call).front();
}

}  // namespace vitrine::nn
