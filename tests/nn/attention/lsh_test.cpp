// LSH attention against its definition by pairs, its cost, and its mixer. The golden cases compare
// values and gradients too.
#include "nn/attention/lsh.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/creation.h"
#include "core/gradcheck/check_gradients.h"
#include "core/memory/allocator.h"
#include "core/random.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/reference.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

/// How often each pair is shown, [n × n] for one head, by the text of the paper: sort, cut, look
/// one chunk back.
std::vector<double> shown(const std::vector<std::vector<int64_t>>& buckets, const LshOptions& o,
                          const std::vector<double>& valid) {
  const size_t n = valid.size();
  std::vector<double> times(n * n, 0);
  for (const auto& bucket : buckets) {
    std::vector<size_t> order;
    for (size_t i = 0; i < n; ++i)
      if (valid[i] != 0) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return bucket[i] < bucket[j]; });
    const auto chunk = static_cast<size_t>(o.chunk);
    for (size_t a = 0; a < order.size(); ++a)
      for (size_t b = 0; b < order.size(); ++b) {
        const size_t i = order[a], j = order[b];
        const bool near = a / chunk == b / chunk || a / chunk == b / chunk + 1;
        if (near && i != j && bucket[i] == bucket[j] && (!o.causal || j < i)) times[i * n + j] += 1;
      }
  }
  for (size_t i = 0; i < n; ++i)
    if (valid[i] != 0 && std::accumulate(&times[i * n], &times[i * n] + n, 0.0) == 0) times[i * n + i] = 1;
  return times;
}

/// The definition for one head: qk [n, d], v [n, e].
std::vector<double> by_pairs(const Tensor& qk, const Tensor& v, const std::vector<double>& times,
                             bool duplicates) {
  const auto n = static_cast<size_t>(qk.size(0)), d = static_cast<size_t>(qk.size(1)),
             e = static_cast<size_t>(v.size(1));
  const auto x = qk.values(), values = v.values();
  std::vector<double> y(n * e, 0);
  for (size_t i = 0; i < n; ++i) {
    double total = 0;
    for (size_t j = 0; j < n; ++j) {
      if (times[i * n + j] == 0) continue;
      double product = 0, square = 0;
      for (size_t c = 0; c < d; ++c)
        product += x[i * d + c] * x[j * d + c], square += x[j * d + c] * x[j * d + c];
      const double weight = std::exp(product / std::sqrt(square) / std::sqrt(static_cast<double>(d))) *
                            (duplicates ? times[i * n + j] : 1);
      total += weight;
      for (size_t c = 0; c < e; ++c) y[i * e + c] += weight * values[j * e + c];
    }
    for (size_t c = 0; c < e && total > 0; ++c) y[i * e + c] /= total;
  }
  return y;
}

const MixerOptions kOptions{.width = 8, .heads = 2, .context = 16, .name = "lsh", .out_deviation = 0.4};

LshAttention lsh_attention(const LshSizes& sizes, MixerOptions options = kOptions) {
  manual_seed(3);
  LshAttention mixer(options, sizes);
  mixer.to(DType::float64);
  return mixer;
}

}  // namespace

