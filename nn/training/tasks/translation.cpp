#include "nn/training/tasks/translation.h"

#include <memory>
#include <sstream>
#include <utility>

#include "core/tape.h"
#include "nn/data/loader.h"
#include "nn/data/padding.h"
#include "nn/metrics/bleu.h"
#include "nn/text/extended_vocabulary.h"
#include "nn/training/checkpoint.h"
#include "nn/training/inspect_attention.h"
#include "ops/loss.h"
#include "ops/view.h"

namespace vitrine::nn::training {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> sources_of(const std::vector<SentencePair>& pairs) {
  std::vector<std::string> texts;
  for (const SentencePair& pair : pairs) texts.push_back(pair.source);
  return texts;
}

BatchPlan plan_of(const Dataset<SentencePair>& pairs, const PairTokenizer& tokenizer,
                  const TranslationOptions& o) {
  if (o.tokens == 0 && o.remove_longest == 0) return shuffled_batches(pairs.size(), o.batch, o.seed);
  std::vector<ItemLength> lengths;
  for (const SentencePair& pair : pairs)
    lengths.push_back({std::ssize(tokenizer.encode(pair.source, pair.source)),
                       std::ssize(tokenizer.encode(pair.target, pair.source)) + 1});
  LengthBucketOptions options{.rows = o.batch, .remove_longest = o.remove_longest};
  options.tokens = o.tokens > 0 ? o.tokens : int64_t{1} << 40;
  if (o.tokens == 0) options.pool = o.batch;  // each batch from a pool of its own: in random order
  return length_buckets(std::move(lengths), options, o.seed);
}

}  // namespace

PairTokenizer::PairTokenizer(const Tokenizer& tokenizer)
    : end(tokenizer.find("\n").value_or(-1)),
      encode([&tokenizer](const std::string& text, const std::string&) {
        const Tokens ids = tokenizer.encode(text);
        check(ids.size() > 0, "translate: a text is empty");
        return std::vector<int64_t>(ids.begin(), ids.end());
      }),
      piece([&tokenizer](int64_t token, bool first, const std::string&) {
        return tokenizer.piece(token, first);
      }) {
  check(end >= 0, "translate: the vocabulary of the model has no line break, which ends a text");
}

PairTokenizer::PairTokenizer(const VocabularyTable& table, int64_t unseen)
    : end(table.find("<end>").value_or(-1)) {
  check(end >= 0, "translate: the table of words has no <end>");
  const auto extended = [&table, unseen](const std::string& source) {
    return ExtendedVocabulary(table, unseen > 0 ? words_of(source) : std::vector<std::string>(), unseen);
  };
  encode = [extended](const std::string& text, const std::string& source) {
    check(text.find_first_not_of(" \n") != text.npos, "translate: a text is empty");
    return extended(source).ids(words_of(text));
  };
  piece = [extended](int64_t token, bool first, const std::string& source) {
    return (first ? "" : " ") + extended(source).word(token);
  };
}

Batch translation_batch(std::span<const SentencePair> pairs, const PairTokenizer& tokenizer) {
  std::vector<std::vector<int64_t>> sources, given, wanted;
  int64_t tokens = 0;
  for (const SentencePair& pair : pairs) {
    sources.push_back(tokenizer.encode(pair.source, pair.source));
    wanted.push_back(tokenizer.encode(pair.target, pair.source));
    given.push_back({tokenizer.end});
    given.back().insert(given.back().end(), wanted.back().begin(), wanted.back().end());
    wanted.back().push_back(tokenizer.end);
    tokens += std::ssize(wanted.back());
  }
  const Padded source = pad_ids(sources, tokenizer.end);
  return {{source.values, source.lengths, pad_ids(given, tokenizer.end).values, pad_ids(wanted, -100).values},
          tokens};
}

