// The mechanism in a model: gradient, cached decoding, training, and composition with parts of the library.
#include "relu2.h"

#include <doctest/doctest.h>
#include <vitrine/core/check_gradients.h>
#include <vitrine/nn/generate.h>
#include <vitrine/ops/loss.h>
#include <vitrine/ops/view.h>
#include <vitrine/optim/optimizers.h>

using namespace vitrine;

namespace {

nn::GptOptions options(const std::string& attention) {
  static const bool once = (outside::register_relu2(), true);
  REQUIRE(once);
  nn::GptOptions o;
  o.vocabulary = 7;
  o.context = 8;
  o.width = 16;
  o.layers = 2;
  o.heads = 2;
  o.attention = attention;
  return o;
}

Tensor ids() { return index_tensor(std::vector<int64_t>{1, 2, 3, 4, 5, 6, 0, 1}, {1, 8}); }

}  // namespace

TEST_CASE("gradients through the mechanism") {
  const nn::GptOptions o = options("relu2");
  nn::Attention attention(nn::parse_attention(o.attention), 2, 4, 8);
  Generator g(3);
  const auto draw = [&] { return randn({1, 2, 5, 4}, DType::float64, Device::cpu, 0, 1, g); };
  const GradientReport report =
      check_gradients([&](const auto& x) { return attention.forward(x[0], x[1], x[2], {.causal = true}); },
                      {draw(), draw(), draw()});
  CHECK_MESSAGE(report.passed, to_string(report));
}

TEST_CASE("decoding with the cache equals the full pass") {
  nn::Gpt model(options("relu2+qk_norm+rotary"));
  model.to(DType::float64);
  const auto want = model.forward(ids()).values();
  std::vector<nn::KeyValueCache> caches;
  for (int64_t t = 0; t < 8; ++t) {
    const auto got = model.forward(slice(ids(), 1, t, t + 1), &caches).values();
    for (size_t v = 0; v < 7; ++v) CHECK(got[v] == doctest::Approx(want[static_cast<size_t>(t) * 7 + v]));
  }
}

TEST_CASE("a model with the mechanism learns a sequence by heart and repeats it") {
  manual_seed(1);
  nn::Gpt model(options("relu2"));
  optim::Adam adam(model.parameters(), {.lr = 0.01});
  const Tensor x = slice(ids(), 1, 0, 7), y = slice(ids(), 1, 1, 8);
  double loss = 0;
  for (int step = 0; step < 200; ++step) {
    adam.zero_grad();
    Tape tape;
    const Tensor l = cross_entropy(model.forward(x), y);
    tape.backward(l);
    adam.step();
    loss = l.item();
  }
  CHECK(loss < 0.01);
  CHECK(nn::generate(model, {1}, 5, {.temperature = 0}) == std::vector<int64_t>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("what makes no sense is refused with the reason") {
  CHECK_THROWS_WITH(nn::Gpt(options("relu2+laser")),
                    doctest::Contains("weights that are ≥ 0 and sum to 1; those of relu2 are not"));
  CHECK_THROWS_WITH(nn::Gpt(options("relu3")), doctest::Contains("did you mean relu2?"));
}