TEST_CASE(
    "chunks give what pairs give: rounds, causality, duplicates, padding, and a last chunk that is short") {
  Generator g(6);
  const ComposedAttention laser(parse_attention("laser"), 2, 4, 13),
      entmax(parse_attention("entmax"), 2, 4, 13);
  for (const int64_t chunk : {2, 4, 5, 40})
    for (const bool causal : {false, true})
      for (const bool duplicates : {false, true}) {
        INFO("chunk ", chunk, causal ? ", causal" : "", duplicates ? ", duplicates" : "");
        const int64_t n = 13, rounds = 3;
        const Tensor qk = test::normal({2, 2, n, 4}, 1), v = test::normal({2, 2, n, 3}, 2);
        const Tensor buckets = randint(0, 4, {rounds, 2, 2, n}, Device::cpu, g);
        std::vector<double> mask(26, 1);
        for (const size_t hidden : {0u, 1u, 13u + 12u}) mask[hidden] = 0;
        const LshOptions o{.chunk = chunk,
                           .causal = causal,
                           .duplicates = duplicates,
                           .valid = tensor(mask, {2, n}, DType::boolean)};
        Tensor weights;
        const Tensor y = lsh_attention(qk, v, buckets, o, &weights);
        CHECK(test::distance(matmul(weights, v), y) < 1e-14);
        Tensor sparse;
        LshOptions by_entmax = o;
        by_entmax.parts = &entmax;
        lsh_attention(qk, v, buckets, by_entmax, &sparse);
        const Tensor scores = matmul(qk, transpose(l2_normalize(qk))) / 2.0;
        LshOptions with_parts = o;
        with_parts.parts = &laser;
        for (const double size : {1.0, 200.0}) {  // near each other, and too far for one anchor
          const Tensor want = log_sum_exp(unsqueeze(log(weights), -1) + unsqueeze(v * size, -3), {-2});
          CHECK(test::distance(lsh_attention(qk, v * size, buckets, with_parts),
                               where(is_finite(want), want, 0.0)) < 1e-12 * size);
        }
        for (int64_t b = 0; b < 2; ++b)
          for (int64_t h = 0; h < 2; ++h) {
            std::vector<std::vector<int64_t>> own;
            for (int64_t r = 0; r < rounds; ++r) {
              own.emplace_back();
              for (const double bucket : select(select(select(buckets, 0, r), 0, b), 0, h).values())
                own.back().push_back(static_cast<int64_t>(bucket));
            }
            const auto head = [&](const Tensor& x) { return select(select(x, 0, b), 0, h); };
            const std::vector<double> valid(mask.begin() + b * n, mask.begin() + (b + 1) * n);
            const auto times = shown(own, o, valid);
            CHECK(spec::distance(head(y).values(), by_pairs(head(qk), head(v), times, duplicates), 1e-3) <
                  1e-13);
            if (duplicates) continue;
            // A pair that several rounds show has one weight, whatever makes weights of scores.
            const Tensor seen = greater(tensor(times, {n, n}, DType::float64), zeros({n, n}, DType::float64));
            CHECK(test::distance(head(sparse),
                                 entmax.normalize(where(seen, head(scores), -INFINITY)).weights) < 1e-13);
          }
      }
}

TEST_CASE("gradients, buckets that near vectors share, and what does not fit") {
  const Tensor rotations = test::normal({2, 4, 2}, 5), qk = test::normal({1, 2, 7, 4}, 1),
               v = test::normal({1, 2, 7, 3}, 2);
  const Tensor buckets = lsh_buckets(qk, rotations);
  CHECK(buckets.shape() == Shape{2, 1, 2, 7});
  CHECK(max(buckets).item() <= 3);
  CHECK(lsh_buckets(qk * 3.0, rotations).values() == buckets.values());
  const Tensor opposite = lsh_buckets(neg(qk), rotations);
  for (const double difference : abs(opposite - buckets).values()) CHECK(difference == 2);
  for (const bool causal : {false, true}) {
    const auto report = check_gradients(
        [&](const std::vector<Tensor>& x) {
          return lsh_attention(x[0], x[1], buckets, {.chunk = 2, .causal = causal});
        },
        {qk, v});
    CHECK_MESSAGE(report.passed, to_string(report));
  }
  CHECK(lsh_attention(slice(qk, 2, 0, 0), slice(v, 2, 0, 0), slice(buckets, 3, 0, 0)).shape() ==
        Shape{1, 2, 0, 3});
  CHECK_THROWS_WITH_AS(lsh_attention(qk, v, slice(buckets, 3, 0, 6)),
                       doctest::Contains("wanted int64 [R, 1, 2, 7]"), Error);
  CHECK_THROWS_WITH_AS(lsh_attention(qk, slice(v, 2, 0, 6), buckets),
                       doctest::Contains("wanted [B, H, T, D]"), Error);
  CHECK_THROWS_WITH_AS(lsh_attention(qk, v, buckets, {.valid = ones({1, 6}, DType::boolean)}),
                       doctest::Contains("wanted bool [1, 7]"), Error);
  CHECK_THROWS_WITH_AS(lsh_buckets(qk, slice(rotations, 1, 0, 3)),
                       doctest::Contains("wanted [B, H, T, D] and"), Error);
}

TEST_CASE("LASER reads rounds whose weights are tiny: float32 has the gradients of float64") {
  const ComposedAttention laser(parse_attention("laser"), 1, 2, 6);
  const auto gradients = [&](const Tensor& qk, const Tensor& v, const Tensor& buckets) {
    Tape tape;
    tape.watch(qk), tape.watch(v);
    return tape.gradient(sum(lsh_attention(qk, v, buckets, {.chunk = 4, .parts = &laser})), {qk, v});
  };
  for (uint64_t seed = 0; seed < 30; ++seed) {
    INFO("seed ", seed);
    Generator g(seed);
    const Tensor qk = test::normal({1, 1, 6, 2}, seed) * 70.0,
                 v = test::normal({1, 1, 6, 2}, seed + 100) * (seed % 2 == 0 ? 1.0 : 200.0);
    const Tensor buckets = randint(0, 2, {3, 1, 1, 6}, Device::cpu, g);
    const auto got = gradients(cast(qk, DType::float32), cast(v, DType::float32), buckets);
    const auto want = gradients(qk, v, buckets);
    for (size_t i : {0u, 1u}) CHECK(test::distance(cast(got[i], DType::float64), want[i]) < 1e-3);
  }
}

