// A checkpoint contains a complete model: options, weights and vocabulary are restored from the
// file alone.
#include "nn/training/checkpoint.h"
#include "nn/models/gpt.h"

#include <doctest/doctest.h>

#include "core/files/safetensors.h"
#include "nn/generation/generate.h"
#include "nn/text/characters.h"
#include "nn/training/tasks/translation.h"
#include "tests/folder.h"
#include "tests/nn/training/tiny.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::training;

namespace {

const std::vector<std::string> kLetters = {"\n", "a", "é", "\xff", "\"", "z", "漢"};

/// Saves a few steps of a small Gpt, with the vocabulary of seven letters.
void train(Gpt& model, const std::string& path) {
  Task task = test::text(model, test::counting(300), test::counting(60));
  keep_tokenizer(task, CharacterVocabulary(kLetters));
  Trainer trainer(std::move(task), optim::constant(1e-2), test::quiet(3));
  trainer.run();
  trainer.save(path);
}

struct SavedModel {
  explicit SavedModel(const GptOptions& options = test::tiny(), DType dtype = DType::float32) {
    manual_seed(1);
    model = std::make_unique<Gpt>(options);
    model->to(dtype);
    train(*model, path);
  }
  /// The error message for a file that `change` has modified.
  std::string error_of(const std::function<void(Safetensors&)>& change) const {
    Safetensors file = read_safetensors(path);
    change(file);
    write_safetensors(folder / "changed", file);
    return test::error_of([&] { load_text_model(folder / "changed"); });
  }

  test::Folder folder;
  std::string path = folder / "saved";
  std::unique_ptr<Gpt> model;
};

}  // namespace

TEST_CASE("a model and its vocabulary come back from a checkpoint, with the bits of its text") {
  GptOptions odd = test::tiny();
  odd.key_heads = 1;
  odd.hidden = 24;
  odd.mixer = "qk_norm+rotary+softcap=9";
  odd.activation = Activation::swiglu;
  odd.norm = NormKind::rms;
  odd.residual = Residual::post;
  odd.bias = Bias::no;
  GptOptions routed = test::tiny();
  routed.experts = {.count = 3, .per_token = 2};
  routed.norm = NormKind::power;
  routed.residual = Residual::admin;
  GptOptions streams = test::tiny();
  streams.feed_forward = FeedForwardKind::rwkv4;
  streams.reversible = true;
  GptOptions universal = test::tiny();
  universal.universal = true;
  universal.halting = HaltingKind::graves;
  for (const GptOptions& options : {test::tiny(), odd, routed, streams, universal})
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      const SavedModel saved(options, dtype);
      const Generator before = default_generator();
      TextModel loaded = load_text_model(saved.path);
      CHECK(default_generator().offset() == before.offset());
      CHECK(!loaded.model.training());
      CHECK(dynamic_cast<const CharacterVocabulary&>(*loaded.tokenizer).characters() == kLetters);
      CHECK(option_values(loaded.model.options(), {Role::result}) ==
            option_values(saved.model->options(), {Role::result}));
      CHECK(loaded.model.tokens.weight.dtype() == dtype);
      const SamplingOptions sampling{.seed = 3};
      CHECK(generate(loaded.model, {1, 2}, 40, sampling) == generate(*saved.model, {1, 2}, 40, sampling));
      Gpt alone = load_model(saved.path);
      CHECK(generate(alone, {1, 2}, 40, sampling) == generate(*saved.model, {1, 2}, 40, sampling));
    }
}

TEST_CASE("a checkpoint of before an option existed is read, and its run goes on") {
  const SavedModel saved;
  Safetensors file = read_safetensors(saved.path);
  for (const char* option : {"output-mixtures", "moments"}) REQUIRE(file.metadata.erase(option) == 1);
  write_safetensors(saved.folder / "older", file);
  Gpt older = load_model(saved.folder / "older");
  CHECK(test::all_values(older) == test::all_values(*saved.model));
  Task task = test::text(*saved.model, test::counting(300), test::counting(60));
  keep_tokenizer(task, CharacterVocabulary(kLetters));
  Trainer trainer(std::move(task), optim::constant(1e-2), test::quiet(5));
  trainer.resume(saved.folder / "older");
  trainer.run();
  CHECK(trainer.step() == 5);
}

TEST_CASE("older models with words began with vectors of a length of about 1") {
  std::map<std::string, std::string> esim = {{"width", "64"}, {"mixer", "lstm"}};
  complete_older_metadata(esim);
  CHECK(esim["word-deviation"] == "0.125");
}

