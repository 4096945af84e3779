// Statistics of attention heads, for weights with results known by hand.
#include "nn/attention/statistics.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/attention/composed.h"
#include "nn/transformer/mixers.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"

using namespace vitrine;
using namespace vitrine::nn;

TEST_CASE("figures of a head count the visible weights of rows that see more than one key") {
  MixerTrace trace;
  trace.scale = 3;
  // Head 0: a row that sees one key, a row of 1/2, 1/2 and a hidden key, a row of 3/4, 1/4 − 1e-4,
  // 1e-4. Head 1: weights that are 0 or 1.
  trace.weights = tensor({1, 0, 0, 0.5, 0.5, 0, 0.75, 0.2499, 1e-4,  //
                          1, 0, 0, 1, 0, 0, 0, 0, 1},
                         {1, 2, 3, 3}, DType::float64);
  trace.visible = tensor({1, 0, 0, 1, 1, 0, 1, 1, 1}, {3, 3}, DType::boolean);
  std::vector<double> counted;
  const auto heads = inspect(trace, {}, [&](double weight) { counted.push_back(weight); });
  REQUIRE(heads.size() == 2);
  CHECK(counted == std::vector<double>{0.5, 0.5, 0.75, 0.2499, 1e-4, 1, 0, 0, 0, 1});
  const auto term = [](double p) { return -p * std::log(p); };
  CHECK(heads[0].entropy ==
        doctest::Approx((std::log(2.0) + term(0.75) + term(0.2499) + term(1e-4)) / 2).epsilon(1e-14));
  CHECK(heads[0].entropy_limit == doctest::Approx((std::log(2.0) + std::log(3.0)) / 2).epsilon(1e-14));
  CHECK(heads[0].jacobian ==
        doctest::Approx(3 * (0.5 + 1 - 0.5625 - 0.2499 * 0.2499 - 1e-8) / 2).epsilon(1e-14));
  CHECK(heads[0].share_below_1e3 == doctest::Approx(0.2));
  CHECK(heads[0].share_below_1e7 == 0);
  CHECK(heads[1].entropy == 0);
  CHECK(heads[1].jacobian == 0);
  CHECK(heads[1].share_below_1e7 == doctest::Approx(0.6));
  CHECK(std::isnan(heads[0].grad_norm_q));
  trace.distribution = false;
  CHECK(std::isnan(inspect(trace)[0].entropy));
  CHECK(std::isnan(inspect(trace)[0].jacobian));
  trace.weights = zeros({1, 2, 3, 0});  // no keys
  trace.visible = Tensor();
  CHECK(inspect(trace).size() == 2);
  CHECK(std::isnan(inspect(trace)[0].share_below_1e3));
  CHECK_THROWS_WITH(inspect(MixerTrace{}), doctest::Contains("the trace has no weights"));
}

TEST_CASE("figures of an attention: equal weights over what padding leaves, gradients by head") {
  Generator g(3);
  const auto normal = [&](const Shape& shape) { return randn(shape, DType::float64, Device::cpu, 0, 1, g); };
  const Tensor q = zeros({2, 4, 3, 6}, DType::float64), k = normal({2, 2, 5, 6}), v = normal({2, 2, 5, 6});
  const int64_t lengths[] = {4, 2};
  ComposedAttention attention(parse_attention("scale=0.5"), 4, 6, 16);
  Tape tape;
  for (const Tensor& x : {q, k, v}) tape.watch(x);
  MixerTrace trace;
  const Tensor y = attention.forward(q, k, v, {.allowed = padding_mask(lengths, 5)}, nullptr, &trace);
  const auto d = tape.gradient({sum(square(y))}, {trace.q, trace.k, trace.v});
  const auto heads = inspect(trace, {d[0], d[1], d[2]});
  REQUIRE(heads.size() == 4);
  for (size_t h = 0; h < 4; ++h) {
    CHECK(heads[h].entropy == doctest::Approx(std::log(8.0) / 2).epsilon(1e-14));
    CHECK(heads[h].entropy_limit == doctest::Approx(std::log(8.0) / 2).epsilon(1e-14));
    CHECK(heads[h].jacobian == doctest::Approx(0.5 * (0.75 + 0.5) / 2).epsilon(1e-14));
    const auto head = static_cast<int64_t>(h);
    const auto norm = [](const Tensor& x) { return std::sqrt(sum(square(x)).item()); };
    CHECK(heads[h].grad_norm_q == doctest::Approx(norm(select(d[0], 1, head))).epsilon(1e-14).scale(0));
    CHECK(heads[h].grad_norm_k == 0);  // q is 0
    CHECK(heads[h].grad_norm_v == doctest::Approx(norm(select(d[2], 1, head / 2))).epsilon(1e-14).scale(0));
    CHECK(heads[h].grad_norm_q > 0);
  }
}

