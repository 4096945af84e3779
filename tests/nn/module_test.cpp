#include "nn/module.h"

#include <doctest/doctest.h>

#include <fmt/ranges.h>

#include <set>
#include <type_traits>

#include "core/creation.h"
#include "core/tape.h"
#include "nn/attention/composed.h"
#include "nn/generation/generate.h"
#include "nn/init.h"
#include "nn/models/gpt.h"
#include "nn/transformer/mixers.h"
#include "ops/loss.h"
#include "ops/view.h"
#include "tests/nn/models/tiny_gpt.h"

using namespace vitrine;
using namespace vitrine::nn;
using test::ids, test::tiny_gpt;

namespace {

/// Two tied parameters, a buffer, an absent member, and a submodule.
class Tied : public Module {
 public:
  Tied() : in(normal({2, 3}, 1)), out(in), seen(zeros({2})), norm(3) {}
  void fields(Fields& f) override {
    f("in", in);
    f("out", out);
    f("absent", absent);
    f("seen", seen);
    f("norm", norm);
  }
  Tied clone() {
    return clone_into([] { return Tied(); });
  }
  Parameter in, out, absent;
  Tensor seen;
  Norm norm;
};

class Doubled : public Module {
 public:
  void fields(Fields& f) override {
    f("x", x);
    f("x", y);
  }
  Parameter x = constant({1}, 1), y = constant({1}, 2);
};

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Equal names, values, dtypes and modes, without shared storage: of masters, 16-bit copies and
/// halves, and buffers.
void check_apart(Module& a, Module& b) {
  std::set<const void*> storages;
  std::vector<std::string> states[2];
  for (Module* m : {&a, &b}) {
    std::set<const void*> own;
    auto& state = states[m == &b];
    const auto note = [&](const std::string& path, const Tensor& x) {
      own.insert(x.raw());
      state.push_back(fmt::format("{} {} {}", path, name(x.dtype()), x.values()));
    };
    for (const auto& [path, p] : m->named_parameters()) {
      state.push_back(fmt::format("{} {}", path, p.master().values()));
      const Parameter::Stored& s = p.stored();
      for (const Tensor* x : {&s.whole, &s.copy, &s.rest})
        if (x->defined()) note(p.name() + ", stored", *x);
    }
    for (const auto& [path, buffer] : m->named_buffers()) note(path, buffer);
    m->apply([&](const std::string& path, Module& inner) {
      state.push_back(path + (inner.training() ? " trains" : ""));
    });
    for (const void* storage : own) CHECK(storages.insert(storage).second);
  }
  CHECK(states[0] == states[1]);
}

static_assert(!std::is_copy_constructible_v<Gpt> && !std::is_copy_assignable_v<Gpt>);
static_assert(std::is_move_constructible_v<Gpt> && std::is_move_assignable_v<Gpt>);

}  // namespace

TEST_CASE("a clone has values, ties, buffers, dtype and modes of its own") {
  Tied a;
  a.to(DType::bfloat16);
  a.norm.eval();
  const Generator before = default_generator();
  Tied b = a.clone();
  CHECK(default_generator().offset() == before.offset());
  CHECK(b.in.is_same(b.out));
  CHECK(!b.in.is_same(a.in));
  CHECK(b.in.master().values() == a.in.master().values());
  CHECK(b.in.dtype() == DType::bfloat16);
  CHECK(b.training());
  CHECK(!b.norm.training());
  b.in.assign(zeros({2, 3}));
  b.seen.data<float>()[0] = 7;
  CHECK(a.in.master().values() != b.in.master().values());
  CHECK(a.seen.values()[0] == 0);
}

TEST_CASE("a cloned GPT computes the same and trains apart") {
  GptOptions o = tiny_gpt();
  o.dropout = 0.5;
  Gpt a(o);
  a.eval();
  Gpt b = a.clone();
  const Tensor x = ids(2, 6);
  CHECK(!b.decoder.blocks[1]->dropout.training());
  CHECK(b.forward(x).values() == a.forward(x).values());
  Tape tape;
  tape.backward(cross_entropy(b.forward(x), x));
  for (const Parameter& p : b.parameters()) CHECK_MESSAGE(p.grad().defined(), p.name());
  for (const Parameter& p : a.parameters()) CHECK_MESSAGE(!p.grad().defined(), p.name());
}

