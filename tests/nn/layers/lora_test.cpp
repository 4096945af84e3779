// LoRA, freezing by path, and prompt tuning.
#include "nn/layers/lora.h"
#include "nn/attention/memory_tokens.h"

#include <doctest/doctest.h>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/check_gradients.h"
#include "nn/models/gpt.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

Gpt model_of(DType dtype = DType::float64) {
  manual_seed(4);
  Gpt model({.vocabulary = 7,
             .context = 6,
             .width = 8,
             .layers = 2,
             .heads = 2,
             .activation = Activation::gelu_tanh});
  model.to(dtype);
  return model;
}

Tensor ids() { return index_tensor(std::vector<int64_t>{1, 2, 3, 4, 5, 6}, {1, 6}); }

/// Gives each B values, as training does.
void train_changes(Module& model) {
  uint64_t seed = 20;
  for (auto& [path, p] : model.named_parameters())
    if (path_matches(path, "**.lora.b")) p.assign(test::normal(p.shape(), ++seed) * 0.1);
}

}  // namespace

TEST_CASE("a pattern names parameters: one name, any text in a name, any number of names") {
  const std::string path = "blocks.3.attention.out.weight";
  for (const char* yes : {"blocks.3.attention.out.weight", "blocks.*.attention", "blocks", "**", "**.weight",
                          "blocks.**.out", "*.*.att*n.out.we*t", "blocks.**.attention.**.weight", "b*.3"})
    CHECK_MESSAGE(path_matches(path, yes), yes);
  for (const char* no : {"blocks.4", "block", "attention", "*.attention", "**.bias",
                         "blocks.3.attention.out.weight.x", "blocks.*.*.*.*.*", "**.out.**.bias", "*t*"})
    CHECK_MESSAGE(!path_matches(path, no), no);
}

TEST_CASE("freezing: frozen parameters have no gradient, and can be trained again") {
  Gpt model = model_of();
  CHECK(freeze(model, "blocks.*.attention") == 8);
  {
    Tape tape;
    tape.backward(cross_entropy(model.forward(ids()), ids()));
  }
  for (const auto& named : model.named_parameters())
    CHECK_MESSAGE(named.second.grad().defined() == !path_matches(named.first, "blocks.*.attention"),
                  named.first);
  CHECK(unfreeze(model, "blocks.1") > 8);
  CHECK(!model.decoder.blocks[0]->mixer->parameters()[0].requires_grad());
  CHECK(model.decoder.blocks[1]->mixer->parameters()[0].requires_grad());
  CHECK_THROWS_WITH_AS(freeze(model, "blocks.*.cross"),
                       doctest::Contains("no parameter has the pattern blocks.*.cross"), Error);
}

TEST_CASE("LoRA: at first nothing changes, then only A and B are trained, and merging keeps the outputs") {
  Gpt model = model_of();
  const Tensor before = model.forward(ids());
  freeze(model);
  CHECK(add_lora(model, "blocks.*.**", {.rank = 2, .alpha = 4}) == 8);
  CHECK(model.forward(ids()).values() == before.values());
  train_changes(model);
  const Tensor changed = model.forward(ids());
  CHECK(test::distance(changed, before) > 1e-2);
  {
    Tape tape;
    tape.backward(cross_entropy(model.forward(ids()), ids()));
  }
  int trained = 0;
  for (const auto& named : model.named_parameters()) {
    const bool has_gradient = named.second.grad().defined();
    CHECK_MESSAGE(has_gradient == path_matches(named.first, "**.lora"), named.first);
    trained += has_gradient;
  }
  CHECK(trained == 16);
  CHECK(model.decoder.blocks[0]->feed_forward->up.lora->a.shape() == Shape{2, 8});
  Gpt twin = model.clone(), plain = model_of();
  CHECK(twin.forward(ids()).values() == changed.values());
  twin.decoder.blocks[0]->feed_forward->up.lora->b.assign(test::normal({32, 2}, 9));
  CHECK(test::distance(twin.forward(ids()), changed) > 1e-2);
  CHECK(model.forward(ids()).values() == changed.values());
  twin.copy_from(plain);
  CHECK(twin.forward(ids()).values() == plain.forward(ids()).values());
  // A cached step projects queries, keys and values as the full pass.
  const auto state = model.make_state();
  for (int64_t t = 0; t < 6; ++t)
    CHECK(test::distance(model.forward(slice(ids(), 1, t, t + 1), {.state = state.get()}),
                         slice(changed, 1, t, t + 1)) < 1e-12);
  CHECK(merge_lora(model) == 8);
  CHECK(test::distance(model.forward(ids()), changed) < 1e-13);
  CHECK(model.state_dict().count("blocks.0.attention.out.lora.a") == 0);
  CHECK_THROWS_WITH_AS(merge_lora(model), doctest::Contains("no linear layer has a low-rank change"), Error);
}