TEST_CASE(
    "the size of a Jacobian is half the L1 norm of a computed one, through each normalizer and a softcap") {
  Generator g(8);
  const auto normal = [&](const Shape& shape) {
    return randn(shape, DType::float64, Device::cpu, 0, 0.6, g);
  };
  const int64_t keys = 5, size = 4;
  const Tensor q = normal({1, 1, 1, size}), k = normal({1, 1, keys, size}), v = normal({1, 1, keys, size});
  const std::pair<const char*, double> caps[] = {
      {"standard", 0},          {"softcap=2", 2}, {"softcap=0.5+scale=3", 0.5}, {"sparsemax", 0},
      {"sparsemax+scale=3", 0}, {"entmax", 0},    {"entmax+softcap=2", 2},      {"entmax+scale=3", 0}};
  for (const auto& entry : caps) {
    const char* const name = entry.first;
    const double cap = entry.second;
    INFO(std::string(name));
    const ComposedAttention attention(parse_attention(name), 1, size, 16);
    MixerTrace trace;
    attention.forward(q, k, v, {}, nullptr, &trace);
    // The Jacobian with respect to z = q·k, row by row, from the formulas of the parts only.
    double norm = 0;
    for (int64_t i = 0; i < keys; ++i) {
      const Tensor z = matmul(q, transpose(k));
      Tape tape;
      tape.watch(z);
      const Tensor s = z * attention.scale();
      const Tensor p = attention.normalize(cap > 0 ? cap * tanh(s / cap) : s).weights;
      const Tensor row = tape.gradient({select(reshape(p, {keys}), 0, i)}, {z})[0];
      norm += sum(abs(row)).item();
    }
    CHECK(inspect(trace)[0].jacobian == doctest::Approx(norm / 2).epsilon(1e-12));
  }
}

TEST_CASE("weights that are no function of q·k, and other weights times factors, have no Jacobian") {
  const auto jacobian_of = [](const char* name) {
    manual_seed(1);
    const auto mixer = make_mixer({.width = 8, .heads = 2, .context = 8, .name = name});
    mixer->to(DType::float64);
    MixerTrace trace;
    mixer->forward(randn({1, 6, 8}, DType::float64), {.mask = {.causal = true}, .trace = &trace});
    return inspect(trace)[0].jacobian;
  };
  CHECK(std::isnan(jacobian_of("linear")));
  CHECK(std::isnan(jacobian_of("performer")));
  CHECK(std::isnan(jacobian_of("entmax+adaptive_span")));
  CHECK(std::isfinite(jacobian_of("adaptive_span")));
  CHECK(std::isfinite(jacobian_of("entmax")));
  // With one chunk and one bucket, LSH attention has the support of its parts.
  const double sparse = jacobian_of("lsh=buckets=2:rounds=1+sparsemax"),
               soft = jacobian_of("lsh=buckets=2:rounds=1");
  CHECK(std::isfinite(sparse));
  CHECK(sparse != soft);
}
