// The path that attention takes, agreement of the paths, masks, and registered parts.
#include "nn/attention/composed.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/creation.h"
#include "core/random.h"
#include "nn/attention/multi_head.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/nn/mechanisms.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using namespace vitrine::nn;
using test::mechanisms;

namespace {

struct Inputs {
  Tensor q, k, v, dy;
};

Inputs inputs(DType dtype = DType::float64) {
  Generator g(11);
  return {randn({2, 4, 5, 6}, dtype, Device::cpu, 0, 1, g), randn({2, 2, 7, 6}, dtype, Device::cpu, 0, 1, g),
          randn({2, 2, 7, 6}, dtype, Device::cpu, 0, 1, g), randn({2, 4, 5, 6}, dtype, Device::cpu, 0, 1, g)};
}

struct Result {
  std::vector<Tensor> tensors;  // y, then gradients of q, k, v and of the parameters
  std::set<std::string> ops;
};

Result run(Attention& attention, const Inputs& x, const AttentionMask& mask, bool weights) {
  Tape tape;
  for (const Tensor& t : {x.q, x.k, x.v}) tape.watch(t);
  MixerTrace trace;
  const Tensor y = attention.forward(x.q, x.k, x.v, mask, nullptr, weights ? &trace : nullptr);
  CHECK(trace.weights.defined() == weights);
  Result result{{y}, {}};
  for (size_t i = 0; i < tape.size(); ++i) result.ops.insert(tape.info(i).op);
  std::vector<Tensor> xs = {x.q, x.k, x.v};
  for (const Parameter& p : attention.parameters()) xs.push_back(p.value());
  for (const Tensor& g : tape.gradient({y}, xs, {x.dy})) result.tensors.push_back(g);
  return result;
}

std::vector<AttentionMask> masks() {
  const int64_t lengths[] = {7, 4};
  const int64_t empty_row[] = {7, 0};
  AttentionMask none, causal{.causal = true}, window{.left = 2, .right = 1}, padding{.causal = true}, biased,
      nothing, hidden_by_bias;
  padding.allowed = padding_mask(lengths, 7);
  nothing.allowed = padding_mask(empty_row, 7);
  Generator g(5);
  biased.bias = randn({4, 5, 7}, DType::float64, Device::cpu, 0, 1, g);
  biased.allowed = slice(prefix_mask(2, 7), 0, 2, 7);
  hidden_by_bias.bias = where(equal(reshape(arange(0, 5), {5, 1}), full({}, 2, DType::int64)),
                              full({5, 7}, -INFINITY, DType::float64), 0.0);
  return {none, causal, window, padding, biased, nothing, hidden_by_bias};
}

/// Weights that may be negative and do not sum to 1.
class Signed : public AttentionPart {
 public:
  Traits traits() const override { return {.distribution = false}; }
  Tensor normalize(const Tensor& scores) const override {
    return where(is_finite(scores), tanh(scores), 0.0);
  }
};

/// Queries times a learned factor: the fused op can follow.
class Sharpen : public AttentionPart {
 public:
  explicit Sharpen(double factor) : factor(full({}, factor)) {}
  bool fold(AttentionOptions&, const FoldCall&) const override { return true; }
  Tensor prepare_queries(const Tensor& q, const RowPositions&) const override { return q * factor.value(); }
  void fields(Fields& f) override { f("factor", factor); }
  Parameter factor;
};

/// Hides the first two keys.
class Forget : public AttentionPart {
 public:
  Tensor modify_scores(const Tensor& scores) const override {
    const Tensor late = greater(arange(0, static_cast<double>(scores.size(-1))), full({}, 1, DType::int64));
    return where(late, scores, -INFINITY);
  }
};

void register_parts() {
  static const bool once = [] {
    const auto add = [](const char* name, Stage stage, auto make) {
      register_attention_part({.name = name, .stage = stage, .help = "of a test", .make = make});
    };
    for (const char* name : {"signed", "opposite"})
      add(name, Stage::normalize, [](auto&, auto&) { return std::make_unique<Signed>(); });
    add("forget", Stage::modify, [](auto&, auto&) { return std::make_unique<Forget>(); });
    add("sharpen", Stage::prepare, [](auto&, auto&) { return std::make_unique<Sharpen>(2); });
    return true;
  }();
  CHECK(once);
}

}  // namespace

