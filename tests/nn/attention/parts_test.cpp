// User-defined parts that override each stage, and combinations that are errors.
#include "nn/attention/part.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/creation.h"
#include "core/gradcheck/check_gradients.h"
#include "core/random.h"
#include "nn/attention/composed.h"
#include "nn/attention/multi_head.h"
#include "nn/attention/patterns.h"
#include "nn/attention/positions.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/reference.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

/// Scores −|q − k|².
class Distance : public AttentionPart {
 public:
  Tensor score(const Tensor& q, const Tensor& k) const override {
    return neg(sum(square(unsqueeze(q, 3) - unsqueeze(k, 2)), {-1}));
  }
};

/// A query takes the values times themselves.
class Squares : public AttentionPart, public ReadOut {
 public:
  const ReadOut* read_out() const override { return this; }
  Tensor encode(const Tensor& v, const Tensor&) const override { return square(v); }
};

/// Values times their position + 1.
class Aging : public AttentionPart {
 public:
  bool fold(AttentionOptions&, const FoldCall&) const override { return true; }
  Tensor prepare_values(const Tensor& v, const RowPositions& at) const override {
    const auto begin = static_cast<double>(at.first + 1), count = static_cast<double>(v.size(2));
    return v * reshape(arange(begin, begin + count, 1, v.dtype()), {v.size(2), 1});
  }
};

/// Keys minus their mean over the sequence.
class Centered : public AttentionPart {
 public:
  Traits traits() const override { return {.cacheable = false}; }
  bool fold(AttentionOptions&, const FoldCall&) const override { return true; }
  Tensor prepare_keys(const Tensor& k, const RowPositions&) const override {
    return k - mean(k, {2}, KeepAxes::yes);
  }
};

/// Weights multiplied by 1, 2, 3, … along the keys.
class Later : public AttentionPart {
 public:
  Tensor weight_factors(const Tensor& weights) const override {
    return arange(1, static_cast<double>(weights.size(-1)) + 1, 1, weights.dtype());
  }
};

/// Every head becomes the mean of the heads.
class Averaged : public AttentionPart {
 public:
  bool fold(AttentionOptions&, const FoldCall&) const override { return true; }
  Tensor combine(const Tensor& y) const override { return expand(mean(y, {1}, KeepAxes::yes), y.shape()); }
};

template <class Part>
void add(const char* name, Stage stage) {
  register_attention_part({.name = name, .stage = stage, .help = "of a test", .make = [](auto&, auto&) {
                             return std::make_unique<Part>();
                           }});
}

[[maybe_unused]] const bool kRegistered = [] {
  add<Distance>("distance", Stage::score), add<Distance>("distance_again", Stage::score);
  add<Squares>("squares", Stage::read), add<Squares>("squares_again", Stage::read);
  add<Aging>("aging", Stage::prepare), add<Centered>("centered", Stage::prepare);
  add<Later>("later", Stage::reweight), add<Averaged>("averaged", Stage::combine);
  return true;
}();

/// The result for q [2, 4, 5, 6] and two key heads with 7 keys and values.
struct HeadInputs {
  Tensor q = test::normal({2, 4, 5, 6}, 1), k = test::normal({2, 2, 7, 6}, 2),
         v = test::normal({2, 2, 7, 6}, 3);
  Tensor keys = repeat_heads(k), values = repeat_heads(v);

  static Tensor repeat_heads(const Tensor& x) { return reshape(stack({x, x}, 2), {2, 4, 7, 6}); }
};

Tensor forward(const std::string& name, const Tensor& q, const Tensor& k, const Tensor& v) {
  const ComposedAttention attention(parse_attention(name), 4, 6, 16);
  return attention.forward(q, k, v, {});
}

void check_equal(const Tensor& got, const Tensor& want) {
  REQUIRE(got.shape() == want.shape());
  CHECK(spec::distance(got.values(), want.values(), 1e-3) <= 1e-12);
}

}  // namespace

