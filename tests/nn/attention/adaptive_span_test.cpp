// Parts that limit or widen what a query sees: adaptive spans, learned masks, persistent memory.
// The golden cases compare values; tests over the table compare decoding, causality and padding.
#include "nn/attention/parts/adaptive_span.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "nn/attention/composed.h"
#include "nn/attention/differential.h"
#include "nn/check_gradients.h"
#include "nn/models/gpt.h"
#include "nn/training/inspect_attention.h"
#include "nn/transformer/mixers.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

struct Heads {
  Tensor q = test::normal({2, 2, 4, 3}, 1), k = test::normal({2, 1, 6, 3}, 2),
         v = test::normal({2, 1, 6, 3}, 3);
};

ComposedAttention composed_attention(const char* name) {
  ComposedAttention attention(parse_attention(name), 2, 3, 8);
  attention.to(DType::float64);
  return attention;
}

Tensor weights_of(const ComposedAttention& attention, const Heads& x, const AttentionMask& mask) {
  MixerTrace trace;
  attention.forward(x.q, x.k, x.v, mask, nullptr, &trace);
  return trace.weights;
}

/// Learning by the gradient of `loss` alone: the parameter moves against its sign.
void step(Parameter& p, double rate, const std::function<Tensor()>& loss) {
  p.zero_grad();
  {
    Tape tape;
    tape.backward(loss());
  }
  p.assign(p.master() - rate * p.grad());
}

}  // namespace

TEST_CASE("adaptive span: the ramp, in both directions, gradients, and a span below 0") {
  const Heads x;
  ComposedAttention attention = composed_attention("adaptive_span=2");
  auto& part = dynamic_cast<AdaptiveSpan&>(*attention.parts[0]);
  CHECK(part.span().values() == std::vector<double>{4, 4});  // half of the context
  part.share.assign(full({2}, 1.5 / 8, DType::float64));
  CHECK(part.span().values() == std::vector<double>{1.5, 1.5});
  // Distances 0, 1, 2, 3, 4: (2 + 1.5 − x)/2 within [0, 1]
  const Tensor factors = part.weight_factors(zeros({1, 2, 1, 5}, DType::float64));
  CHECK(slice(factors, 0, 0, 1).values() == std::vector<double>{0, 0.25, 0.75, 1, 1});
  const Tensor both = part.weight_factors(zeros({1, 2, 3, 3}, DType::float64));
  CHECK(slice(both, 0, 0, 1).values() == std::vector<double>{1, 1, 0.75, 1, 1, 1, 0.75, 1, 1});
  part.share.assign(tensor({0.31, 0.12}, {2}, DType::float64));
  const auto report = check_gradients(
      attention,
      [&](const std::vector<Tensor>& t) { return attention.forward(t[0], t[1], t[2], {.causal = true}); },
      {x.q, x.k, x.v});
  CHECK_MESSAGE(report.passed, to_string(report));
  // A span far below 0: each query has only itself, so that the output is its own value.
  part.share.assign(tensor({-9.0, -9.0}, {2}, DType::float64));
  CHECK(test::distance(attention.forward(x.q, x.k, x.v, {.causal = true}),
                       expand(slice(x.v, 2, 2, 6), {2, 2, 4, 3})) < 1e-14);
  // A span over everything is ordinary attention.
  part.share.assign(tensor({9.0, 9.0}, {2}, DType::float64));
  CHECK(test::distance(attention.forward(x.q, x.k, x.v, {.causal = true}),
                       composed_attention("standard").forward(x.q, x.k, x.v, {.causal = true})) < 1e-14);
}

