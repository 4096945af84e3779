// The tasks of a text encoder: masked tokens, classes, and vectors of texts.
#include "nn/training/tasks/text_encoding.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "core/creation.h"
#include "core/random.h"
#include "nn/check_gradients.h"
#include "nn/data/joined_texts.h"
#include "nn/layers/lora.h"
#include "nn/losses/contrastive.h"
#include "nn/text/word_piece.h"
#include "nn/training/trainer.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "tests/nn/training/tiny.h"
#include "tests/ops/reference.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::training;

namespace {

PipelineTokenizer tokenizer() {
  std::vector<std::string> tokens(kBertTokens.begin(), kBertTokens.end());
  for (char c = 'a'; c <= 'h'; ++c) tokens.emplace_back(1, c);
  return bert_tokenizer(tokens);
}

TextEncoder model_of(int64_t classes, int64_t segments = 2, int64_t prompt = 0, DType dtype = DType::float64,
                     int64_t layers = 2, bool mean_pooling = false) {
  manual_seed(5);
  TextEncoder model({.vocabulary = 13,
                     .segments = segments,
                     .output_transform = classes == 0,
                     .pooler = classes > 0,
                     .mean_pooling = mean_pooling,
                     .classes = classes,
                     .prompt = prompt,
                     .stack = {.block = {.mixer = {.width = 8, .heads = 2, .context = 12}, .hidden = 8},
                               .layers = layers}});
  model.to(dtype);
  for (Parameter& p : model.parameters())
    if (p.shape().rank() > 1) p.assign(p.master() * 10);
  return model;
}

/// Two texts and one text; `fill` is the token of the padding.
Batch texts(int64_t fill = 0) {
  const PipelineTokenizer bert = tokenizer();
  const std::vector<JoinedTexts> rows = {join_texts(bert, "a b c d", "e f", 12),
                                         join_texts(bert, "g h a", {}, 12)};
  return joined_batch(rows, fill);
}

Batch labelled(const std::vector<int64_t>& labels) {
  Batch batch = texts();
  batch.tensors.push_back(index_tensor(labels, {2}));
  return batch;
}

/// Texts that belong together, without segments.
Batch pairs() {
  const Batch a = texts();
  return {{a.tensors[0], a.tensors[1], flip(a.tensors[0], {0}), flip(a.tensors[1], {0})}, 2};
}

double item(const Tensor& x) { return x.item(); }

SplitBatches same(const Batch& batch) {
  return {[batch](int64_t) { return batch; }, {batch}};
}

}  // namespace

TEST_CASE("the loss of masked tokens is that of all logits with the other targets left out") {
  for (const int64_t segments : {0, 2}) {
    TextEncoder model = model_of(0, segments, 0, DType::float64, 1);
    const TokenMasking masking(tokenizer(), 1, {.share = 0.4});
    const Task task = masked_language_modeling(model, same(texts()), masking);
    const Batch batch = task.batch(2);
    CHECK(batch.tensors[0].values() == masking(texts(), 2).tensors[0].values());
    CHECK(batch.tensors[0].values() != task.batch(3).tensors[0].values());
    CHECK(task.validation()[0].tensors[0].values() == masking(texts(), 0).tensors[0].values());
    std::vector<int64_t> targets(static_cast<size_t>(batch.tensors[0].numel()), -100);
    for (int64_t i = 0; i < batch.tokens; ++i)
      targets[static_cast<size_t>(batch.tensors[3].values()[static_cast<size_t>(i)])] =
          static_cast<int64_t>(batch.tensors[4].values()[static_cast<size_t>(i)]);
    const Tensor all = model.logits(model.features(batch.tensors[0], {.lengths = batch.tensors[1]},
                                                   segments > 0 ? batch.tensors[2] : Tensor()));
    const Tensor expected = cross_entropy(all, index_tensor(targets, batch.tensors[0].shape()));
    CHECK(item(task.loss(batch.tensors)) == doctest::Approx(item(expected)).epsilon(1e-12));
    CHECK(task.metrics[0].of_batch(batch.tensors).weight == static_cast<double>(batch.tokens));
    const auto report =
        check_gradients(model, [&](const std::vector<Tensor>&) { return task.loss(batch.tensors); }, {});
    CHECK_MESSAGE(report.passed, to_string(report));
  }
}

