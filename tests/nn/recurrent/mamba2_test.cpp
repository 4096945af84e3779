// Mamba-2 against the selective scan, of which it is the case with one decay for each head.
#include "nn/recurrent/mamba2.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "nn/layers/heads.h"
#include "nn/transformer/mixers.h"
#include "ops/activation.h"
#include "ops/convolution.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/norm.h"
#include "ops/selective_scan.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

constexpr int64_t kStates = 3, kChannels = 8, kHeads = 2;
const MixerOptions kOptions{.width = 4, .heads = kHeads, .context = 9};

}  // namespace

TEST_CASE("Mamba-2 is the selective scan with one decay and one step for all channels of a head") {
  Mamba2 mixer(kOptions, {.states = kStates, .channels = kChannels, .kernel = 2});
  mixer.to(DType::float64);
  uint64_t seed = 20;
  for (Parameter& p : mixer.parameters()) p.assign(test::normal(p.shape(), seed++, DType::float64, 0.5));
  const Tensor x = test::normal({2, 9, 4}, 1);
  const auto parts = split(mixer.in.forward(x), {kChannels, kChannels + 2 * kStates, kHeads}, -1);
  const auto read = split(silu(causal_conv1d(parts[1], mixer.conv.weight, mixer.conv.bias)),
                          {kChannels, kStates, kStates}, -1);
  const auto for_channels = [](const Tensor& of_heads) { return repeat(of_heads, kChannels / kHeads, -1); };
  const Tensor delta = for_channels(softplus(parts[2] + Tensor(mixer.step)));
  const Tensor a =
      contiguous(expand(unsqueeze(neg(exp(for_channels(Tensor(mixer.rates)))), -1), {kChannels, kStates}));
  const Tensor y =
      selective_scan(read[0], delta, a, read[1], read[2], {.skip = for_channels(Tensor(mixer.skip))}).y;
  const Tensor want = mixer.out.forward(rms_norm(y * silu(parts[0]), mixer.norm_scale));
  CHECK(test::distance(mixer.forward(x, {.mask = {.causal = true}}), want) < 1e-13);
}

TEST_CASE("Mamba-2: initial decays, and sizes that do not fit") {
  const Mamba2 mixer(kOptions, {});
  const auto steps = softplus(Tensor(mixer.step)).values(), rates = exp(Tensor(mixer.rates)).values();
  CHECK(steps[0] == doctest::Approx(0.001));
  CHECK(steps[1] == doctest::Approx(0.1));
  CHECK(rates[0] == doctest::Approx(1));
  CHECK(rates[1] == doctest::Approx(16));
  MixerOptions options = kOptions;
  options.name = "mamba2", options.heads = 3;
  CHECK_THROWS_WITH_AS(make_mixer(options), doctest::Contains("channels that the heads divide evenly"),
                       Error);
}