TEST_CASE("the span's penalty is a mean over heads, a sum over layers, and shrinks spans to 0") {
  Gpt model({.vocabulary = 5, .context = 8, .width = 8, .layers = 2, .heads = 2, .mixer = "adaptive_span"});
  CHECK(span_penalty(model).item() == doctest::Approx(8));  // half of the context in each layer
  std::vector<Parameter> shares;
  for (auto& [path, p] : model.named_parameters())
    if (path.ends_with("share")) shares.push_back(p);
  REQUIRE(shares.size() == 2);
  shares[0].assign(tensor({0.25, -1.0}, {2}));
  CHECK(span_penalty(model).item() == doctest::Approx(1 + 4));  // a span below 0 counts as 0
  for (int i = 0; i < 50; ++i) step(shares[1], 0.01, [&] { return span_penalty(model); });
  CHECK(span_penalty(model).item() == doctest::Approx(1).epsilon(0.02));
  Gpt plain({.vocabulary = 5, .context = 8, .width = 8, .layers = 1, .heads = 2});
  CHECK_THROWS_WITH_AS(span_penalty(plain), doctest::Contains("no attention of the module"), Error);
}

TEST_CASE("a learned mask hides distances exactly, and the straight-through gradient opens and closes it") {
  const Heads x;
  ComposedAttention attention = composed_attention("learned_mask");
  const AttentionMask causal{.causal = true};
  CHECK(test::distance(attention.forward(x.q, x.k, x.v, causal),
                       composed_attention("standard").forward(x.q, x.k, x.v, causal)) < 1e-14);
  Parameter logits = attention.parameters()[0];
  // Head 0 sees the distances 0 and 2 (0 always), head 1 those up to 1.
  std::vector<double> own(16, -0.5);
  own[2] = own[8 + 0] = own[8 + 1] = 0.7;
  logits.assign(tensor(own, {2, 8}, DType::float64));
  const Tensor weights = weights_of(attention, x, causal);
  const Tensor seen = greater(slice(weights, 0, 0, 1), zeros({1}, DType::float64));
  CHECK(seen.values() == std::vector<double>{1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0,
                                             1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0,
                                             1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1});
  const Tensor allowed = unsqueeze(cast(slice(seen, 0, 0, 1), DType::boolean), 0);
  CHECK(test::distance(attention.forward(x.q, x.k, x.v, causal),
                       composed_attention("standard")
                           .forward(x.q, x.k, x.v,
                                    {.causal = true, .allowed = reshape(allowed, {1, 2, 4, 6})})) < 1e-14);
  // Only the key at distance 1 has a value. A loss that asks for it opens the mask there.
  const Heads y{test::normal({1, 2, 4, 3}, 1), test::normal({1, 2, 4, 3}, 2),
                zeros({1, 2, 4, 3}, DType::float64)};
  const Tensor v = concat({zeros({1, 2, 2, 3}, DType::float64), ones({1, 2, 1, 3}, DType::float64),
                           zeros({1, 2, 1, 3}, DType::float64)},
                          2);
  const auto last = [&] { return sum(slice(attention.forward(y.q, y.k, v, causal), 2, 3, 4)); };
  logits.assign(full({2, 8}, -0.5, DType::float64));
  CHECK(last().item() == 0);
  const auto opened = [&] { return logits.master().values()[1] > 0; };
  for (int i = 0; i < 2000 && !opened(); ++i) step(logits, 0.05, [&] { return -1.0 * last(); });
  CHECK(opened());
  CHECK(last().item() > 0.01);
  CHECK(logits.master().values()[2] < 0);  // nothing there
  for (int i = 0; i < 2000 && last().item() > 0; ++i) step(logits, 0.05, last);
  CHECK(last().item() == 0);
}

