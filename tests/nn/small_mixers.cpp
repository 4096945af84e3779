#include "tests/nn/small_mixers.h"

#include <fmt/format.h>

#include <functional>

#include "core/random.h"
#include "core/tape.h"
#include "nn/transformer/mixers.h"
#include "ops/elementwise.h"
#include "ops/view.h"
#include "tests/nn/mechanisms.h"
#include "tests/nn/modules.h"
#include "tests/ops/reference.h"
#include "tests/spec/spec.h"

namespace vitrine::test::small_mixers {

using nn::Mixer, nn::MixerCall;

namespace {

void randomize(nn::Module& module) {
  for (auto& [path, parameter] : module.named_parameters()) {
    Generator generator(std::hash<std::string>{}(path));
    const bool matrix = parameter.shape().rank() > 1;
    parameter.assign(randn(parameter.shape(), DType::float64, Device::cpu, matrix ? 0 : 0.5, 0.4, generator));
  }
}

std::unique_ptr<Mixer> constructed(const std::string& name, bool causal) {
  if (const ModuleRow* const row = find_module(name); row != nullptr) return row->make();
  return nn::make_mixer(
      {.width = kWidth, .heads = kHeads, .context = kContext, .name = name, .causal = causal});
}

}  // namespace

bool is_causal(const std::string& name) {
  return find_module(name) == nullptr && nn::parse_mixer(name).base->causal;
}

std::unique_ptr<Mixer> made(const std::string& name, bool causal) {
  manual_seed(4);
  auto mixer = constructed(name, causal);
  mixer->to(DType::float64);
  randomize(*mixer);
  freeze_estimates(*mixer);
  return mixer;
}
std::unique_ptr<Mixer> made(const std::string& name) { return made(name, is_causal(name)); }

Tensor input() { return normal({2, kTime, kWidth}, 8); }
MixerCall call_of(const std::string& name) { return {.mask = {.causal = is_causal(name)}}; }

std::vector<Tensor> run(Mixer& mixer, const Tensor& x, const MixerCall& call, int order) {
  Tape tape({.order = order});
  tape.watch(x);
  const Tensor y = mixer.forward(x, call);
  std::vector<Tensor> sources = {x}, all = {y};
  for (const Parameter& p : mixer.parameters())
    if (p.requires_grad()) sources.push_back(p.value());
  const Tensor dy =
      to(cast(spec::draw_cotangent(to(cast(y, DType::float64), Device::cpu), 5), y.dtype()), y.device());
  for (const Tensor& dx : tape.gradient({y}, sources, {dy}))
    if (dx.defined()) all.push_back(dx);
  return all;
}

Finding failed(const std::string& check, const std::string& failure) {
  return {.check = check, .failure = failure};
}

Finding within(const char* check, double error, double limit) {
  Finding finding{.check = check, .error = error, .limit = limit};
  if (!(error <= limit))
    finding.failure = fmt::format("the error is {:.3g}, wanted at most {:.3g}", error, limit);
  return finding;
}

}  // namespace vitrine::test::small_mixers
