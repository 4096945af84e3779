// The pointer-generator: its distribution, what it copies, decoding in steps, its loss, and errors.
#include "nn/models/pointer_generator.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "nn/check_gradients.h"
#include "nn/text/extended_vocabulary.h"
#include "ops/activation.h"
#include "ops/join.h"
#include "ops/softmax.h"
#include "tests/nn/models/seq2seq_checks.h"

using namespace vitrine;
using namespace vitrine::nn;
using test::lively, test::random_ids;

namespace {

PointerGeneratorOptions tiny_pointer(int64_t width = 8, bool coverage = true) {
  return {.base = {.source_vocabulary = 4,
                   .vocabulary = 4,
                   .context = 8,
                   .width = width,
                   .feeding = Feeding::attentional,
                   .coverage = coverage},
          .unseen = 2,
          .unknown = 3};
}

}  // namespace

TEST_CASE("padding changes nothing, decoding in steps equals the full pass, search agrees with it") {
  for (const bool coverage : {true, false}) {
    PointerGenerator model = lively<PointerGenerator>(tiny_pointer(8, coverage));
    CHECK(model.vocabulary() == 6);
    test::check_padding(model, 6);
    test::check_steps(model, 6);
    test::check_search(model, 6);
  }
}

TEST_CASE("the distribution: a share of the vocabulary's, and the weights at each word's places") {
  PointerGenerator model = lively<PointerGenerator>(tiny_pointer());
  const Tensor source = index_tensor(std::vector<int64_t>{0, 5, 1, 5, 3}, {1, 5}),
               ids = random_ids(1, 3, 6, 2);
  const Memory memory = model.encode(source);
  const StackCall call = test::call_of(memory);
  const auto written = model.write(ids, call);
  // The base reads the token 3 in place of 4 and 5.
  const Tensor known = cast(tensor({0, 3, 1, 3, 3}, {1, 5}), DType::int64);
  CHECK(test::largest_difference(memory.source, model.base.encode(known).source) == 0);
  const auto decoded = model.base.decode(where(less(ids, full({}, 4, DType::int64)), ids, 3.0), call);
  const Tensor g = sigmoid(model.gate.forward(concat({decoded.context, decoded.h, decoded.inputs}, -1)));
  CHECK(test::largest_difference(unsqueeze(written.generates, -1), g) <= 1e-14);
  const Tensor own = softmax(model.base.logits(decoded.read));
  const Tensor p = exp(written.log_probabilities);
  CHECK(test::largest_difference(sum(p, {-1}), ones({1, 3}, DType::float64)) <= 1e-12);
  const std::vector<std::vector<int64_t>> places = {{0}, {2}, {}, {4}, {}, {1, 3}};
  for (int64_t word = 0; word < 6; ++word) {
    Tensor wanted = word < 4 ? g * slice(own, 2, word, word + 1) : zeros_like(g);
    for (const int64_t s : places[static_cast<size_t>(word)])
      wanted = wanted + (1 - g) * slice(decoded.weights, 2, s, s + 1);
    CHECK(test::largest_difference(slice(p, 2, word, word + 1), wanted) <= 1e-12);
  }
  // A word that is not in the source has the least probability, with a finite logarithm.
  CHECK(select(select(select(written.log_probabilities, 0, 0), 0, 0), 0, 4).item() ==
        doctest::Approx(std::log(1e-30)));
}