TEST_CASE("a part may have scores, a read and prepared values of its own, and gradients pass through them") {
  const HeadInputs x;
  const Tensor apart = sum(square(unsqueeze(x.q, 3) - unsqueeze(x.keys, 2)), {-1});
  check_equal(forward("distance", x.q, x.k, x.v), matmul(softmax(neg(apart)), x.values));
  check_equal(forward("distance+softcap=2", x.q, x.k, x.v),
              matmul(softmax(2.0 * tanh(neg(apart) / 2.0)), x.values));
  check_equal(forward("squares", x.q, x.k, x.v), forward("standard", x.q, x.k, square(x.v)));
  const Tensor age = reshape(arange(1, 8, 1, DType::float64), {7, 1});
  check_equal(forward("aging", x.q, x.k, x.v), forward("standard", x.q, x.k, x.v * age));
  check_equal(forward("aging+laser", x.q, x.k, x.v), forward("laser", x.q, x.k, x.v * age));
  const Tensor later =
      softmax(matmul(x.q, transpose(x.keys)) / std::sqrt(6.0)) * arange(1, 8, 1, DType::float64);
  check_equal(forward("later", x.q, x.k, x.v), matmul(later / sum(later, {-1}, KeepAxes::yes), x.values));
  check_equal(forward("averaged+laser", x.q, x.k, x.v),
              expand(mean(forward("laser", x.q, x.k, x.v), {1}, KeepAxes::yes), {2, 4, 5, 6}));
  for (const char* name : {"distance+squares", "aging+distance+alibi", "later+laser+averaged"}) {
    const auto report = check_gradients(
        [&](const std::vector<Tensor>& t) { return forward(name, t[0], t[1], t[2]); }, {x.q, x.k, x.v});
    CHECK_MESSAGE(report.passed, to_string(report));
  }
}

TEST_CASE("a window is the mask's window, folded into the fused op, and the narrower of the two counts") {
  const HeadInputs x;
  const ComposedAttention attention(parse_attention("window=3"), 4, 6, 16),
      plain(parse_attention("standard"), 4, 6, 16);
  CHECK(attention.path() == ComposedAttention::Path::fused);
  const auto of = [&](const ComposedAttention& a, AttentionMask mask) {
    return a.forward(x.q, x.k, x.v, mask);
  };
  check_equal(of(attention, {.causal = true}), of(plain, {.causal = true, .left = 2}));
  check_equal(of(attention, {.causal = true, .left = 1}), of(plain, {.causal = true, .left = 1}));
  // An encoder looks to both sides.
  check_equal(of(attention, {}), of(plain, {.left = 2, .right = 2}));
  check_equal(of(attention, {.right = 1}), of(plain, {.left = 2, .right = 1}));
  CHECK_THROWS_WITH_AS(parse_attention("window=0.5"),
                       doctest::Contains("width is 0.5, wanted a whole number from 1 on"), Error);
}

TEST_CASE("sparse patterns: what each query sees, and each row alone as in the full pass") {
  const auto text_of = [](const Tensor& pattern) {
    std::string text;
    const auto seen = pattern.values();
    for (size_t i = 0; i < seen.size(); ++i) {
      if (i > 0 && i % static_cast<size_t>(pattern.size(1)) == 0) text += ' ';
      text += seen[i] != 0 ? 'x' : '.';
    }
    return text;
  };
  const std::vector<int64_t> first = {0};
  CHECK(text_of(dilated_pattern({5, 5}, 1, 2)) == "x.x.. .x.x. x.x.x .x.x. ..x.x");
  CHECK(text_of(global_pattern({4, 4}, 1, first)) == "xxxx xxx. xxxx x.xx");
  CHECK(text_of(strided_pattern({4, 4}, 2)) == "xxx. xxxx xxxx .xxx");
  CHECK(text_of(fixed_pattern({4, 4}, 2, 1)) == "xx.x xx.x .xxx .xxx");
  for (int64_t t = 0; t < 6; ++t) {
    CHECK(text_of(fixed_pattern({1, t + 1}, 2, 1)) ==
          text_of(slice(fixed_pattern({t + 1, t + 1}, 2, 1), 0, t, t + 1)));
    CHECK(text_of(global_pattern({1, t + 1}, 1, first)) ==
          text_of(slice(global_pattern({t + 1, t + 1}, 1, first), 0, t, t + 1)));
  }
  const HeadInputs x;
  const ComposedAttention attention(parse_attention("dilated=1:2"), 4, 6, 16),
      plain(parse_attention("standard"), 4, 6, 16);
  CHECK(attention.path() == ComposedAttention::Path::fused);
  const Tensor allowed = dilated_pattern({5, 7}, 1, 2);
  check_equal(attention.forward(x.q, x.k, x.v, {.causal = true}),
              plain.forward(x.q, x.k, x.v, {.causal = true, .allowed = allowed}));
  CHECK_THROWS_WITH_AS(ComposedAttention(parse_attention("fixed=stride=2:summary=3"), 4, 6, 16),
                       doctest::Contains("stride is 2 and summary 3, wanted"), Error);
}

