// Misuse of modules: the model and its caches are unchanged.
#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/attention/composed.h"
#include "nn/generation/generate.h"
#include "nn/init.h"
#include "nn/models/gpt.h"
#include "ops/index.h"
#include "tests/misuse/misuse.h"
#include "tests/nn/models/tiny_gpt.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::test;

namespace {

/// A model that has decoded six of eight positions, and a cache with three of four.
struct Model : Scene {
  mutable Gpt gpt = [] {
    manual_seed(3);
    return Gpt(tiny_gpt());
  }();
  Tensor ids = tensor({1, 2, 3}, {1, 3}, DType::int64), far = tensor({1, 11}, {1, 2}, DType::int64);
  Tensor keys = ones({1, 2, 3, 4}), one = ones({1, 2, 1, 4});
  std::unique_ptr<DecodingState> decoding = gpt.make_state();
  KeyValueCache cache{4};
  std::map<std::string, Tensor> saved;

  Model() {
    gpt.forward(zeros({1, 6}, DType::int64), {.state = decoding.get()});
    cache.append(keys, keys);
    for (const auto& [name, x] : gpt.state_dict()) saved[name] = copy_as(x, x.dtype());
  }
  std::string state() const override {
    std::string text = fmt::format("{} and {} positions\n", decoding->length(), cache.length());
    for (const auto& [name, x] : gpt.state_dict()) text += name + " " + show(x);
    gpt.apply(
        [&](const std::string& path, Module& m) { text += fmt::format("{} {}\n", path, m.training()); });
    return text;
  }
  std::string outcome(const Tensor& y) override { return show(y) + state(); }
  Tensor logits() { return gpt.forward(ids); }
};

std::vector<Misuse> options(Model& s) {
  const auto right = [&] { return s.logits(); };
  const auto making = [](auto change) {
    return [change] {
      GptOptions o = tiny_gpt();
      change(o);
      Gpt model(o);
    };
  };
  return {
      {"a width that the heads do not divide",
       making([](GptOptions& o) { o.heads = 3; }),
       {"Gpt: the width 8 is no multiple of the 3 heads"},
       right},
      {"key heads that cannot be shared",
       making([](GptOptions& o) { o.key_heads = 3; }),
       {"Gpt: 2 query heads cannot share 3 key heads evenly"},
       right},
      {"no layers",
       making([](GptOptions& o) { o.layers = 0; }),
       {"Gpt: layers is 0, wanted at least 1"},
       right},
      {"a negative context",
       making([](GptOptions& o) { o.context = -1; }),
       {"Gpt: context is -1, wanted at least 1"},
       right},
      {"a dropout of more than everything",
       making([](GptOptions& o) { o.dropout = 1.5; }),
       {"Gpt: dropout is 1.5, wanted [0, 1)"},
       right},
      {"an odd width with sinusoids",
       making([](GptOptions& o) { o.width = 7, o.heads = 7, o.positions = Positions::sinusoidal; }),
       {"Gpt: the width 7 is odd", "sinusoidal"},
       right},
      {"an attention by a wrong name",
       making([](GptOptions& o) { o.mixer = "lazer+alibi"; }),
       {"there is no part lazer in lazer+alibi", "did you mean laser?", "qk_norm"},
       right},
      {"a part twice",
       making([](GptOptions& o) { o.mixer = "alibi+alibi"; }),
       {"alibi is twice in alibi+alibi"},
       right},
      {"a part that is missing",
       making([](GptOptions& o) { o.mixer = "laser+"; }),
       {"wanted a part after the last + of laser+"},
       right},
      {"an attention without a name",
       making([](GptOptions& o) { o.mixer = ""; }),
       {"the name is empty", "standard"},
       right},
      {"parts that exclude each other",
       making([](GptOptions& o) { o.mixer = "cosine+qk_norm"; }),
       {"both change the norm of queries and keys"},
       right},
      {"a softcap of 0",
       making([](GptOptions& o) { o.mixer = "softcap=0"; }),
       {"softcap: cap is 0, wanted a finite number above 0"},
       right},
      {"a number for a part that takes none",
       making([](GptOptions& o) { o.mixer = "laser=2"; }),
       {"laser takes no value"},
       right},
      {"a scale of nothing",
       [] { parse_attention("scale=0"); },
       {"attention: scale: factor is 0, wanted a finite number above 0"},
       right},
      {"rotary positions of odd heads",
       [] { ComposedAttention(parse_attention("rotary"), 2, 3, 8); },
       {"rotary: the head size is 3, wanted an even one, such as 4"},
       right},
      {"a mechanism by a taken name",
       [] { register_attention_part({.name = "laser", .stage = Stage::read}); },
       {"there is a part laser already"},
       right},
      {"a mechanism whose name holds a +",
       [] { register_attention_part({.name = "a+b", .stage = Stage::read}); },
       {"`a+b` is no name"},
       right},
      {"an activation that is not there",
       [] { value_named<Activation>("relu6"); },
       {"no activation relu6", "wanted relu, gelu"},
       right},
      {"positions that are not there",
       [] { value_named<Positions>("rotary"); },
       {"no kind of positions rotary", "parts of attention"},
       right},
      {"a layer of negative size", [] { Linear(3, -1); }, {"shape [-1, 3]", "negative"}, right},
      {"a dropout layer of 1", [] { Dropout(1); }, {"Dropout: the probability is 1, wanted [0, 1)"}, right},
      {"weights of a vector",
       [] { xavier_normal({3}); },
       {"xavier_normal: wanted the shape [out, in]", "got [3]"},
       right},
  };
}

std::vector<Misuse> inputs(Model& s) {
  const auto right = [&] { return s.logits(); };
  const auto decode = [&] {
    return s.gpt.forward(tensor({5}, {1, 1}, DType::int64), {.state = s.decoding.get()});
  };
  const auto append = [&] { return s.cache.append(s.one, s.one).first; };
  return {
      {"a sequence longer than the context",
       [&] {
         s.gpt.forward(zeros({1, 9}, DType::int64));
       },
       {"Gpt: 9 positions are wanted, the context holds 8"},
       right},
      {"a sequence longer than what the caches have left",
       [&] { s.gpt.forward(s.ids, {.state = s.decoding.get()}); },
       {"Gpt: 9 positions are wanted, the context holds 8"},
       decode},
      {"decoding for another batch",
       [&] {
         s.gpt.forward(zeros({2, 1}, DType::int64), {.state = s.decoding.get()});
       },
       {"KeyValueCache: k is float32[2, 2, 1, 4]", "do not continue float32[1, 2, 8, 4]"},
       decode},
      {"an unknown token while decoding",
       [&] { s.gpt.forward(s.far, {.state = s.decoding.get()}); },
       {"embedding: ids has 11 at position 1, outside [0, 11)"},
       decode},
      {"ids without a batch",
       [&] { s.gpt.forward(select(s.ids, 0, 0)); },
       {"Gpt: the ids are [3], wanted [B, T]"},
       right},
      {"ids that are floats",
       [&] {
         s.gpt.forward(ones({1, 3}));
       },
       {"embedding: ids is float32[1, 3]", "wanted int64"},
       right},
      {"attention to rows without a batch",
       [&] {
         s.gpt.decoder.blocks[0]->mixer->forward(ones({3, 8}), {});
       },
       {"MultiHeadAttention: x is [3, 8], wanted [B, T, 8]"},
       right},
      {"attention to rows of another width",
       [&] {
         s.gpt.decoder.blocks[0]->mixer->forward(ones({1, 3, 9}), {});
       },
       {"linear: x is [1, 3, 9] and the weight is [24, 8]"},
       right},
      {"more keys than the cache has room for",
       [&] { s.cache.append(s.keys, s.keys); },
       {"KeyValueCache: 6 positions are wanted, there is room for 4"},
       append},
      {"values of another dtype for a cache",
       [&] { s.cache.append(s.one, cast(s.one, DType::float64)); },
       {"KeyValueCache: k is float32[1, 2, 1, 4]", "v float64[1, 2, 1, 4]"},
       append},
      {"values for fewer positions than keys",
       [&] { s.cache.append(s.keys, s.one); },
       {"KeyValueCache: k is float32[1, 2, 3, 4]", "v float32[1, 2, 1, 4]"},
       append},
      {"a padding beyond the keys",
       [] {
         padding_mask(std::vector<int64_t>{1, 9}, 5);
       },
       {"padding_mask: lengths[1] is 9, wanted 0 to 5"},
       right},
      {"no prompt", [&] { generate(s.gpt, {}, 3); }, {"generate: prompt 1 of 1 is empty"}, right},
      {"a prompt with an unknown token",
       [&] {
         generate(s.gpt, {1, 11}, 3);
       },
       {"embedding: ids has 11 at position 1, outside [0, 11)"},
       right},
      {"a negative temperature",
       [&] { generate(s.gpt, {1}, 3, {.temperature = -1}); },
       {"generate: wanted a finite temperature ≥ 0", "got -1"},
       right},
      {"a negative number of tokens", [&] { generate(s.gpt, {1}, -3); }, {"generate: -3 tokens"}, right},
      {"logits that are NaN",
       [] {
         sample_token(tensor({1, NAN}), {}, default_generator());
       },
       {"the logit of token 1 is NaN"},
       right},
  };
}

std::vector<Misuse> states(Model& s) {
  const auto load = [&] { s.gpt.load_state_dict(s.saved); };
  const auto right = [&] { return s.logits(); };
  return {
      {"a state of which much is wrong",
       load,
       {"load_state_dict: ", "missing tokens.weight", "unexpected extra",
        "positions is [2, 2], wanted [8, 8]", "final_norm.bias is float64, wanted float32"},
       right,
       [&] {
         s.saved.erase("tokens.weight");
         s.saved["extra"] = ones({1});
         s.saved["positions"] = ones({2, 2});
         s.saved["final_norm.bias"] = ones({8}, DType::float64);
       }},
      {"an undefined state", load, {"missing positions"}, right, [&] { s.saved["positions"] = Tensor(); }},
      {"a copy of another structure",
       [&] {
         GptOptions three = tiny_gpt();
         three.layers = 3;
         const Generator before = default_generator();
         Gpt other(three);
         default_generator() = before;
         s.gpt.copy_from(other);
       },
       {"copy_from: the modules differ: this one has final_norm.weight, the source has blocks.2"},
       right},
  };
}

}  // namespace

TEST_CASE("misuse of a model's options") { check_all<Model>(options); }
TEST_CASE("misuse of a model's inputs and caches") { check_all<Model>(inputs); }
TEST_CASE("misuse of a model's state") { check_all<Model>(states); }

TEST_CASE("decoding while a tape records is refused, and the cache goes on afterwards") {
  Model s;
  {
    const Tape tape;
    CHECK(problem_with_message(
              [&] {
                s.gpt.forward(zeros({1, 1}, DType::int64), {.state = s.decoding.get()});
              },
              {"KeyValueCache: what it holds has no gradient", "Tape::Pause"})
              .empty());
  }
  CHECK(s.decoding->length() == 6);
  CHECK_NOTHROW(s.gpt.forward(zeros({1, 1}, DType::int64), {.state = s.decoding.get()}));
}