TEST_CASE("persistent memory is a softmax over memory and keys, gradients, and no window hides it") {
  const Heads x;
  ComposedAttention attention = composed_attention("persistent=2");
  CHECK(attention.path() == ComposedAttention::Path::fused);
  const auto report =
      check_gradients(attention,
                      [&](const std::vector<Tensor>& t) {
                        return attention.forward(t[0], t[1], t[2], {.causal = true, .left = 1});
                      },
                      {x.q, x.k, x.v});
  CHECK_MESSAGE(report.passed, to_string(report));
  const auto own = attention.parameters();
  REQUIRE(own.size() == 2);
  const auto joined = [](const Parameter& memory, const Tensor& rest) {
    return concat({expand(memory.value(), {2, 2, 2, 3}), expand(rest, {2, 2, 6, 3})}, 2);
  };
  // The last of 4 queries sees keys 4 and 5 (window), the first one 1 and 2, and all the memory.
  const Tensor window = AttentionMask{.causal = true, .left = 1}.visible(4, 6, Device::cpu);
  const Tensor visible = concat({ones({4, 2}, DType::boolean), window}, 1);
  const Tensor scores = matmul(x.q, transpose(joined(own[0], x.k))) / std::sqrt(3.0);
  const Tensor want = matmul(softmax(where(visible, scores, -INFINITY)), joined(own[1], x.v));
  CHECK(test::distance(attention.forward(x.q, x.k, x.v, {.causal = true, .left = 1}), want) < 1e-14);
  // Masks of any rank, a bias, and more queries than keys: the parts agree on both paths, and a
  // query without keys has no memory.
  AttentionMask biased{.bias = test::normal({1}, 4)},
      ranked{.allowed = tensor({1, 0, 1, 1, 0, 0}, {6}, DType::boolean)};
  for (const AttentionMask& mask : {biased, ranked, AttentionMask{.right = 0}, AttentionMask{.left = 0}}) {
    MixerTrace trace;
    CHECK(test::distance(attention.forward(x.q, x.k, x.v, mask),
                         attention.forward(x.q, x.k, x.v, mask, nullptr, &trace)) < 1e-14);
    CHECK(trace.weights.shape() == Shape{2, 2, 4, 8});
    CHECK(min(slice(trace.weights, 3, 0, 2)).item() > 0);
  }
  const Tensor few = attention.forward(x.q, slice(x.k, 2, 0, 3), slice(x.v, 2, 0, 3), {.causal = true});
  CHECK(max(abs(slice(few, 2, 0, 1))).item() == 0);
  CHECK(min(abs(slice(few, 2, 1, 2))).item() > 0);
  const Tensor none = attention.forward(x.q, slice(x.k, 2, 0, 0), slice(x.v, 2, 0, 0), {});
  CHECK(max(abs(none)).item() == 0);
}

TEST_CASE("persistent memory composes with norms, rotations, masks and LASER, and refuses distances") {
  const Heads x;
  for (const char* name : {"persistent=2+qk_norm+laser", "persistent=2+window=2", "persistent=2+entmax"})
    CHECK_NOTHROW(composed_attention(name).forward(x.q, x.k, x.v, {.causal = true}));
  for (const char* name :
       {"persistent=2+alibi", "persistent=2+rotary", "persistent=2+t5", "persistent=2+adaptive_span"})
    CHECK_THROWS_WITH_AS(ComposedAttention(parse_attention(name), 2, 4, 8),
                         doctest::Contains("the keys that persistent adds have no position"), Error);
  CHECK_THROWS_WITH_AS(
      parse_mixer("differential+persistent"),
      doctest::Contains("differential takes no part persistent: no part can change its keys and values"),
      Error);
  CHECK_THROWS_WITH_AS(composed_attention("persistent=0"),
                       doctest::Contains("wanted a whole number from 1 on"), Error);
  CHECK_THROWS_WITH_AS(composed_attention("persistent").forward(x.q, x.k, slice(x.v, 3, 0, 2), {}),
                       doctest::Contains("are [2, 16, 3], wanted [2, M, 2]"), Error);
  // Parts that need shared positions have no place in a cross-attention; the memory has.
  CHECK(
      cross_attention_of({.width = 8, .heads = 2, .name = "persistent+adaptive_span=ramp=4+learned_mask"}) ==
      "persistent");
}

TEST_CASE("the maps of a report label the keys of a memory, which come first") {
  Gpt model({.vocabulary = 5, .context = 4, .width = 8, .layers = 1, .heads = 2, .mixer = "persistent=2"});
  std::vector<MixerTrace> traces;
  report::RunRecord record;
  Tape tape;
  const Tensor loss = sum(model.features(zeros({1, 3}, DType::int64), {.traces = &traces}));
  const std::vector<std::string> labels = {"a", "b", "c"};
  training::inspect_attention(tape, loss, traces, labels, labels, record);
  REQUIRE(record.maps.size() == 2);
  CHECK(record.maps[0].key_labels == std::vector<std::string>{"memory", "memory", "a", "b", "c"});
  CHECK(record.maps[0].weights.size() == 3 * 5);
}
