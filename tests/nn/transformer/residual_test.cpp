// Residual connections: DeepNet, Admin and stochastic depth.
#include "nn/transformer/residual.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/check_gradients.h"
#include "nn/layers/drop_path.h"
#include "nn/models/gpt.h"
#include "nn/transformer/stack.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/nn/transformer/seeded.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

double deviation(const Tensor& x) { return sqrt(var(x)).item(); }

StackOptions residual_options(Residual residual, int64_t layers = 3) {
  return {.block = {.mixer = {.width = 8, .heads = 2, .out_deviation = 0.5},
                    .activation = Activation::geglu,
                    .residual = residual},
          .layers = layers};
}

}  // namespace

TEST_CASE("the constants of DeepNet: 100 layers have α = 3.76 and β = 0.188") {
  CHECK(deep_norm(100).alpha == doctest::Approx(std::sqrt(std::sqrt(200))));
  CHECK(deep_norm(100).beta == doctest::Approx(1 / std::sqrt(std::sqrt(800))));
  CHECK(deep_norm_of_decoder(6).alpha == doctest::Approx(2.0597671));
  CHECK(deep_norm_of_encoder(6, 6).alpha == doctest::Approx(0.81 * std::pow(6, 5.0 / 16)));
  CHECK_THROWS_WITH_AS(deep_norm(0), doctest::Contains("there are 0 layers"), Error);
}

TEST_CASE("DeepNet: the block is norm(α·x + f), and values, output and feed-forward start smaller by β") {
  StackOptions o = residual_options(Residual::deepnet, 32);
  o.block.mixer.width = 64;
  const Decoder decoder = test::seeded<Decoder>(o, 6);
  const TransformerBlock& block = *decoder.blocks[0];
  const auto& attention = dynamic_cast<const MultiHeadAttention&>(*block.mixer);
  const Tensor qkv = attention.query_key_value.weight;
  const double xavier = std::sqrt(2.0 / 128), beta = deep_norm(32).beta;
  CHECK(beta == doctest::Approx(0.25));
  CHECK(deviation(slice(qkv, 0, 0, 128)) == doctest::Approx(xavier).epsilon(0.03));
  CHECK(deviation(slice(qkv, 0, 128)) == doctest::Approx(beta * xavier).epsilon(0.03));
  CHECK(deviation(attention.out.weight) == doctest::Approx(beta * xavier).epsilon(0.03));
  CHECK(deviation(block.feed_forward->up.weight) ==
        doctest::Approx(beta * std::sqrt(2.0 / (64 + 256))).epsilon(0.03));
  CHECK(deviation(block.feed_forward->down.weight) ==
        doctest::Approx(beta * std::sqrt(2.0 / (64 + 256))).epsilon(0.03));
  const Tensor x = test::normal({1, 3, 64}, 8);
  const AttentionMask causal{.causal = true};
  const double alpha = deep_norm(32).alpha;
  const Tensor h = block.mixer_norm.forward(alpha * x + block.mixer->forward(x, {.mask = causal}));
  const Tensor y = block.feed_forward_norm.forward(alpha * h + block.feed_forward->forward(h));
  CHECK(test::distance(block.forward(x, {.mask = causal}), y) < 1e-13);
}

TEST_CASE("DeepNet in an encoder-decoder model: each stack has its constants, and a recurrence is refused") {
  StackOptions o = residual_options(Residual::deepnet, 2);
  o.other_layers = 6;
  const Tensor x = test::normal({2, 8}, 8);
  const auto alpha = [&](BlockStack&& stack) {
    stack.to(DType::float64);
    return (stack.blocks[0]->mixer_shortcut.forward(x) / x).values().at(0);
  };
  CHECK(alpha(Encoder(o)) == doctest::Approx(deep_norm_of_encoder(2, 6).alpha));
  CHECK(alpha(Decoder(o)) == doctest::Approx(deep_norm_of_decoder(2).alpha));
  o.other_layers = 0;
  CHECK(alpha(Encoder(o)) == doctest::Approx(deep_norm(2).alpha));
  o.block.mixer.name = "lstm";
  CHECK_THROWS_WITH_AS(Decoder{o}, doctest::Contains("the mixer is lstm"), Error);
}