TEST_CASE("texts are classified by prompt and low-rank changes, and padding changes nothing") {
  bool mean_pooling = false;
  SUBCASE("by the first position") {}
  SUBCASE("by the mean of all") { mean_pooling = true; }
  TextEncoder model = model_of(3, 2, 2, DType::float64, 2, mean_pooling);
  const Task task = text_classification(model, same(labelled({2, 1})));
  const Batch batch = labelled({2, 1});
  const auto loss = [&](const std::vector<Tensor>& x) { return item(task.loss(x)); };
  const double before = loss(batch.tensors);
  Batch other = batch;
  other.tensors[0] = texts(7).tensors[0];  // another padding
  CHECK(loss(other.tensors) == before);
  CHECK(loss(labelled({2, 0}).tensors) != before);
  other = batch;
  other.tensors[2] = zeros_like(batch.tensors[2]);  // other segments
  CHECK(loss(other.tensors) != before);
  // A text alone has the logits that it has in a batch.
  const Tensor both = task.logits(batch.tensors);
  const std::vector<Tensor> alone = {slice(slice(batch.tensors[0], 0, 1, 2), 1, 0, 5),
                                     slice(batch.tensors[1], 0, 1, 2),
                                     slice(slice(batch.tensors[2], 0, 1, 2), 1, 0, 5)};
  CHECK(item(max(abs(task.logits(alone) - slice(both, 0, 1, 2)))) < 1e-12);

  freeze(model);
  CHECK(add_lora(model, "encoder", {.rank = 2}) > 0);
  for (const char* trained : {"**.lora", "prompt", "pooler", "classes"}) unfreeze(model, trained);
  for (auto& [path, p] : model.named_parameters())
    if (path_matches(path, "**.lora.b")) p.assign(randn(p.shape(), DType::float64));
  const auto report =
      check_gradients(model, [&](const std::vector<Tensor>&) { return task.loss(batch.tensors); }, {});
  CHECK_MESSAGE(report.passed, to_string(report));
}

TEST_CASE("training changes what is not frozen, and nothing else") {
  // With the classes alone, no attention has a gradient.
  for (const auto& [trained, steps] :
       {std::pair<std::vector<std::string>, int64_t>{{"prompt", "classes"}, 60}, {{"classes"}, 10}}) {
    TextEncoder model = model_of(2, 2, 3, DType::float32);
    freeze(model);
    for (const std::string& name : trained) unfreeze(model, name);
    std::map<std::string, std::vector<double>> before;
    for (const auto& [name, x] : model.state_dict()) before[name] = x.values();
    Trainer trainer(text_classification(model, same(labelled({1, 0}))), optim::constant(0.05),
                    test::quiet(steps));
    const double first = trainer.validation_loss();
    trainer.run();
    CHECK(trainer.validation_loss() < 0.8 * first);
    for (const auto& entry : model.state_dict()) {
      bool named = false;
      for (const std::string& pattern : trained) named = named || path_matches(entry.first, pattern);
      CHECK_MESSAGE((entry.second.values() != before[entry.first]) == named, entry.first);
    }
    CHECK((trainer.record().grad_norm_by_path[0].q.y[0] > 0) == (trained.size() == 2));
  }
}

TEST_CASE("the loss of vectors is InfoNCE with the temperature, and its metrics are those of the vectors") {
  TextEncoder model = model_of(0, 0, 0, DType::float64, 1);
  const Batch batch = pairs();
  const auto vectors = [&](size_t i) {
    const Tensor all = model.features(batch.tensors[i], {.lengths = batch.tensors[i + 1]});
    std::vector<Tensor> means;
    for (int64_t row = 0; row < 2; ++row) {
      const auto length = static_cast<int64_t>(batch.tensors[i + 1].values()[static_cast<size_t>(row)]);
      means.push_back(mean(slice(select(all, 0, row), 0, 0, length), {0}));
    }
    return stack(means, 0);
  };
  for (const double temperature : {1.0, 0.05}) {
    const Task task = text_vectors(model, same(batch), temperature);
    const Tensor expected = info_nce(vectors(0), vectors(2), {}, {.temperature = temperature});
    CHECK(item(task.loss(batch.tensors)) == doctest::Approx(item(expected)).epsilon(1e-12));
    REQUIRE(task.metrics.size() == 3);
    CHECK(task.metrics[0].of_batch(batch.tensors).sum == 0);  // the texts have changed places
    CHECK(task.metrics[1].of_batch(batch.tensors).sum > 0);
    CHECK(task.metrics[2].of_batch(batch.tensors).sum < 0);
    CHECK_FALSE(task.metrics[1].more_is_better);
    // Batches count by their texts and by their pairs, so one of a single text has no uniformity.
    const double texts = static_cast<double>(batch.tensors[0].size(0));
    CHECK(task.metrics[1].of_batch(batch.tensors).weight == texts);
    CHECK(task.metrics[2].of_batch(batch.tensors).weight == texts * (texts - 1));
    std::vector<Tensor> one;
    for (const Tensor& x : batch.tensors) one.push_back(slice(x, 0, 0, 1));
    CHECK(task.metrics[1].of_batch(one).weight == 1);
    CHECK(task.metrics[2].of_batch(one).weight == 0);
  }
  const Task task = text_vectors(model, same(batch), 0.5);
  const auto report =
      check_gradients(model, [&](const std::vector<Tensor>&) { return task.loss(batch.tensors); }, {});
  CHECK_MESSAGE(report.passed, to_string(report));
  CHECK(test::error_of([&] {
          text_vectors(model, same(batch), 0).loss(batch.tensors);
        }).find("the temperature is 0") != std::string::npos);
}