TEST_CASE(
    "fused and generic path agree in value and gradient for every mechanism that has both, and every mask") {
  const auto agree = [](const std::string& name, DType dtype, double tolerance) {
    const Inputs x = inputs(dtype);
    ComposedAttention attention(parse_attention(name), 4, 6, 16);
    if (attention.path() != ComposedAttention::Path::fused) return;
    attention.to(dtype);
    int number = 0;
    for (AttentionMask mask : masks()) {
      if (mask.bias.defined()) mask.bias = cast(mask.bias, dtype);
      INFO(name, ", ", dtype == DType::float32 ? "float32" : "float64", ", mask ", number++);
      const Result fused = run(attention, x, mask, false), generic = run(attention, x, mask, true);
      CHECK(fused.ops.count("attention") == 1);
      CHECK(fused.ops.count("softmax") == 0);
      CHECK(generic.ops.count("attention") == 0);
      CHECK(generic.ops.count("softmax") == 1);
      for (size_t i = 0; i < fused.tensors.size(); ++i)
        CHECK(spec::distance(fused.tensors[i].values(), generic.tensors[i].values(), 0.1) <= tolerance);
    }
  };
  for (const std::string& name : mechanisms()) {
    agree(name, DType::float64, 1e-12);
    agree(name, DType::float32, 5e-6);
  }
}

TEST_CASE("a row of the batch without keys gives 0 and gradients of 0, for every mechanism on both paths") {
  const Inputs x = inputs();
  const int64_t lengths[] = {7, 0};
  const AttentionMask mask{.allowed = padding_mask(lengths, 7)};
  for (const std::string& name : mechanisms()) {
    ComposedAttention attention(parse_attention(name), 4, 6, 16);
    attention.to(DType::float64);
    for (const bool weights : {false, true}) {
      INFO(name, weights ? ", generic" : ", fused");
      const Result result = run(attention, x, mask, weights);
      for (size_t i = 0; i < 4; ++i) {  // y and the gradients of q, k, v
        for (double e : select(result.tensors[i], 0, 1).values()) CHECK(e == 0);
        for (double e : select(result.tensors[i], 0, 0).values()) CHECK(std::isfinite(e));
      }
    }
  }
}

TEST_CASE("LASER gives 0 for a row that a part from outside hides") {
  register_parts();
  const Inputs x = inputs();
  ComposedAttention attention(parse_attention("laser+forget"), 4, 6, 16);
  // For the second example, only the two keys that the part hides remain
  const int64_t lengths[] = {7, 2};
  AttentionMask mask;
  mask.bias = where(padding_mask(lengths, 7), full({}, 0, DType::float64), -INFINITY);
  const Result result = run(attention, x, mask, false);
  CHECK(result.ops.count("softmax") == 1);
  for (const double e : select(result.tensors[0], 0, 1).values()) CHECK(e == 0);
  for (const double e : select(result.tensors[0], 0, 0).values()) CHECK(e != 0);
  for (const Tensor& t : result.tensors)
    for (const double e : t.values()) CHECK(std::isfinite(e));
}

TEST_CASE(
    "LASER reads by the weights of a part that takes the place of softmax, however far values lie apart") {
  struct Shares : AttentionPart {
    Tensor normalize(const Tensor& scores) const override {
      const Tensor w = where(is_finite(scores), exp(neg(abs(scores))), 0.0);
      return w / sum(w, {-1}, KeepAxes::yes);
    }
  };
  register_attention_part({.name = "linear_shares",
                           .stage = Stage::normalize,
                           .help = "exp(−|s|), shared out",
                           .make = [](auto&, auto&) { return std::make_unique<Shares>(); }});
  ComposedAttention attention(parse_attention("laser+linear_shares"), 4, 6, 16);
  for (const double deviation : {1.0, 100.0}) {
    INFO("deviation ", deviation);
    Inputs x = inputs();
    x.v = x.v * deviation;
    MixerTrace trace;
    const Tensor y = attention.forward(x.q, x.k, x.v, {.causal = true}, nullptr, &trace);
    // In float64, e^700 is finite: the textbook formula on shifted values.
    const Tensor v = define::repeat_key_heads(x.v, 4), top = max(v);
    const Tensor want = log(matmul(trace.weights, exp(v - top))) + top;
    CHECK(spec::distance(y.values(), want.values(), 1e-3) <= 1e-12);
    const Result result = run(attention, x, {.causal = true}, true);
    for (const Tensor& t : result.tensors)
      for (const double e : t.values()) CHECK(std::isfinite(e));
  }
}

