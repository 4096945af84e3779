// BLEU, chrF and error rates: by numbers that a hand computes, and against sacrebleu and jiwer.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "nn/metrics/bleu.h"
#include "nn/metrics/chrf.h"
#include "nn/metrics/error_rate.h"
#include "nn/metrics/perplexity.h"
#include "nn/metrics/words.h"
#include "tests/cases.h"
#include "tests/data.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::test;
using Texts = std::vector<std::string>;

namespace {

constexpr double kTolerance = 1e-9;  // of a score in percent

void check_near(double got, double want, const std::string& what) {
  check(std::abs(got - want) <= kTolerance, "{} is {}, wanted {}", what, got, want);
}

/// Lower case of the capital letters of ASCII. Our metrics see texts as they are.
std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

/// The references of each segment. A case lists them by stream, or has a single stream.
std::vector<Texts> references_of(const Json& c) {
  const Json& given = c.at("references");
  const Json streams = given.at(0).is_string() ? Json::array({given}) : given;
  std::vector<Texts> all(c.at("hypotheses").size());
  for (const Json& stream : streams)
    for (size_t i = 0; i < all.size(); ++i) all[i].push_back(stream.at(i));
  return all;
}

void check_bleu(const Json& c) {
  Texts hypotheses = c.at("hypotheses");
  std::vector<Texts> references = references_of(c);
  if (c.value("lowercase", false)) {
    for (std::string& text : hypotheses) text = lower(text);
    for (Texts& all : references)
      for (std::string& text : all) text = lower(text);
  }
  const BleuOptions options = {.tokens = value_named<BleuTokens>(c.at("tokenize").get<std::string>()),
                               .smoothing = value_named<BleuSmoothing>(c.at("smooth").get<std::string>())};
  const Bleu bleu = corpus_bleu(hypotheses, references, options);
  for (size_t n = 0; n < 4; ++n) {
    check(bleu.counts[n] == c.at("counts")[n], "there are {} matches of order {}", bleu.counts[n], n + 1);
    check(bleu.totals[n] == c.at("totals")[n], "there are {} n-grams of order {}", bleu.totals[n], n + 1);
    check_near(bleu.precisions[n], c.at("precisions")[n], "a precision");
  }
  check_near(bleu.brevity_penalty, c.at("brevity_penalty"), "the brevity penalty");
  check(bleu.hypothesis_length == c.at("hypothesis_length"), "the length is {}", bleu.hypothesis_length);
  check(bleu.reference_length == c.at("reference_length"), "the reference length is {}",
        bleu.reference_length);
  check_near(bleu.score, c.at("score"), "the score");
}

void check_chrf(const Json& c) {
  ChrfOptions options;
  options.character_order = c.value("char_order", options.character_order);
  options.word_order = c.at("word_order");
  options.beta = c.value("beta", options.beta);
  check_near(corpus_chrf(c.at("hypotheses"), references_of(c), options), c.at("score"), "the score");
}

void check_rate(const ErrorRate& got, const Json& c) {
  check(got.edits == c.at("errors") && got.length == c.at("reference_length"), "there are {} edits of {}",
        got.edits, got.length);
  check_near(got.rate(), c.at("rate"), "the rate");
}

/// Runs the cases of a file, and returns how many there were.
int run_cases(const std::filesystem::path& path) {
  CaseRunner runner;
  const Json file = read_json(path);
  for (const auto& [kind, cases] : file.items()) {
    int number = 0;
    for (const Json& c : cases)
      runner.run_one(fmt::format("{} {}", kind, ++number), [&c, kind = kind] {
        if (kind == "bleu") return check_bleu(c);
        if (kind == "chrf") return check_chrf(c);
        if (kind == "wer") return check_rate(word_error_rate(c.at("hypotheses"), c.at("references")), c);
        if (kind == "cer") return check_rate(character_error_rate(c.at("hypotheses"), c.at("references")), c);
        check(kind == "tokens_13a", "there is no metric {}", kind);
        const Texts tokens = tokens_13a(stripped(c.at("text").get<std::string>()));
        check(tokens == c.at("tokens").get<Texts>(), "the tokens are {}", fmt::join(tokens, " | "));
      });
  }
  CHECK(runner.failures() == "");
  return runner.ran();
}

}  // namespace