Task translation(Seq2SeqModel& model, const PairTokenizer& tokenizer, Dataset<SentencePair> training,
                 Dataset<SentencePair> validation, const TranslationOptions& options) {
  const auto collate = [tokenizer](std::span<const SentencePair> pairs) {
    return translation_batch(pairs, tokenizer);
  };
  const int64_t count = training.size(), held_out = validation.size();
  BatchPlan plan = plan_of(training, tokenizer, options);
  const auto in = std::make_shared<Loader>(std::move(training), std::move(plan), collate, options.prefetch);
  const auto out = std::make_shared<const Loader>(std::move(validation),
                                                  ordered_batches(held_out, options.batch), collate);
  Task task{.model = model,
            .batch = [in](int64_t index) { return in->batch(index); },
            .validation = [out] { return out->whole(); },
            .loss = [&model](const auto& x) { return cross_entropy(model.forward(x[0], x[1], x[2]), x[3]); },
            .words = {.item = "token",
                      .loss_unit = "nats per token",
                      .loss_meaning = "The cross-entropy −mean ln p(next token | source, target before it).",
                      .classes = model.vocabulary()},
            .setting = {{"seed", std::to_string(options.seed)},
                        {"batch", std::to_string(options.batch)},
                        {"training pairs", std::to_string(count)},
                        {"tokens", std::to_string(options.tokens)},
                        {"remove longest", fmt::format("{}", options.remove_longest)}}};
  keep_model(task, model);
  return task;
}

std::vector<std::string> translate(Seq2SeqModel& model, const PairTokenizer& tokenizer,
                                   const std::vector<std::string>& texts, const BeamOptions& search) {
  if (texts.empty()) return {};
  const Tape::Pause pause;
  const ModeScope evaluation(model, false);
  std::vector<std::vector<int64_t>> sources;
  for (const std::string& text : texts) sources.push_back(tokenizer.encode(text, text));
  const Padded source = pad_ids(sources, tokenizer.end);
  const Device device = model.device();
  const Memory memory = model.encode(copy_to(source.values, device), copy_to(source.lengths, device));
  const std::vector<std::vector<int64_t>> begin(texts.size(), {tokenizer.end});
  std::vector<std::string> written;
  for (const auto& found :
       beam_search(model, begin, model.context(), search, {{.tokens = {tokenizer.end}}, memory})) {
    const std::string& text = texts[written.size()];
    written.emplace_back();
    const std::vector<int64_t>& tokens = found.front().tokens;
    for (size_t i = 1; i < tokens.size(); ++i)
      if (tokens[i] != tokenizer.end) written.back() += tokenizer.piece(tokens[i], i == 1, text);
  }
  return written;
}

double percent_exact(Seq2SeqModel& model, const PairTokenizer& tokenizer,
                     const std::vector<SentencePair>& pairs, const BeamOptions& search) {
  check(!pairs.empty(), "percent_exact: there are no pairs");
  const std::vector<std::string> written = translate(model, tokenizer, sources_of(pairs), search);
  double right = 0;
  for (size_t i = 0; i < pairs.size(); ++i) right += written[i] == pairs[i].target ? 1 : 0;
  return 100 * right / static_cast<double>(pairs.size());
}

double translation_bleu(Seq2SeqModel& model, const PairTokenizer& tokenizer,
                        const std::vector<SentencePair>& pairs, const BeamOptions& search) {
  std::vector<std::vector<std::string>> references;
  for (const SentencePair& pair : pairs) references.push_back({pair.target});
  return corpus_bleu(translate(model, tokenizer, sources_of(pairs), search), references).score;
}

void inspect_attention(Seq2SeqModel& model, const PairTokenizer& tokenizer, const SentencePair& pair,
                       report::RunRecord& record) {
  const ModeScope evaluation(model, false);
  const Batch batch = translation_batch(std::span(&pair, 1), tokenizer).to(model.device());
  const auto& x = batch.tensors;
  std::vector<MixerTrace> traces;
  Tape tape;
  const Memory memory = model.encode(x[0], x[1]);
  const Tensor logits = model.forward(x[2], {.source = memory.source,
                                             .source_lengths = memory.lengths,
                                             .source_ids = memory.ids,
                                             .traces = &traces});
  if (traces.empty()) return;
  const auto labels = [&](const Tensor& ids) {
    std::vector<std::string> texts;
    for (const double id : select(ids, 0, 0).values())
      texts.push_back(tokenizer.piece(static_cast<int64_t>(id), true, pair.source));
    return texts;
  };
  inspect_attention(tape, cross_entropy(logits, x[3]), traces, labels(x[3]), labels(x[0]), record);
}

}  // namespace vitrine::nn::training