TEST_CASE("memory grows with the sequence, not with its square") {
  const auto peak = [](int64_t time) {
    const Tensor qk = cast(test::normal({1, 1, time, 8}, 1), DType::float32);
    const Tensor buckets = lsh_buckets(qk, test::normal({2, 8, 8}, 2));
    const size_t before = memory::statistics().now;
    memory::reset_peak();
    lsh_attention(qk, qk, buckets, {.chunk = 16, .causal = true});
    return static_cast<double>(memory::statistics().peak - before);
  };
  const double short_peak = peak(1024), long_peak = peak(4096);
  CHECK(long_peak < 4.5 * short_peak);
  CHECK(long_peak < 4096.0 * 4096 * 4);  // less than one tensor [T, T] of float32
}

TEST_CASE("the mixer: steps give the pass over their prefix, padding is as if it were not there") {
  for (const int64_t chunk : {2, 16}) {
    INFO("chunk ", chunk);
    MixerOptions options = kOptions;
    options.key_heads = 1;
    LshAttention mixer = lsh_attention({.rounds = 2, .chunk = chunk}, options);
    const Tensor x = test::normal({2, 9, 8}, 1);
    const MixerCall causal{.mask = {.causal = true}};
    const auto state = mixer.make_state(2, 9);
    const Tensor whole = mixer.forward(x, causal);
    for (const auto& [begin, end] : {std::pair{0, 4}, {4, 5}, {5, 9}}) {
      MixerCall call = causal;
      call.state = state.get();
      const Tensor step = mixer.forward(slice(x, 1, begin, end), call);
      CHECK(test::distance(step, slice(mixer.forward(slice(x, 1, 0, end), causal), 1, begin, end)) < 1e-14);
      if (chunk == 16) CHECK(test::distance(step, slice(whole, 1, begin, end)) < 1e-14);
    }
    CHECK(state->length() == 9);
    MixerCall lengths = causal;
    lengths.lengths = index_tensor(std::vector<int64_t>{9, 6}, {2});
    const Tensor alone = mixer.forward(slice(slice(x, 0, 1, 2), 1, 0, 6), causal);
    CHECK(test::distance(slice(slice(mixer.forward(x, lengths), 0, 1, 2), 1, 0, 6), alone) < 1e-14);
    MixerTrace trace;
    MixerCall traced = causal;
    traced.trace = &trace;
    CHECK(test::distance(mixer.forward(x, traced), whole) == 0);
    CHECK(test::distance(sum(trace.weights, {-1}), ones({2, 2, 9}, DType::float64)) < 1e-14);
    CHECK(test::distance(mixer.clone().forward(x, causal), whole) == 0);
  }
}

TEST_CASE("the mixer: sizes, and calls that have no place") {
  const LshAttention mixer = lsh_attention({.rounds = 3, .chunk = 4});
  CHECK(mixer.rotations.shape() == Shape{3, 4, 2});  // 4 buckets for a context of 16
  CHECK(mixer.explain() ==
        "lsh: 3 rounds of 4 buckets; in each a query sees its bucket in two chunks of 4 positions");
  const Tensor x = test::normal({1, 4, 8}, 1);
  const auto refused = [&](const MixerCall& call, const char* reason) {
    CHECK_THROWS_WITH_AS(mixer.forward(x, call), doctest::Contains(reason), Error);
  };
  refused({.source = x}, "a source has no place");
  refused({.mask = {.left = 2}}, "a window has no place");
  refused({.mask = {.allowed = ones({4, 4}, DType::boolean)}}, "wanted one of padding, [B, 1, 1, T]");
  CHECK_THROWS_WITH_AS(mixer.forward(slice(x, 2, 0, 6)), doctest::Contains("wanted [B, T, 8]"), Error);
  CHECK_THROWS_WITH_AS(LshAttention(kOptions, {}, parse_attention("rotary")),
                       doctest::Contains("no part can change its queries, keys or values"), Error);
  CHECK_THROWS_WITH_AS(lsh_attention({.buckets = 3}), doctest::Contains("the last one even"), Error);
  CHECK_THROWS_WITH_AS(lsh_attention({}, {.width = 7, .heads = 2}),
                       doctest::Contains("is no multiple of the 2 heads"), Error);
}