TEST_CASE("global tokens are the mask's window with first keys if it is causal, and else a mask of pairs") {
  const HeadInputs x;
  const ComposedAttention attention(parse_attention("global=tokens=2:window=1"), 4, 6, 16),
      narrow(parse_attention("global=tokens=2:window=1+window=2"), 4, 6, 16),
      plain(parse_attention("standard"), 4, 6, 16);
  const auto of = [&](const ComposedAttention& a, AttentionMask mask) {
    return a.forward(x.q, x.k, x.v, mask);
  };
  const std::vector<int64_t> first = {0, 1};
  const Tensor allowed = global_pattern({5, 7}, 1, first);
  check_equal(of(attention, {.causal = true}), of(plain, {.causal = true, .left = 1, .first = 2}));
  check_equal(of(attention, {.causal = true}), of(plain, {.causal = true, .allowed = allowed}));
  check_equal(of(attention, {}), of(plain, {.allowed = allowed}));
  // Two windows, of which only one shows the first keys, are no window but a mask of pairs.
  check_equal(of(attention, {.causal = true, .left = 3}),
              of(plain, {.causal = true, .left = 3, .allowed = allowed}));
  check_equal(of(narrow, {.causal = true}), of(plain, {.causal = true, .left = 1}));
  // Of two windows that show the same keys, the narrower counts.
  check_equal(of(attention, {.causal = true, .left = 0, .first = 2}),
              of(plain, {.causal = true, .left = 0, .first = 2}));
}

TEST_CASE(
    "a part that only prepares leaves the fused path, and decoding with a cache gives what the full pass gives") {
  const ComposedAttention aging(parse_attention("aging"), 4, 6, 16),
      distance(parse_attention("distance"), 4, 6, 16);
  CHECK(aging.path() == ComposedAttention::Path::fused);
  CHECK(distance.path() == ComposedAttention::Path::generic);
  manual_seed(1);
  for (const char* name : {"aging", "distance+aging", "squares"}) {
    INFO(name);
    const MultiHeadAttention attention({.width = 8, .heads = 2, .context = 6, .name = name});
    const Tensor x = randn({2, 6, 8});
    const Tensor whole = attention.forward(x, {.mask = {.causal = true}});
    KeyValueCache cache(6);
    for (int64_t t = 0; t < 6; ++t)
      CHECK(
          spec::distance(
              attention.forward(slice(x, 1, t, t + 1), {.mask = {.causal = true}, .state = &cache}).values(),
              slice(whole, 1, t, t + 1).values(), 1e-2) <= 1e-5);
  }
}

TEST_CASE("what does not compose is refused with its reason") {
  const HeadInputs x;
  const auto refused = [&](const char* name, const char* reason) {
    INFO(name);
    CHECK_THROWS_WITH_AS(forward(name, x.q, x.k, x.v), doctest::Contains(reason), Error);
  };
  refused("distance+distance_again",
          "distance and distance_again exclude each other: both change the scores");
  refused("squares+squares_again",
          "squares and squares_again exclude each other: both change the read of the values");
  refused("squares+laser", "squares and laser exclude each other: both change the read of the values");
  refused("distance+cosine", "scores of its own, which have no scale");
  refused("distance+optimal", "scores of its own, which have no scale");
  const MultiHeadAttention attention({.width = 8, .heads = 2, .context = 6, .name = "centered"});
  KeyValueCache cache(6);
  CHECK_NOTHROW(attention.forward(randn({1, 3, 8}), {.mask = {.causal = true}}));
  CHECK_THROWS_WITH_AS(attention.forward(randn({1, 3, 8}), {.mask = {.causal = true}, .state = &cache}),
                       doctest::Contains("keys or values of centered change when later ones come"), Error);
  CHECK(cache.length() == 0);
}