TEST_CASE("Admin: ω² is 1 plus the variances of the parts before") {
  Decoder decoder = test::seeded<Decoder>(residual_options(Residual::admin), 6),
          post = test::seeded<Decoder>(residual_options(Residual::post), 6);
  for (Decoder* const d : {&decoder, &post})
    for (Parameter& p : d->parameters())
      if (p.shape().rank() == 2) p.assign(test::normal(p.shape(), 9) * 0.4);
  const Tensor x = test::normal({2, 5, 8}, 8);
  const Tensor before = decoder.forward(x);
  CHECK(test::distance(before, post.forward(x)) < 1e-14);  // at first ω = 1
  std::vector<double> variances;
  for (const auto& block : decoder.blocks)
    block->on_part = [&](const Tensor& f) { variances.push_back(var(f).item()); };
  decoder.forward(x);
  for (const auto& block : decoder.blocks) block->on_part = nullptr;
  for (int repeat = 0; repeat < 2; ++repeat) {  // the profile begins with ω = 1 each time
    initialize_admin(decoder, [&] { decoder.forward(x); });
    double sum = 1;
    size_t i = 0;
    for (const auto& block : decoder.blocks)
      for (Shortcut* const shortcut : block->shortcuts()) {
        CHECK(shortcut->omega.value().values().front() == doctest::Approx(std::sqrt(sum)).epsilon(1e-6));
        sum += variances.at(i++);
      }
    CHECK(i == 6);
    CHECK(sum > 1.5);
  }
  CHECK(test::distance(decoder.forward(x), before) > 1e-2);
  CHECK(!decoder.blocks[0]->on_part);
  CHECK(decoder.training());
  CHECK(decoder.state_dict().count("blocks.2.feed_forward_shortcut.omega") == 1);
  CHECK_THROWS_WITH_AS(initialize_admin(decoder, [] {}),
                       doctest::Contains("0 parts have run, wanted each of the 6"), Error);
  CHECK_THROWS_WITH_AS(initialize_admin(decoder, [] { fail("stop"); }), doctest::Contains("stop"), Error);
  CHECK(!decoder.blocks[0]->on_part);
  CHECK_THROWS_WITH_AS(initialize_admin(post, [] {}), doctest::Contains("not of Residual::admin"), Error);
}

TEST_CASE("gradients of each residual connection, and copies") {
  for (const Residual residual : {Residual::pre, Residual::post, Residual::deepnet, Residual::admin}) {
    INFO(name_of(residual));
    Decoder decoder = test::seeded<Decoder>(residual_options(residual, 1), 6);
    const Tensor x = test::normal({1, 3, 8}, 8), weight = test::normal({1, 3, 8}, 2);
    for (Parameter& p : decoder.parameters())
      if (p.shape().rank() == 1) p.assign(test::normal(p.shape(), 3));
    CHECK(test::distance(decoder.clone().forward(x), decoder.forward(x)) == 0);
    const auto report = check_gradients(
        decoder, [&](const std::vector<Tensor>& t) { return sum(decoder.forward(t[0]) * weight); }, {x},
        {.probe = Probe::directions});
    CHECK_MESSAGE(report.passed, to_string(report));
  }
}

TEST_CASE("stochastic depth: whole rows are dropped in training, and the mean is kept") {
  DropPath path(0.25);
  const Tensor x = ones({4000, 2, 3});
  manual_seed(4);
  const Tensor y = path.forward(x), per_row = mean(y, {1, 2});
  int dropped = 0;
  for (const double v : per_row.values()) {
    dropped += v == 0;
    CHECK((v == 0 || std::abs(v - 4.0 / 3) < 1e-6));
  }
  CHECK(dropped / 4000.0 == doctest::Approx(0.25).epsilon(0.08));
  path.eval();
  CHECK(path.forward(x).is_same(x));
  CHECK_THROWS_WITH_AS(DropPath(1), doctest::Contains("wanted [0, 1)"), Error);
  CHECK_THROWS_WITH_AS(drop_path(x, ones({3}), 0.5), doctest::Contains("wanted bool [4000]"), Error);
}

TEST_CASE(
    "stochastic depth in a stack: block i of L drops with the rate i/L, and a dropped block is x itself") {
  StackOptions o = residual_options(Residual::pre, 2);
  o.block.drop_path = 0.999999;  // the last block always drops both parts
  Decoder decoder = test::seeded<Decoder>(o, 6);
  const Tensor x = test::normal({64, 3, 8}, 8);
  manual_seed(1);
  const Tensor h = decoder.blocks[0]->forward(x, {.mask = {.causal = true}});
  int changed = 0;  // a row of the first block loses both parts with probability ½·½
  for (int64_t row = 0; row < 64; ++row)
    changed += test::distance(select(h, 0, row), select(x, 0, row)) > 1e-9;
  CHECK(changed / 64.0 == doctest::Approx(0.75).epsilon(0.2));
  CHECK(test::distance(decoder.blocks[1]->forward(x, {.mask = {.causal = true}}), x) == 0);
  decoder.eval();
  CHECK(test::distance(decoder.blocks[1]->forward(x, {.mask = {.causal = true}}), x) > 1e-3);
}

TEST_CASE("a GPT takes each residual connection by name") {
  for (const auto& residual : names_of(Residual{}).values) {
    INFO(residual.first);
    manual_seed(2);
    Gpt model(
        {.vocabulary = 7, .context = 6, .width = 8, .layers = 2, .heads = 2, .residual = residual.second});
    const Tensor ids = index_tensor(std::vector<int64_t>{1, 2, 3, 4, 5, 6}, {1, 6});
    if (residual.second == Residual::admin) initialize_admin(model.decoder, [&] { model.forward(ids); });
    CHECK(is_finite(model.forward(ids)).values() == std::vector<double>(42, 1));
  }
}
