// The mechanism alone, with the same checks as the library's ops, and in a model: cached decoding,
// training, and composition with parts of the library.
#include "relu2.h"

#include <doctest/doctest.h>
#include <vitrine/core/creation.h>
#include <vitrine/nn/attention/composed.h>
#include <vitrine/nn/generation/generate.h>
#include <vitrine/nn/models/gpt.h>
#include <vitrine/ops/loss.h>
#include <vitrine/ops/view.h>
#include <vitrine/optim/optimizers.h>
#include <vitrine/tests/spec/spec.h>

using namespace vitrine;

namespace {

[[maybe_unused]] const bool kRegistered = (outside::register_relu2(), true);

/// The mechanism as a function of q [B, H, Tq, D], k and v [B, Hkv, Tk, D].
spec::Spec row(bool causal) {
  const spec::Call call = [causal](const std::vector<Tensor>& x) {
    const nn::ComposedAttention attention(nn::parse_attention("relu2"), 2, 4, 8);
    return attention.forward(x[0], x[1], x[2], {.causal = causal});
  };
  return {.name = "relu2",
          .call = call,
          .samples = {{{{1, 2, 5, 4}}, {{1, 2, 5, 4}}, {{1, 2, 5, 4}}},
                      {{{2, 2, 3, 4}}, {{2, 1, 7, 4}}, {{2, 1, 7, 4}}}},
          .composite = true};
}

nn::GptOptions options(const std::string& attention) {
  return {.vocabulary = 7, .context = 8, .width = 16, .layers = 2, .heads = 2, .mixer = attention};
}

Tensor ids() { return index_tensor(std::vector<int64_t>{1, 2, 3, 4, 5, 6, 0, 1}, {1, 8}); }

}  // namespace

TEST_CASE("the mechanism passes every check of the library's own, with and without a causal mask") {
  const std::string errors = spec::check_all({row(false), row(true)});
  CHECK_MESSAGE(errors.empty(), errors);
}

TEST_CASE("weights are squared positive scores over the context") {
  const auto column = [](double a, double b) { return tensor({a, b}, {1, 1, 2, 1}, DType::float64); };
  const nn::ComposedAttention attention(nn::parse_attention("relu2"), 1, 1, 8);
  const Tensor y = attention.forward(column(2, -1), column(3, 1), column(1, 10), {});
  CHECK(y.values() == std::vector<double>{(36 * 1 + 4 * 10) / 8.0, 0});
}

TEST_CASE("decoding with the cache equals the full pass") {
  nn::Gpt model(options("relu2+qk_norm+rotary"));
  model.to(DType::float64);
  const auto want = model.forward(ids()).values();
  const auto state = model.make_state();
  for (int64_t t = 0; t < 8; ++t) {
    const auto got = model.forward(slice(ids(), 1, t, t + 1), {.state = state.get()}).values();
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
