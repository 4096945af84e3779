// The speed of tokenizers on one thread: training, encoding and decoding in MB of text per second.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/measure/clock.h"
#include "bench/measure/markdown.h"
#include "examples/default_text.h"
#include "nn/text/characters.h"
#include "nn/text/read_text.h"
#include "nn/text/train_bpe.h"
#include "nn/text/words.h"

using namespace vitrine;

namespace {

struct Case {
  std::string name;
  std::function<std::unique_ptr<nn::Tokenizer>(const std::string& text)> train;
};

/// Seconds of one call, the shortest of several.
template <class F>
double seconds_of(int rounds, F f) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const double start = bench::seconds();
    f();
    times.push_back(bench::seconds() - start);
  }
  return bench::best(times);
}

std::vector<Case> cases() {
  using namespace nn;
  std::vector<Case> all = {
      {"characters", [](const std::string& text) { return std::make_unique<CharacterVocabulary>(text); }}};
  for (const int64_t vocabulary : {1000, 10000, 50000})
    all.push_back({fmt::format("bpe {}", vocabulary), [=](const std::string& text) {
                     return std::make_unique<PipelineTokenizer>(train_bpe(text, {.vocabulary = vocabulary}));
                   }});
  all.push_back({"words 10000", [](const std::string& text) {
                   return std::make_unique<PipelineTokenizer>(train_words(text, 10000));
                 }});
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The speed of tokenizers on one thread");
  std::string data;
  int rounds = 5;
  app.add_option("--data", data, "A UTF-8 text; by default a snapshot of Vitrine's own source");
  app.add_option("--rounds", rounds, "Measurements, of which the shortest counts")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const std::string text = data.empty() ? examples::default_text() : nn::read_text(data);
  const double mb = 1e-6 * static_cast<double>(text.size());
  fmt::print("{:.2f} MB of text; speeds in MB/s\n\n", mb);
  const bench::MarkdownTable table({{"tokenizer", true, 12},
                                    {"tokens"},
                                    {"training s"},
                                    {"training"},
                                    {"encoding"},
                                    {"100 kB word"},
                                    {"decoding"},
                                    {"bytes per token"}});
  for (const Case& c : cases()) {
    std::unique_ptr<nn::Tokenizer> tokenizer;
    const double training = seconds_of(rounds, [&] { tokenizer = c.train(text); });
    nn::Tokens ids;
    const double encoding = seconds_of(rounds, [&] { ids = tokenizer->encode(text); });
    const double decoding = seconds_of(rounds, [&] { tokenizer->decode(ids); });
    // One word without a blank, of letters that occur in the text
    std::string word;
    for (size_t i = 0; word.size() < 100000; ++i) word += static_cast<char>('a' + i * i % 23);
    const double long_word = seconds_of(rounds, [&] { tokenizer->encode(word); });
    table.row({c.name, std::to_string(tokenizer->size()), fmt::format("{:.3f}", training),
               fmt::format("{:.1f}", mb / training), fmt::format("{:.1f}", mb / encoding),
               fmt::format("{:.1f}", 1e-6 * static_cast<double>(word.size()) / long_word),
               fmt::format("{:.1f}", mb / decoding),
               fmt::format("{:.2f}", static_cast<double>(text.size()) / static_cast<double>(ids.size()))});
  }
}
