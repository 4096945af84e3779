// The tuned kernels and their gradients against plain loops in float64, in every dtype.
#include "ops/plain.h"

#include <doctest/doctest.h>

#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using test::distance;

namespace {

constexpr auto kWide = DType::float64;

/// The permitted error: some roundings of the dtype, and for float64 the roundings of sums.
double limit(DType dtype) { return dtype == kWide ? 1e-13 : 8 * epsilon(dtype); }

/// The result of f(xs), followed by the gradients of xs for the output's gradient dy.
std::vector<Tensor> run(const test::Function& f, const std::vector<Tensor>& xs, const Tensor& dy) {
  Tape tape;
  for (const Tensor& x : xs) tape.watch(x);
  const Tensor y = f(xs);
  std::vector<Tensor> all = tape.gradient({y}, xs, {cast(dy, y.dtype())});
  all.insert(all.begin(), y);
  return all;
}

void check_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want, DType dtype) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO(name(dtype), ", result ", i);
    CHECK(distance(cast(got[i], kWide), want[i]) < limit(dtype));
  }
}

/// Numbers of the given dtype, and the same numbers in float64.
struct Drawn {
  Tensor x, wide;
  Drawn(const Shape& shape, uint64_t seed, DType dtype)
      : x(test::random(shape, seed, dtype, -2, 2)), wide(cast(x, kWide)) {}
};

constexpr DType kDtypes[] = {DType::float64, DType::float32, DType::bfloat16, DType::float16};

}  // namespace

TEST_CASE("softmax and its gradient are those of the plain loops") {
  for (const DType dtype : kDtypes)
    for (const int64_t n : {1, 7, 64, 1000}) {
      const Drawn x({3, n}, 1, dtype), dy({3, n}, 2, dtype);
      Tensor y = empty_like(x.wide), dx = empty_like(x.wide);
      plain::softmax(y, x.wide);
      const auto got = run([](const std::vector<Tensor>& xs) { return softmax(xs[0]); }, {x.x}, dy.x);
      plain::softmax_backward(dx, dy.wide, cast(got[0], kWide));
      check_close(got, {y, dx}, dtype);
    }
}

TEST_CASE("layer_norm and its gradients are those of the plain loops") {
  for (const DType dtype : kDtypes)
    for (const int64_t n : {2, 7, 64, 1000}) {
      const Drawn x({5, n}, 1, dtype), weight({n}, 2, dtype), bias({n}, 3, dtype), dy({5, n}, 4, dtype);
      Tensor y = empty_like(x.wide), dx = empty_like(x.wide), dweight = empty_like(weight.wide),
             dbias = empty_like(bias.wide);
      plain::layer_norm(y, x.wide, weight.wide, bias.wide, 1e-5);
      plain::layer_norm_backward(dx, dweight, dbias, dy.wide, x.wide, weight.wide, 1e-5);
      check_close(run([](const std::vector<Tensor>& xs) { return layer_norm(xs[0], xs[1], xs[2], 1e-5); },
                      {x.x, weight.x, bias.x}, dy.x),
                  {y, dx, dweight, dbias}, dtype);
    }
}

TEST_CASE("cross_entropy and its gradient are those of the plain loops") {
  for (const DType dtype : kDtypes)
    for (const int64_t n : {1, 7, 64, 1000}) {
      const Drawn x({4, n}, 1, dtype);
      const Tensor dy = test::random({4}, 2, kWide, 0.5, 2);
      const Tensor targets =
          tensor({0, static_cast<double>(n - 1), static_cast<double>(n / 2), 0}, DType::int64);
      Tensor losses = empty({4}, kWide), dx = empty_like(x.wide);
      plain::cross_entropy(losses, x.wide, targets);
      plain::cross_entropy_backward(dx, cast(cast(dy, accumulation_dtype(dtype)), kWide), x.wide, targets);
      check_close(run(
                      [&](const std::vector<Tensor>& xs) {
                        return cross_entropy(xs[0], targets, {.reduction = Reduction::none});
                      },
                      {x.x}, dy),
                  {losses, dx}, dtype);
    }
}

TEST_CASE("attention and its gradients are those of the plain loops") {
  for (const DType dtype : kDtypes)
    for (const bool causal : {false, true})
      for (const auto& [queries, keys] : {std::pair{1, 1}, {5, 5}, {3, 70}, {70, 130}}) {
        const Drawn q({queries, 8}, 1, dtype), k({keys, 8}, 2, dtype), v({keys, 5}, 3, dtype),
            dy({queries, 5}, 4, dtype);
        Tensor y = empty({queries, 5}, kWide), dq = empty_like(q.wide), dk = empty_like(k.wide),
               dv = empty_like(v.wide);
        plain::attention(y, q.wide, k.wide, v.wide, 0.4, causal);
        plain::attention_backward(dq, dk, dv, dy.wide, q.wide, k.wide, v.wide, 0.4, causal);
        AttentionOptions options;
        options.scale = 0.4;
        options.causal = causal;
        const auto one_head = [&](const std::vector<Tensor>& xs) {
          const auto heads = [](const Tensor& x) { return unsqueeze(unsqueeze(x, 0), 0); };
          return squeeze(attention(heads(xs[0]), heads(xs[1]), heads(xs[2]), options), {0, 1});
        };
        check_close(run(one_head, {q.x, k.x, v.x}, dy.x), {y, dq, dk, dv}, dtype);
      }
}