TEST_CASE("BLEU, chrF and error rates equal those of sacrebleu and jiwer") {
  for (const CaseFolder& folder : case_folders("text_metrics")) {
    const int ran = run_cases(folder.path / "cases.json");
    if (folder.golden) CHECK(ran == 80);
  }
  for (const CaseFolder& folder : case_folders("truth_cases_2")) {
    const int ran = run_cases(folder.path / "metrics.json");
    if (folder.golden) CHECK(ran == 72);
  }
}

TEST_CASE(
    "BLEU by hand: clipped counts, the brevity penalty, and the three ways with an order without match") {
  // The classic of Papineni et al.: "the" seven times matches twice.
  const Bleu clipped =
      corpus_bleu({"the the the the the the the"}, {{"the cat is on the mat", "there is a cat on the mat"}});
  CHECK(clipped.counts[0] == 2);
  CHECK(clipped.totals[0] == 7);
  CHECK(clipped.reference_length == 7);  // the nearer one
  // 5 of 6 words, 3 of 5 pairs, 1 of 4 triples, 0 of 3 quadruples; 6 tokens against 8.
  const Texts hypothesis = {"the cat sat on the mat"};
  const std::vector<Texts> reference = {{"yesterday the cat was on the mat again"}};
  const double penalty = std::exp(1 - 8. / 6), three = (5. / 6) * (3. / 5) * (1. / 4);
  const auto score = [&](BleuSmoothing smoothing) {
    return corpus_bleu(hypothesis, reference, {.smoothing = smoothing}).score;
  };
  CHECK(corpus_bleu(hypothesis, reference).brevity_penalty == doctest::Approx(penalty).epsilon(1e-12));
  CHECK(score(BleuSmoothing::none) == 0);
  CHECK(score(BleuSmoothing::exp) ==
        doctest::Approx(100 * penalty * std::pow(three / (2 * 3), 0.25)).epsilon(1e-12));
  CHECK(score(BleuSmoothing::floor) ==
        doctest::Approx(100 * penalty * std::pow(three * 0.1 / 3, 0.25)).epsilon(1e-12));
  CHECK(corpus_bleu({"a b c d"}, {{"a b c d"}}).score == doctest::Approx(100).epsilon(1e-12));
  CHECK(corpus_bleu({"a b c"}, {{"a b c"}}).score == 0);  // no n-grams of order 4
  CHECK(corpus_bleu({""}, {{"a b"}}).score == 0);
  CHECK(tokens_13a("It's 1,000.5 \"km\"-long, isn't it?") ==
        Texts{"It's", "1,000.5", "\"", "km", "\"", "-long", ",", "isn't", "it", "?"});
  CHECK(corpus_bleu({"a, b c"}, {{"a , b c"}}).score == doctest::Approx(100).epsilon(1e-12));
  CHECK(corpus_bleu({"a, b c"}, {{"a , b c"}}, {.tokens = BleuTokens::none}).counts[0] == 2);
}