TEST_CASE("both paths refuse the same masks and widths, and take batches and keys of which there are none") {
  const Inputs x = inputs();
  const auto message = [&](const char* name, const AttentionMask& mask, bool generic) {
    const ComposedAttention attention(parse_attention(name), 4, 6, 16);
    MixerTrace trace;
    try {
      attention.forward(x.q, x.k, x.v, mask, nullptr, generic ? &trace : nullptr);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  const auto of_operands = [&](const Tensor& k, const Tensor& v, bool generic) {
    const ComposedAttention attention(parse_attention("standard"), 4, 6, 16);
    MixerTrace trace;
    try {
      attention.forward(x.q, k, v, {}, nullptr, generic ? &trace : nullptr);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  for (const auto& [k, v] :
       {std::pair{x.k, slice(x.v, 2, 0, 6)}, {x.k, slice(x.v, 1, 0, 1)}, {cast(x.k, DType::float32), x.v}}) {
    CHECK(of_operands(k, v, true) == of_operands(k, v, false));
    CHECK(of_operands(k, v, true).starts_with("attention: q is"));
  }
  AttentionMask negative, enlarging;
  negative.left = -1;
  enlarging.bias = zeros({8, 1, 1, 1}, DType::float64);
  for (const char* name : {"standard", "laser"})
    for (const AttentionMask& mask : {negative, enlarging}) {
      CHECK(message(name, mask, true) == message(name, mask, false));
      CHECK(message(name, mask, true).starts_with("attention"));
    }
  for (const char* name : {"standard", "laser"})
    for (const auto& counts : {std::pair{2, 0}, {0, 7}}) {
      const int64_t batch = counts.first, keys = counts.second;
      INFO(name, ", ", batch, " examples, ", keys, " keys");
      const Tensor q = zeros({batch, 4, 5, 6}), k = zeros({batch, 2, keys, 6});
      const ComposedAttention attention(parse_attention(name), 4, 6, 16);
      MixerTrace trace;
      const Tensor fused = attention.forward(q, k, k, {}),
                   generic = attention.forward(q, k, k, {}, nullptr, &trace);
      CHECK(generic.shape() == fused.shape());
      CHECK(generic.values() == fused.values());
    }
  CHECK_THROWS_WITH(parse_attention("softcap=-1"),
                    "attention: softcap: cap is -1, wanted a finite number above 0");
}

TEST_CASE("NaN among the scores stays NaN on both paths") {
  Inputs x = inputs();
  x.q = contiguous(x.q);
  x.q.data<double>()[0] = NAN;
  for (const char* name : {"standard", "laser"}) {
    ComposedAttention attention(parse_attention(name), 4, 6, 16);
    AttentionMask mask;
    mask.allowed = ones({7}, DType::boolean);
    for (const bool generic : {false, true}) {
      MixerTrace trace;
      const auto y = attention.forward(x.q, x.k, x.v, mask, nullptr, generic ? &trace : nullptr).values();
      INFO(name, generic ? ", generic" : ", fused");
      for (size_t d = 0; d < 6; ++d) CHECK(std::isnan(y[d]));
      CHECK(std::isfinite(y[6]));
    }
  }
}

TEST_CASE("in bfloat16 and float16 both paths stay within a unit of float64 on the same rounded inputs") {
  const auto widened = [](Inputs x) {
    for (Tensor* t : {&x.q, &x.k, &x.v, &x.dy}) *t = copy_as(*t, DType::float64);
    return x;
  };
  for (const DType dtype : {DType::bfloat16, DType::float16})
    for (const std::string mechanism : {"standard", "laser", "laser+alibi", "softcap=2", "scale=1.3"}) {
      Inputs x = inputs(dtype);
      if (dtype == DType::float16) x.v = x.v * 5;  // e^v does not fit into float16
      ComposedAttention attention(parse_attention(mechanism), 4, 6, 16);
      int number = 0;
      for (AttentionMask mask : masks()) {
        if (mask.bias.defined()) mask.bias = cast(mask.bias, DType::float32);
        const Result want = run(attention, widened(x), mask, true);
        for (const bool weights : {false, true}) {
          const Result got = run(attention, x, mask, weights);
          INFO(mechanism, ", ", name(dtype), ", mask ", number,
               weights ? std::string(", generic") : ", fused");
          for (size_t i = 0; i < got.tensors.size(); ++i) {
            INFO("0 = y, 1 = dq, 2 = dk, 3 = dv: ", i);
            CHECK(got.tensors[i].dtype() == dtype);
            CHECK(spec::distance(got.tensors[i].values(), want.tensors[i].values(), 0.1) <= epsilon(dtype));
          }
        }
        ++number;
      }
    }
}

TEST_CASE("the path and its reason are told") {
  register_parts();
  const auto make = [](const std::string& name) {
    return ComposedAttention(parse_attention(name), 4, 6, 16);
  };
  CHECK(make("laser+alibi").explain().starts_with("fused"));
  CHECK(make("laser+alibi").path() == ComposedAttention::Path::fused);
  CHECK(make("laser+alibi").explain(true).find("the weights are asked for") != std::string::npos);
  CHECK(make("signed").explain().find("signed changes scores or weights") != std::string::npos);
  CHECK(make("sharpen+laser").path() == ComposedAttention::Path::fused);
}

TEST_CASE("the path that is told is the one that runs: under a learned bias and for higher derivatives too") {
  const Inputs x = inputs();
  const ComposedAttention attention(parse_attention("standard"), 4, 6, 16);
  const AttentionMask biased{.bias = zeros({5, 7}, DType::float64)};
  const auto ran = [&](const Tape& tape) {
    attention.forward(x.q, x.k, x.v, biased);
    std::set<std::string> ops;
    for (size_t i = 0; i < tape.size(); ++i) ops.insert(tape.info(i).op);
    return ops;
  };
  for (const Tensor& watched : {x.q, biased.bias}) {
    Tape tape;
    tape.watch(watched);
    CHECK(attention.path() == ComposedAttention::Path::fused);
    CHECK(ran(tape).count("attention") == 1);
  }
  Tape tape{{.order = 2}};
  tape.watch(x.q);
  CHECK(attention.explain().starts_with("definition: a tape of order 2"));
  CHECK(attention.path(true) == ComposedAttention::Path::generic);
  CHECK(ran(tape).count("attention") == 0);
}

TEST_CASE("parts from outside: found by name, trained, composed, and refused where they make no sense") {
  register_parts();
  const Inputs x = inputs();
  ComposedAttention attention(parse_attention("sharpen+qk_norm"), 4, 6, 16),
      plain(parse_attention("qk_norm"), 4, 6, 16);
  attention.to(DType::float64), plain.to(DType::float64);
  CHECK(attention.state_dict().count("sharpen.factor") == 1);
  Inputs twice = x;
  const AttentionMask causal{.causal = true};
  const Result sharp = run(attention, x, causal, false);
  CHECK(sharp.ops.count("attention") == 1);
  CHECK(sharp.tensors.size() == 7);  // y, q, k, v, two gains, factor
  ComposedAttention doubled(parse_attention("qk_norm+scale=0.8164965809277261"), 4, 6, 16);  // 2/√6
  doubled.to(DType::float64);
  CHECK(spec::distance(sharp.tensors[0].values(), run(doubled, x, causal, false).tensors[0].values(), 1e-3) <=
        1e-12);
  CHECK_THROWS_WITH(ComposedAttention(parse_attention("signed+laser"), 4, 6, 16),
                    doctest::Contains("weights that are ≥ 0 and sum to 1"));
  const auto add = [](const char* name) { register_attention_part({.name = name, .stage = Stage::read}); };
  CHECK_THROWS_WITH(add("laser"), "register_attention_part: there is a part laser already");
  CHECK_THROWS_WITH(add("standard"), "register_attention_part: there is a part standard already");
  CHECK_THROWS_WITH(add("a+b"), doctest::Contains("is no name"));
  CHECK_THROWS_WITH(add("empty"), "register_attention_part: empty has no function that makes it");
  CHECK_THROWS_WITH(
      parse_attention("signed+opposite"),
      "attention: signed and opposite exclude each other: both change the normalization of the weights");
  for (const char* number : {"softcap=inf", "scale=inf", "softcap=nan", "scale=-1"})
    CHECK_THROWS_WITH(parse_attention(number), doctest::Contains("wanted a finite number above 0"));
  CHECK_THROWS_WITH(parse_attention("sharpn"), doctest::Contains("did you mean sharpen?"));
}

TEST_CASE("masks: padding, prefix, blocks and windows say what they hide") {
  const int64_t lengths[] = {3, 0};
  CHECK(padding_mask(lengths, 4).values() == std::vector<double>{1, 1, 1, 0, 0, 0, 0, 0});
  CHECK(prefix_mask(2, 3).values() == std::vector<double>{1, 1, 0, 1, 1, 0, 1, 1, 1});
  const AttentionMask window{.causal = true, .left = 1};
  CHECK(window.visible(2, 4, Device::cpu).values() == std::vector<double>{0, 1, 1, 0, 0, 0, 1, 1});
  CHECK(AttentionMask{.right = 1}.visible(4, 2, Device::cpu).values() ==
        std::vector<double>{0, 0, 1, 0, 1, 1, 1, 1});  // queries at positions −2 to 1
  CHECK(!AttentionMask{}.visible(3, 3, Device::cpu).defined());
  CHECK(!AttentionMask{.causal = true}.visible(1, 3, Device::cpu).defined());
  const int64_t wrong[] = {5};
  CHECK_THROWS_WITH(padding_mask(wrong, 4), "padding_mask: lengths[0] is 5, wanted 0 to 4");
}

TEST_CASE("LASER ignores hidden values on both paths") {
  Inputs x = inputs(DType::float32);
  ComposedAttention attention(parse_attention("laser"), 4, 6, 16);
  const int64_t lengths[] = {5, 5};
  const AttentionMask mask{.allowed = padding_mask(lengths, 7)};
  for (const bool weights : {false, true}) {
    const Result before = run(attention, x, mask, weights);
    Inputs hidden = x;
    hidden.v = clone(x.v);
    for (int64_t row = 0; row < 4; ++row)
      for (int64_t i = 5 * 6; i < 7 * 6; ++i) hidden.v.data<float>()[row * 42 + i] = 1e4f;
    const Result after = run(attention, hidden, mask, weights);
    for (size_t i = 0; i < before.tensors.size(); ++i)
      CHECK(before.tensors[i].values() == after.tensors[i].values());
  }
}

TEST_CASE("decoding in steps with a cache equals the full pass under a window, for every mechanism") {
  for (const std::string& name : mechanisms()) {
    MultiHeadAttention attention(
        {.width = 24, .heads = 4, .key_heads = 2, .context = 8, .name = name, .out_deviation = 0.4});
    attention.to(DType::float64);
    Generator g(7);
    const Tensor x = randn({2, 8, 24}, DType::float64, Device::cpu, 0, 1, g);
    const AttentionMask window{.causal = true, .left = 2};
    const Tensor whole = attention.forward(x, {.mask = window});
    KeyValueCache cache;
    for (int64_t begin = 0; begin < 8;) {
      // Three tokens at once, then one by one
      const int64_t end = std::min<int64_t>(8, begin + (begin == 0 ? 3 : 1));
      const Tensor step = attention.forward(slice(x, 1, begin, end), {.mask = window, .state = &cache});
      INFO(name, ", tokens ", begin, " to ", end);
      CHECK(spec::distance(step.values(), slice(whole, 1, begin, end).values(), 1e-3) <= 1e-12);
      begin = end;
    }
  }
}