TEST_CASE("models that write a target for a source come back") {
  const test::Folder folder;
  VocabularyTable table({"<unk>", "<end>"});
  for (const char* word : {"red", "blue", "bag"}) table.add(word);
  const RecurrentEncoderDecoderOptions base = {
      .source_vocabulary = 5, .vocabulary = 5, .width = 8, .score = SourceScore::additive, .coverage = true};
  const auto comes_back = [&](auto model, int64_t unseen) {
    using Model = decltype(model);
    const PairTokenizer words(table, unseen);
    const std::vector<SentencePair> pairs = {{"red bag", "bag"}, {"blue bag Ann", "Ann bag"}};
    Trainer trainer(translation(model, words, pairs, pairs, {.batch = 2}), optim::constant(1e-2),
                    test::quiet(2));
    trainer.run();
    const std::string path = folder / model.kind();
    trainer.save(path);
    Model loaded = load_model<Model>(path);
    CHECK(test::all_values(loaded) == test::all_values(model));
    CHECK(translate(loaded, words, {"blue bag Eve"}) == translate(model, words, {"blue bag Eve"}));
    Safetensors file = read_safetensors(path);
    file.metadata["width"] = "1000000";
    write_safetensors(folder / "changed", file);
    CHECK_THROWS_WITH_AS(load_model<Model>(folder / "changed"), doctest::Contains("is broken: it has no"),
                         Error);
    CHECK_THROWS_WITH_AS(load_model(path), doctest::Contains(", wanted gpt"), Error);
  };
  comes_back(RecurrentEncoderDecoder(base), 0);
  comes_back(PointerGenerator({.base = base, .unseen = 2}), 2);
  comes_back(EncoderDecoder({.source_vocabulary = 5,
                             .vocabulary = 5,
                             .width = 8,
                             .encoder_layers = 1,
                             .decoder_layers = 1,
                             .heads = 2}),
             0);
}

TEST_CASE("a vocabulary in JSON comes back, bytes that are no characters too") {
  const CharacterVocabulary vocabulary(std::string("a\xff\xc3 é\n\"漢\x01"));
  CHECK(CharacterVocabulary::from_json(vocabulary.to_json()).characters() == vocabulary.characters());
  for (const char* text : {"", "{}", "[", "[\"ab\"]", "[\"\"]", "[256]", "[-1]", "[1.5]", "[null]", "[[]]",
                           "[]", "[\"a\",\"a\"]"})
    CHECK_THROWS_WITH_AS(CharacterVocabulary::from_json(text), doctest::Contains("CharacterVocabulary: "),
                         Error);
}

TEST_CASE("a checkpoint that contradicts itself is an error that says how") {
  const SavedModel saved;
  const auto set = [&](const char* key, const char* value) {
    return saved.error_of([&](Safetensors& file) { file.metadata[key] = value; });
  };
  const auto contains = [](const std::string& error, const std::string& part) {
    CHECK_MESSAGE(error.find(part) != std::string::npos, error);
  };
  CHECK(saved.error_of([](Safetensors&) {}).empty());
  contains(set("layers", "many"), "changed: layers is many, wanted a whole number");
  contains(set("layers", "0"), "changed: layers is 0, wanted at least 1");
  contains(set("layers", "3"), "is broken: it has no weights of blocks.2.");
  contains(set("layers", "1"), "load_state_dict: ");
  contains(set("layers", "1000000000000"), "it has no weights of blocks.999999999999.");
  contains(set("vocabulary", "1000000000000"), "it has no tokens.weight of [1000000000000, 16]");
  contains(set("hidden", "100000000"), "it has no blocks.0.feed_forward.down.weight of [16, 100000000]");
  contains(set("context", "100000000"), "it has no positions of [100000000, 16]");
  contains(set("heads", "3"), "the width 16 is no multiple of the 3 heads");
  contains(set("mixer", "lazer"), "there is no part lazer");
  contains(set("activation", "tanh"), "changed: activation is tanh, wanted relu");
  contains(set("model", "bert"), "is a bert, wanted gpt");
  contains(set("dtype", "float13"), "float13");
  contains(set("characters", "[\"a\"]"), "its tokenizer has 1 tokens, its model 7");
  for (const char* key : {"layers", "model", "dtype", "no-bias"})
    contains(saved.error_of([&](Safetensors& file) { file.metadata.erase(key); }),
             fmt::format("changed is no checkpoint of a model: it has no {}", key));
  contains(saved.error_of([](Safetensors& file) { file.metadata.erase("characters"); }),
           "changed is no checkpoint of a text model: it has no tokenizer");
  contains(set("bpe", "{}"), "changed: bpe: the file has no member");
  contains(saved.error_of([](Safetensors& file) { file.tensors.erase("model/final_norm.weight"); }),
           "final_norm.weight");
}