TEST_CASE("the loss counts the targets that are not −100, and adds repeated attention") {
  PointerGenerator model = lively<PointerGenerator>(tiny_pointer(4));
  const Tensor source = random_ids(2, 4, 6, 8), given = random_ids(2, 3, 6, 9),
               lengths = index_tensor(std::vector<int64_t>{4, 3}, {2}),
               // Words of the sources, as a target has
      wanted = index_tensor(std::vector<int64_t>{2, 1, 0, 3, -100, -100}, {2, 3});
  const Memory memory = model.encode(source, lengths);
  const auto written = model.write(given, test::call_of(memory));
  const auto decoded =
      model.base.decode(where(less(given, full({}, 4, DType::int64)), given, 3.0), test::call_of(memory));
  const auto p = written.log_probabilities.values(), a = decoded.weights.values();
  double own = 0, repeated = 0;
  for (const auto& [b, t, word] : {std::tuple{0, 0, 2}, {0, 1, 1}, {0, 2, 0}, {1, 0, 3}}) {
    own -= p[static_cast<size_t>((b * 3 + t) * 6 + word)] / 4;
    for (int s = 0; s < 4; ++s) {
      double before = 0;
      for (int earlier = 0; earlier < t; ++earlier)
        before += a[static_cast<size_t>((b * 3 + earlier) * 4 + s)];
      repeated += std::min(before, a[static_cast<size_t>((b * 3 + t) * 4 + s)]) / 4;
    }
  }
  CHECK(repeated > 0.01);
  CHECK(model.loss(source, lengths, given, wanted, 0).item() == doctest::Approx(own));
  CHECK(model.loss(source, lengths, given, wanted, 0.7).item() == doctest::Approx(own + 0.7 * repeated));
  const GradientReport report = check_gradients(
      model, [&](const std::vector<Tensor>&) { return model.loss(source, lengths, given, wanted, 0.7); }, {});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK(test::largest_difference(model.clone().loss(source, lengths, given, wanted, 1),
                                 model.loss(source, lengths, given, wanted, 1)) == 0);
}

TEST_CASE("an extended vocabulary numbers the words of a text that the table does not have") {
  const VocabularyTable table({"the", "<unk>", "opens"});
  const ExtendedVocabulary words(table, {"selmu", "opens", "the", "kirad", "selmu"}, 2);
  CHECK(words.ids({"the", "selmu", "kirad", "vonta"}) == std::vector<int64_t>{0, 3, 4, 1});
  CHECK(words.word(2) == "opens");
  CHECK(words.word(4) == "kirad");
  CHECK(words.unknown() == 1);
  CHECK_THROWS_WITH_AS(words.word(5), doctest::Contains("no word 5 among 5"), Error);
  CHECK_THROWS_WITH_AS(ExtendedVocabulary(table, {"a", "b"}, 1), doctest::Contains("wanted at most 1"),
                       Error);
  CHECK_THROWS_WITH_AS(ExtendedVocabulary(VocabularyTable(), {}, 1), doctest::Contains("no word <unk>"),
                       Error);
}

TEST_CASE("what a pointer-generator cannot do is refused with a reason") {
  PointerGeneratorOptions o = tiny_pointer();
  o.base.score = SourceScore::none, o.base.coverage = false;
  CHECK_THROWS_WITH_AS(PointerGenerator{o}, doctest::Contains("the score is none"), Error);
  o = tiny_pointer();
  o.base.source_vocabulary = 5;
  CHECK_THROWS_WITH_AS(PointerGenerator{o}, doctest::Contains("5 source tokens, 4 target tokens"), Error);
  o = tiny_pointer();
  o.unknown = 4;
  CHECK_THROWS_WITH_AS(PointerGenerator{o}, doctest::Contains("the unknown token 4"), Error);
  o.unseen = -1;
  CHECK_THROWS_WITH_AS(PointerGenerator{o}, doctest::Contains("unseen is -1, wanted at least 0"), Error);
  const PointerGenerator model(tiny_pointer());
  const Tensor ids = random_ids(1, 3, 4, 1);
  const Memory memory = model.encode(ids);
  CHECK_THROWS_WITH_AS(model.forward(ids, {.source = memory.source}),
                       doctest::Contains("the ids of the source"), Error);
  CHECK_THROWS_AS(model.forward(full({1, 2}, 6, DType::int64), {}, ids), Error);
}