TEST_CASE("clones of attention, blocks and models have equal names and values, and share no memory") {
  const Tensor x = randn({2, 6, 8});
  const auto computed_apart = [&](auto& a, auto forward) {
    // Values that differ from those of the constructor
    for (Parameter& p : a.parameters()) p.assign(randn(p.shape()));
    a.to(DType::bfloat16);
    auto b = a.clone();
    check_apart(a, b);
    CHECK(forward(a).values() == forward(b).values());
    const auto before = forward(a).values();
    for (Parameter& p : b.parameters()) p.assign(randn(p.shape()));
    CHECK(forward(a).values() == before);
    CHECK(forward(b).values() != before);
  };
  for (const char* name :
       {"standard", "laser+qk_norm+temperature+rotary", "cosine+alibi", "qk_norm_rms+softcap=5"})
    for (const Residual residual : {Residual::pre, Residual::post}) {
      const bool pre_norm = residual == Residual::pre;
      CAPTURE(std::string(name));
      GptOptions o = tiny_gpt();
      o.mixer = name;
      o.key_heads = 1;
      o.residual = residual;
      o.activation = Activation::swiglu;
      const AttentionMask causal{.causal = true};
      const Tensor low = cast(x, DType::bfloat16);
      MultiHeadAttention attention({8, 2, 1, 8, name, pre_norm ? Bias::yes : Bias::no});
      computed_apart(attention, [&](MultiHeadAttention& m) { return m.forward(low, {.mask = causal}); });
      TransformerBlock block(
          {.mixer = {8, 2, 1, 8, name}, .activation = Activation::swiglu, .residual = residual});
      computed_apart(block, [&](TransformerBlock& m) { return m.forward(low, {.mask = causal}); });
      Gpt model(o);
      computed_apart(model, [](Gpt& m) { return m.forward(ids(2, 6)); });
    }
}

TEST_CASE("weights that are tied stay tied within a cloned model") {
  Gpt a(tiny_gpt());
  a.decoder.blocks[1]->feed_forward->up.weight = a.decoder.blocks[0]->feed_forward->up.weight;
  Gpt b = a.clone();
  check_apart(a, b);
  CHECK(b.decoder.blocks[1]->feed_forward->up.weight.is_same(b.decoder.blocks[0]->feed_forward->up.weight));
  CHECK(b.parameter_count() == a.parameter_count());
  const Tensor features = randn({1, 3, 8});
  b.tokens.weight.assign(zeros({11, 8}));  // the embedding is the output layer
  CHECK(b.logits(features).values() == zeros({1, 3, 11}).values());
  CHECK(a.logits(features).values() != b.logits(features).values());
}

TEST_CASE("every layer can be cloned") {
  const Tensor x = randn({4, 6});
  const auto same = [&](auto&& layer) {
    return layer.clone().forward(x).values() == layer.forward(x).values();
  };
  CHECK(same(Linear(6, 3)));
  CHECK(same(Linear(6, 3, Bias::no)));
  CHECK(same(Norm(6)));
  CHECK(same(Norm(6, NormKind::rms)));
  CHECK(same(FeedForward(6, 5, Activation::swiglu, Bias::yes, 1)));
  Embedding table(11, 2);
  CHECK(table.clone().forward(ids(2, 3).alias({1}, {1})).values() ==
        table.forward(ids(2, 3).alias({1}, {1})).values());
  Dropout dropout(0.5);
  dropout.eval();
  CHECK(same(std::move(dropout)));
  ComposedAttention attention(parse_attention("qk_norm+alibi+softcap=5"), 2, 4, 8);
  attention.parameters().at(0).assign(randn({4}));  // the gains of queries
  const Tensor q = randn({1, 2, 5, 4});
  const AttentionMask causal{.causal = true};
  CHECK(attention.clone().forward(q, q, q, causal).values() == attention.forward(q, q, q, causal).values());
}

TEST_CASE("copying between modules of different structure is refused") {
  Linear with(2, 2), without(2, 2, Bias::no);
  CHECK(contains(message([&] { with.copy_from(without); }), "bias, the source has nothing"));
  Linear wide(3, 2);
  CHECK(contains(message([&] { with.copy_from(wide); }), "weight is [2, 2], in the source [2, 3]"));
  CHECK(with.weight.shape() == Shape{2, 2});
  // Buffers count as well: random features of another number
  const auto performer = [](const char* name) { return make_mixer({.width = 8, .heads = 2, .name = name}); };
  const auto few = performer("performer=4"), many = performer("performer=6");
  CHECK(contains(message([&] { few->copy_from(*many); }), "projection is [4, 4], in the source [6, 4]"));
}