TEST_CASE("chrF by hand: orders of characters and of words, precision and recall") {
  // "ab" against "abc": 2 of 2 and 2 of 3 characters, 1 of 1 and 1 of 2 pairs.
  const double r = (2. / 3 + 1. / 2) / 2;
  CHECK(corpus_chrf({"a b"}, {{"ab c"}}) == doctest::Approx(100 * 5 * r / (4 + r)).epsilon(1e-12));
  CHECK(corpus_chrf({"a b"}, {{"ab c"}}, {.beta = 1}) ==
        doctest::Approx(100 * 2 * r / (1 + r)).epsilon(1e-12));
  CHECK(corpus_chrf({"a b"}, {{"ab c"}}, {.character_order = 1}) ==
        doctest::Approx(100 * 5 * (2. / 3) / (4 + 2. / 3)).epsilon(1e-12));
  // 3 of 4 and 3 of 3 characters; of the words "(ab" and ")" against "(" and "ab" none.
  CHECK(corpus_chrf({"(ab)"}, {{"(ab"}}, {.character_order = 1, .word_order = 1}) ==
        doctest::Approx(100 * 5 * (3. / 8) * 0.5 / (4 * 3. / 8 + 0.5)).epsilon(1e-12));
  CHECK(corpus_chrf({"é"}, {{"è"}}) == 0);
  CHECK(corpus_chrf({"né"}, {{"nè"}}, {.character_order = 1}) == doctest::Approx(50).epsilon(1e-12));
  CHECK(corpus_chrf({"x", ""}, {{"a", "x"}, {"", "b"}}) == doctest::Approx(100).epsilon(1e-12));
}

TEST_CASE("error rates by hand, and bits per byte") {
  const ErrorRate words = word_error_rate({"the cat  sat", "b"}, {"the bat sat down", "a b"});
  CHECK(words.edits == 3);  // replaced, inserted, inserted
  CHECK(words.length == 6);
  CHECK(words.rate() == 0.5);
  CHECK(character_error_rate({" kitten "}, {"sitting"}).edits == 3);
  CHECK(character_error_rate({"né e"}, {"nè  e"}).edits == 2);
  CHECK(character_error_rate({"né"}, {"nè"}).length == 2);
  CHECK(word_error_rate({"a b"}, {""}).rate() == 2);
  CHECK(word_error_rate({""}, {"\u00a0"}).rate() == 0);
  CHECK(words_of("\u3000a\u2009b\x1f\tc\n") == Texts{"a", "b", "c"});
  CHECK(stripped(" \u00a0a b\u2028") == "a b");
  // Uniform among 256 bytes: 8 bits; among 4096 tokens of 3 bytes: 12 bits in 3 bytes.
  CHECK(bits_per_byte(std::log(256), 1) == doctest::Approx(8).epsilon(1e-12));
  const Metric metric = bits_per_byte_metric(1. / 3);
  CHECK(metric.of_split(std::log(4096)) == doctest::Approx(4).epsilon(1e-12));
  CHECK_FALSE(metric.more_is_better);
  CHECK_THROWS_WITH_AS(bits_per_byte_metric(0), doctest::Contains("tokens_per_byte is 0"), Error);
}

TEST_CASE("a corpus whose parts do not belong together is refused") {
  CHECK_THROWS_WITH_AS(
      corpus_bleu({"a"}, {}),
      "corpus_bleu: there are 1 hypotheses and references of 0 segments, wanted the same number, "
      "at least 1",
      Error);
  CHECK_THROWS_WITH_AS(corpus_bleu({}, {}), doctest::Contains("there are 0 hypotheses"), Error);
  CHECK_THROWS_WITH_AS(corpus_chrf({"a", "b"}, {{"a"}, {}}), "corpus_chrf: segment 2 of 2 has no reference",
                       Error);
  CHECK_THROWS_WITH_AS(corpus_bleu({"a"}, {{"a"}}, {.floor_value = 0}), doctest::Contains("floor_value is 0"),
                       Error);
  CHECK_THROWS_WITH_AS(corpus_chrf({"a"}, {{"a"}}, {.character_order = 0}),
                       doctest::Contains("got 0, 0 and 2"), Error);
  CHECK_THROWS_WITH_AS(
      word_error_rate({"a"}, {"a", "b"}),
      "word_error_rate: there are 1 hypotheses and 2 references, wanted the same number, at least 1", Error);
  CHECK_THROWS_WITH_AS(character_error_rate({}, {}), doctest::Contains("character_error_rate: "), Error);
}