TEST_CASE("names of one mechanism have one text, in the order in which the parts run") {
  for (const char* name : {"alibi+laser+softcap=3+qk_norm", "softcap=3+qk_norm+alibi+laser"})
    CHECK(parse_attention(name).text() == "qk_norm+softcap=3+alibi+laser");
  CHECK(parse_attention("standard").text() == "standard");
  const HeadInputs x;
  check_equal(forward("rotary+qk_norm+temperature", x.q, x.k, x.v),
              forward("temperature+qk_norm+rotary", x.q, x.k, x.v));
}

TEST_CASE("rotary takes its pairing, theta, share of the channels and scaling by name") {
  const HeadInputs x;
  // The last query is aligned with the last key
  const auto rotated = [&](const RotaryOptions& options) {
    return forward("standard", rotate(x.q, 2, options), rotate(x.k, 0, options), x.v);
  };
  check_equal(forward("rotary", x.q, x.k, x.v), rotated({}));
  check_equal(forward("rotary=half", x.q, x.k, x.v), rotated({}));
  check_equal(forward("rotary=interleaved:theta=50", x.q, x.k, x.v),
              rotated({.base = 50, .interleaved = true}));
  check_equal(forward("rotary=pairs=interleaved", x.q, x.k, x.v), rotated({.interleaved = true}));
  check_equal(forward("rotary=share=0.7:theta=20", x.q, x.k, x.v), rotated({.base = 20, .size = 4}));
  check_equal(forward("rotary=linear=4", x.q, x.k, x.v), rotated({.linear = 4}));
  check_equal(forward("rotary=share=0.7:ntk=3", x.q, x.k, x.v), rotated({.size = 4, .ntk = 3}));
  const auto far = forward("rotary=theta=50", x.q, x.k, x.v).values(),
             near = forward("rotary", x.q, x.k, x.v).values();
  CHECK(spec::distance(far, near, 1e-3) > 1e-3);
}

TEST_CASE("options that a part does not have, or that are out of range, are refused with what it has") {
  const auto refused = [](const char* name, const char* reason) {
    INFO(name);
    CHECK_THROWS_WITH_AS(ComposedAttention(parse_attention(name), 4, 6, 16), doctest::Contains(reason),
                         Error);
  };
  refused("rotary=thta=5",
          "rotary has no option thta=5; it has pairs (half or interleaved), theta (a finite");
  refused("rotary=thta=5", "; did you mean theta?");
  refused("rotary=interleavd", "rotary has no option interleavd; it has pairs");
  refused("rotary=interleavd", "; did you mean interleaved?");
  refused("rotary=both", "rotary has no option both");
  refused("rotary=pairs=both", "rotary: pairs is both, wanted half or interleaved");
  refused("rotary=theta=-1", "rotary: theta is -1, wanted a finite number above 0");
  refused("rotary=theta=1:theta=2", "rotary: theta is given twice");
  refused("rotary=linear=0", "rotary: linear is 0, wanted a finite number above 0");
  refused("rotary=share=0.4:ntk=2", "rotary: ntk is 2, wanted 1 for a single pair");
  refused("rotary=share=2", "rotary: the share is 2, wanted 1 at most");
  refused("rotary=share=0.1", "rotary: the share is 0.1, wanted 1 at most, and a pair of 6 channels");
  refused("softcap", "softcap needs a value, as softcap=2: the largest score, c, a finite number above 0");
  refused("softcap=2:3", "softcap: cap is given twice");
}

TEST_CASE("a part from outside may bring positions, and a model then learns none") {
  class Placed : public AttentionPart {
    Traits traits() const override { return {.positions = true}; }
    bool fold(AttentionOptions&, const FoldCall&) const override { return true; }
  };
  register_attention_part(
      {.name = "placed", .stage = Stage::prepare, .help = "of a test", .make = [](auto&, auto&) {
         return std::make_unique<Placed>();
       }});
  const AttentionSizes sizes{4, 6, 16};
  CHECK(brings_positions(parse_attention("laser+placed"), sizes));
  CHECK(brings_positions(parse_attention("rotary"), sizes));
  CHECK(!brings_positions(parse_attention("laser"), sizes));
}
