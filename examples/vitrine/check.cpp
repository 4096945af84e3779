#include <iostream>

#include "core/creation.h"
#include "core/random.h"
#include "examples/vitrine/command.h"
#include "nn/check_gradients.h"
#include "nn/models/gpt.h"
#include "ops/loss.h"

namespace vitrine::examples {

using namespace nn;

namespace {

struct CheckSettings {
  GptOptions gpt = {.vocabulary = 5, .context = 4, .width = 8, .layers = 1, .heads = 2};
  int64_t batch = 2;
  int order = 1;
  uint64_t seed = 1;

  void list(OptionList& o) {
    gpt.list(o);
    o.group("Check");
    o("batch", batch, "random sequences of the model's context").at_least(1);
    o("order", order, "the highest derivative that is checked").at_least(1).at_most(2);
    o("seed", seed, "seed of the weights and the sequences");
  }
};

int run(CheckSettings& s, const Call& call) {
  call.options.check_given();
  manual_seed(s.seed);
  Gpt model(s.gpt);
  model.to(DType::float64);
  const Tensor ids = randint(0, s.gpt.vocabulary, {s.batch, s.gpt.context}),
               targets = randint(0, s.gpt.vocabulary, {s.batch, s.gpt.context});
  const GradientReport report = check_gradients(
      model, [&](const auto&) { return cross_entropy(model.forward(ids), targets); }, {}, {.order = s.order});
  std::cout << report << std::flush;
  const bool steps = s.gpt.mixer.find("learned_mask") != std::string::npos;
  if (!report.passed && (steps || s.gpt.norm == NormKind::ada || s.gpt.norm == NormKind::power))
    say(stdout, "The gradients of {} are estimates by design, so they differ from the derivatives.\n",
        steps ? "learned_mask" : fmt::format("--norm {}", name_of(s.gpt.norm)));
  return report.passed ? 0 : 1;
}

}  // namespace

Command check_command() {
  return make_command<CheckSettings>(
      "check", "Checks the gradients of a small model against differences and dual numbers.",
      "  vitrine check --mixer laser+qk_norm\n"
      "  vitrine check --mixer lstm --layers 2 --norm rms\n"
      "  vitrine check --mixer standard --order 2 --batch 1",
      {}, run);
}

}  // namespace vitrine::examples