TEST_CASE("LoRA: rows of a layer, gradients, copies, 16 bits and errors") {
  Linear layer(4, 6);
  layer.to(DType::float64);
  CHECK(add_lora(layer, "**", {.rank = 3, .alpha = 6}) == 1);
  train_changes(layer);
  layer.lora->b.assign(test::normal({6, 3}, 4));
  const Tensor x = test::normal({2, 4}, 8), none;
  CHECK(test::distance(layer.forward(x), linear(x, merged_weight(layer), layer.bias)) < 1e-14);
  CHECK(test::distance(layer.product(x, none, 1, 4), slice(layer.product(x, none), 1, 1, 4)) < 1e-15);
  CHECK(test::distance(layer.forward_gelu_tanh(x), layer.clone().forward_gelu_tanh(x)) == 0);
  const auto report = check_gradients(layer, {x});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK(report.inputs.size() == 5);
  CHECK_THROWS_WITH_AS(add_lora(layer, "**"), doctest::Contains("has a low-rank change already"), Error);
  Linear small(4, 6);
  CHECK_THROWS_WITH_AS(add_lora(small, "**", {.rank = 5}), doctest::Contains("the rank is 5"), Error);
  CHECK_THROWS_WITH_AS(add_lora(small, "out"), doctest::Contains("no linear layer has the pattern out"),
                       Error);
  CHECK(!small.lora);
  // Two layers that share a weight
  struct Twins : Module {
    Linear first{4, 6}, second{4, 6};
    void fields(Fields& f) override {
      f("first", first);
      f("second", second);
    }
  } twins;
  twins.second.weight = twins.first.weight;
  CHECK_THROWS_WITH_AS(add_lora(twins, "**"), doctest::Contains("is shared (first.weight, second.weight)"),
                       Error);
  quantize_linear_layers(twins);
  CHECK(!twins.first.int8.defined());
  CHECK(!twins.second.int8.defined());
  // A copy that is refused changes nothing.
  Linear wide(5, 6);
  CHECK_THROWS_WITH_AS(layer.copy_from(wide), doctest::Contains("weight is [6, 4]"), Error);
  CHECK(layer.lora);
  layer.copy_from(layer);
  CHECK(layer.lora);
  Gpt low = model_of(DType::bfloat16);
  add_lora(low, "blocks.0.feed_forward.down", {.rank = 1});
  CHECK(low.decoder.blocks[0]->feed_forward->down.lora->a.dtype() == DType::bfloat16);
  train_changes(low);
  const Tensor master = low.decoder.blocks[0]->feed_forward->down.weight.master();
  const LowRank change = low.decoder.blocks[0]->feed_forward->down.lora->clone();
  merge_lora(low);
  const Tensor wanted = master + 16 * matmul(change.b.master(), change.a.master());
  CHECK(test::distance(low.decoder.blocks[0]->feed_forward->down.weight.master(), wanted) <
        1e-6);  // not rounded to 8 bits
}

TEST_CASE(
    "prompt tuning: memory tokens of a frozen model, which later positions see, and the rows of the input") {
  MemoryTokens prompt(2, 8);
  prompt.to(DType::float64);
  Decoder decoder({.block = {.mixer = {.width = 8, .heads = 2, .out_deviation = 0.3}}, .layers = 1});
  decoder.to(DType::float64);
  const Tensor x = test::normal({3, 4, 8}, 8);
  const auto forward = [&](const MemoryTokens& p) { return p.rest(decoder.forward(p.before(x))); };
  const Tensor y = forward(prompt);
  CHECK(y.shape() == x.shape());
  CHECK(prompt.before(x).shape() == Shape{3, 6, 8});
  CHECK(test::distance(prompt.rest(prompt.before(x)), x) == 0);
  CHECK(test::distance(y, decoder.forward(x)) > 1e-4);
  CHECK(test::distance(forward(prompt.clone()), y) == 0);
  freeze(decoder);
  {
    Tape tape;
    tape.backward(mse_loss(forward(prompt), x));
  }
  CHECK(prompt.tokens.grad().shape() == Shape{2, 8});
  CHECK(!decoder.parameters()[0].grad().defined());
  const auto report =
      check_gradients(prompt, [&](const std::vector<Tensor>&) { return forward(prompt); }, {x});
  CHECK_MESSAGE(report.passed, to_string(report));
  const Tensor rows = test::normal({2, 8}, 5);
  CHECK(test::distance(MemoryTokens(rows).tokens, rows) == 0);
  CHECK_THROWS_WITH_AS(MemoryTokens(test::normal({8}, 8)), doctest::Contains("the rows are [8]"), Error);
}