TEST_CASE("members are listed under their paths, tied ones once") {
  Tied a;
  std::vector<std::string> paths;
  for (const auto& [path, p] : a.named_parameters()) paths.push_back(path);
  CHECK(paths == std::vector<std::string>{"in", "norm.weight", "norm.bias"});
  CHECK(a.parameter_count() == 6 + 3 + 3);
  REQUIRE(a.named_buffers().size() == 1);
  CHECK(a.named_buffers()[0].first == "seen");
  CHECK(a.norm.bias.name() == "norm.bias");
  Doubled twice;
  CHECK(contains(message([&] { twice.parameters(); }), "two members are called x"));
}

TEST_CASE("apply meets every module, outer before inner") {
  Gpt model(tiny_gpt());
  std::vector<std::string> paths;
  model.apply([&](const std::string& path, Module&) { paths.push_back(path); });
  CHECK(paths.front() == "");
  CHECK(std::count(paths.begin(), paths.end(), "blocks.1.feed_forward.down") == 1);
  CHECK(std::find(paths.begin(), paths.end(), "blocks.0") <
        std::find(paths.begin(), paths.end(), "blocks.0.attention"));
  // The purpose of apply: other initial values for one kind of layer.
  model.apply([](const std::string&, Module& m) {
    if (auto* const linear = dynamic_cast<Linear*>(&m)) linear->weight.assign(zeros(linear->weight.shape()));
  });
  for (double w : model.decoder.blocks[0]->feed_forward->up.weight.master().values()) CHECK(w == 0);
}

TEST_CASE("a state dictionary round trips, and a wrong one is one error that changes nothing") {
  Tied a, b;
  a.seen.data<float>()[1] = 5;
  auto state = a.state_dict();
  CHECK(state.size() == 4);
  b.load_state_dict(state);
  CHECK(b.out.master().values() == a.in.master().values());
  CHECK(b.seen.values()[1] == 5);
  const auto before = b.in.master().values();
  state.at("in") = zeros({2, 3}, DType::float64);
  state.at("norm.weight") = zeros({4});
  state.erase("norm.bias");
  state["more"] = zeros({1});
  const std::string what = message([&] { b.load_state_dict(state); });
  for (const char* part : {"in is float64, wanted float32", "norm.weight is [4], wanted [3]",
                           "missing norm.bias", "unexpected more"})
    CHECK_MESSAGE(contains(what, part), what);
  CHECK(b.in.master().values() == before);
}

TEST_CASE("modes reach all modules and come back one by one") {
  Gpt model(tiny_gpt());
  model.decoder.blocks[0]->eval();
  {
    const ModeScope evaluation(model, false);
    model.apply([](const std::string&, Module& m) { CHECK(!m.training()); });
  }
  CHECK(model.training());
  CHECK(!model.decoder.blocks[0]->feed_forward->training());
  CHECK(model.decoder.blocks[1]->feed_forward->training());
}

TEST_CASE("to(dtype) converts parameters and buffers; low precision keeps float32 masters and buffers") {
  Tied a;
  a.to(DType::bfloat16);
  CHECK(a.in.value().dtype() == DType::bfloat16);
  CHECK(a.in.master().dtype() == DType::float32);
  CHECK(a.seen.dtype() == DType::float32);
  a.to(DType::float64);
  CHECK(a.out.value().dtype() == DType::float64);
  CHECK(a.seen.dtype() == DType::float64);
  CHECK(a.in.is_same(a.out));
  a.to(Device::cpu);
  CHECK(a.seen.dtype() == DType::float64);
}

TEST_CASE("the summary counts ties once and joins numbered modules") {
  Gpt model(tiny_gpt());
  const std::string table = model.summary();
  int64_t count = 0;
  for (const auto& [path, p] : model.named_parameters()) count += p.numel();
  CHECK(contains(table, fmt::format("{},{:03} parameters", count / 1000, count % 1000)));
  CHECK(contains(table, "blocks.*.feed_forward.up.weight"));
  CHECK(!contains(table, "blocks.1"));
  const std::string tied = Tied().summary();
  CHECK(contains(tied, "12 parameters"));
  CHECK(!contains(tied, "out"));
}
