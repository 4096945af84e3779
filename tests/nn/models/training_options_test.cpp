// What every model can be trained with: 16-bit weights, early stopping, and activations that are
// computed again.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/flops.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/models/bidaf.h"
#include "nn/models/conformer.h"
#include "nn/models/encoder_decoder.h"
#include "nn/models/esim.h"
#include "nn/models/gpt.h"
#include "nn/models/hierarchical_attention.h"
#include "nn/models/pointer_generator.h"
#include "nn/models/recurrent_encoder_decoder.h"
#include "nn/models/set_encoder.h"
#include "nn/models/text_encoder.h"
#include "nn/models/vision_transformer.h"
#include "nn/training/trainer.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/view.h"
#include "tests/folder.h"
#include "tests/nn/training/tiny.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

constexpr int64_t kRows = 2, kPlaces = 6, kTokens = 7, kKinds = 3;

Tensor some_ids(const Shape& shape, uint64_t seed, int64_t below = kTokens) {
  Generator g(seed);
  return randint(0, below, shape, Device::cpu, g);
}
Tensor some_numbers(const Shape& shape) {
  Generator g(5);
  return randn(shape, DType::float32, Device::cpu, 0, 1, g);
}

/// A model, and its logits [..., classes] of a fixed batch.
struct Trainee {
  std::unique_ptr<Module> module;
  std::function<Tensor()> logits;
};

template <class M, class Logits>
Trainee trainee_of(std::unique_ptr<M> module, const Logits& logits) {
  M& model = *module;
  return {std::move(module), [&model, logits] { return logits(model); }};
}

struct TraineeRow {
  const char* name;
  std::function<Trainee(bool recompute)> make;
};

StackOptions small_stack(bool recompute) {
  return {.block = {.mixer = {.width = 8, .heads = 2, .context = kPlaces}, .hidden = 8, .dropout = 0.1},
          .layers = 2,
          .recompute_blocks = recompute};
}

WordEncoderOptions few_words(bool recompute) {
  return {.vocabulary = kTokens,
          .width = 8,
          .heads = 2,
          .context = 2 * kPlaces,
          .dropout = 0.1,
          .recompute_mixers = recompute};
}

/// The logits of the target, which is shown to the decoder.
template <class M>
Tensor decoded(M& model) {
  const Memory memory = model.encode(some_ids({kRows, kPlaces}, 1));
  return model.logits(
      model.features(some_ids({kRows, kPlaces}, 2),
                     {.source = memory.source, .source_lengths = memory.lengths, .source_ids = memory.ids}));
}

/// With feeding each step reads what the step before has written, and is computed again by itself.
RecurrentEncoderDecoderOptions small_recurrent(bool recompute, Feeding feeding, Cell cell = Cell::gru) {
  return {.source_vocabulary = kTokens,
          .vocabulary = kTokens,
          .context = kPlaces,
          .width = 8,
          .dropout = 0.1,
          .cell = cell,
          .feeding = feeding,
          .coverage = feeding == Feeding::attentional,
          .recompute_steps = recompute};
}

Trainee small_gpt(bool recompute, bool universal) {
  const GptOptions options{.vocabulary = kTokens,
                           .context = kPlaces,
                           .width = 8,
                           .layers = 3,
                           .heads = 2,
                           .dropout = 0.1,
                           .recompute_blocks = recompute,
                           .universal = universal};
  return trainee_of(std::make_unique<Gpt>(options), [](Gpt& m) {
    return m.forward(some_ids({kRows, kPlaces}, 1));
  });
}

std::vector<TraineeRow> trainees() {
  return {
      {"Gpt", [](bool recompute) { return small_gpt(recompute, false); }},
      {"Gpt, universal", [](bool recompute) { return small_gpt(recompute, true); }},
      {"TextEncoder",
       [](bool recompute) {
         return trainee_of(std::make_unique<TextEncoder>(
                               TextEncoderOptions{.vocabulary = kTokens, .stack = small_stack(recompute)}),
                           [](TextEncoder& m) {
                             return m.logits(m.features(some_ids({kRows, kPlaces}, 1)));
                           });
       }},
      {"EncoderDecoder",
       [](bool recompute) {
         return trainee_of(
             std::make_unique<EncoderDecoder>(EncoderDecoderOptions{.source_vocabulary = kTokens,
                                                                    .vocabulary = kTokens,
                                                                    .source_context = kPlaces,
                                                                    .context = kPlaces,
                                                                    .width = 8,
                                                                    .encoder_layers = 2,
                                                                    .decoder_layers = 2,
                                                                    .heads = 2,
                                                                    .dropout = 0.1,
                                                                    .recompute_blocks = recompute}),
             decoded<EncoderDecoder>);
       }},
      {"VisionTransformer",
       [](bool recompute) {
         return trainee_of(
             std::make_unique<VisionTransformer>(VisionTransformerOptions{.channels = 1,
                                                                          .height = 4,
                                                                          .width = 4,
                                                                          .patch = 2,
                                                                          .classes = kKinds,
                                                                          .stack = small_stack(recompute)}),
             [](VisionTransformer& m) {
               return m.forward(some_numbers({kRows, 4, 4}));
             });
       }},
      {"SetEncoder",
       [](bool recompute) {
         return trainee_of(std::make_unique<SetEncoder>(3, small_stack(recompute)), [](SetEncoder& m) {
           return m.scores(m.features(some_numbers({kRows, 5, 3})));
         });
       }},
      {"Conformer",
       [](bool recompute) {
         return trainee_of(std::make_unique<Conformer>(ConformerOptions{
                               .features = 5,
                               .classes = kKinds,
                               .layers = 2,
                               .kernel = 3,
                               .hidden = 8,
                               .dropout = 0.1,
                               .mixer = {.width = 8, .heads = 2, .context = 8, .name = "rotary"},
                               .recompute_blocks = recompute}),
                           [](Conformer& m) {
                             return m.forward(some_numbers({kRows, 12, 5}), {}).logits;
                           });
       }},
      {"HierarchicalAttention",
       [](bool recompute) {
         return trainee_of(std::make_unique<HierarchicalAttention>(HierarchicalAttentionOptions{
                               .words = few_words(recompute), .classes = kKinds, .levels = 2}),
                           [](HierarchicalAttention& m) {
                             return m.forward(some_ids({kRows, 2, kPlaces}, 1), {}, {}).logits;
                           });
       }},
      {"Esim",
       [](bool recompute) {
         return trainee_of(
             std::make_unique<Esim>(EsimOptions{.words = few_words(recompute), .classes = kKinds}),
             [](Esim& m) {
               return m.forward(some_ids({kRows, kPlaces}, 1), some_ids({kRows, 4}, 2)).logits;
             });
       }},
      {"BiDaf",
       [](bool recompute) {
         return trainee_of(std::make_unique<BiDaf>(BiDafOptions{.words = few_words(recompute), .layers = 2}),
                           [](BiDaf& m) {
                             return m.forward(some_ids({kRows, kPlaces}, 1), some_ids({kRows, 4}, 2)).first;
                           });
       }},
      {"RecurrentEncoderDecoder",
       [](bool recompute) {
         return trainee_of(
             std::make_unique<RecurrentEncoderDecoder>(small_recurrent(recompute, Feeding::none)),
             decoded<RecurrentEncoderDecoder>);
       }},
      {"RecurrentEncoderDecoder, context",
       [](bool recompute) {
         return trainee_of(std::make_unique<RecurrentEncoderDecoder>(
                               small_recurrent(recompute, Feeding::context, Cell::lstm)),
                           decoded<RecurrentEncoderDecoder>);
       }},
      {"PointerGenerator",
       [](bool recompute) {
         return trainee_of(std::make_unique<PointerGenerator>(PointerGeneratorOptions{
                               .base = small_recurrent(recompute, Feeding::attentional), .unseen = 2}),
                           decoded<PointerGenerator>);
       }},
  };
}

Tensor loss_of(const Trainee& model) {
  const Tensor logits = model.logits();
  Shape places = logits.shape();
  const int64_t classes = places[places.rank() - 1];
  return cross_entropy(reshape(logits, {-1, classes}),
                       some_ids({logits.numel() / classes}, 9, std::min(classes, kTokens)));
}

/// The bits of the loss and of all gradients, and the operations that they took.
std::pair<std::vector<std::vector<double>>, double> gradients_of(const Trainee& model) {
  manual_seed(3);
  const FlopCounter counter;
  Tape tape;
  const Tensor loss = loss_of(model);
  tape.backward(loss);
  std::vector<std::vector<double>> bits = {loss.values()};
  for (const Parameter& p : model.module->parameters())
    bits.push_back(p.grad().defined() ? p.grad().values() : std::vector<double>());
  return {bits, counter.total()};
}

training::Task task_of(const Trainee& model) {
  return {.model = *model.module,
          .batch =
              [](int64_t) {
                return Batch{{some_ids({1}, 1)}, 1};
              },
          .validation =
              [] {
                return std::vector<Batch>{{{some_ids({1}, 1)}, 1}};
              },
          .loss = [&model](const std::vector<Tensor>&) { return loss_of(model); }};
}

}  // namespace

TEST_CASE("blocks, mixers or steps that are computed again give the same bits, and cost operations") {
  for (const TraineeRow& row : trainees()) {
    INFO(std::string(row.name));
    manual_seed(1);
    const Trainee kept = row.make(false);
    manual_seed(1);
    const Trainee again = row.make(true);
    const auto [want, operations] = gradients_of(kept);
    const auto [got, more] = gradients_of(again);
    CHECK(got == want);
    CHECK(more > operations);
  }
}

TEST_CASE("every model learns with 16-bit weights, whose logits have 16 bits") {
  for (const TraineeRow& row : trainees()) {
    INFO(std::string(row.name));
    manual_seed(1);
    const Trainee model = row.make(false);
    model.module->eval();
    const double wide = loss_of(model).item();
    model.module->to(DType::bfloat16);
    const double rounded = loss_of(model).item();
    CHECK(std::abs(rounded - wide) < 0.03 * wide);
    // A distribution that is mixed from two is not rounded.
    const bool mixes = std::string(row.name) == "PointerGenerator";
    CHECK(model.logits().dtype() == (mixes ? DType::float32 : DType::bfloat16));
    model.module->train();
    training::TrainingOptions options = test::quiet(40);
    options.accumulate = 2, options.evaluate_every = 40;
    training::Trainer trainer(task_of(model), optim::constant(2e-2), options);
    trainer.run();
    CHECK(trainer.record().final_validation_loss < 0.8 * rounded);
  }
}

TEST_CASE("training of every model ends early when its score no longer improves") {
  for (const TraineeRow& row : trainees()) {
    INFO(std::string(row.name));
    const test::Folder folder;
    manual_seed(1);
    const Trainee model = row.make(false);
    training::TrainingOptions options = test::quiet(20);
    options.checkpoint = folder / "run.safetensors", options.best_by = "score";
    options.evaluate_every = 1, options.patience = 2;
    training::Task task = task_of(model);
    task.metrics = {{.name = "score", .of_split = [](double) { return 1.0; }}};
    training::Trainer trainer(task, optim::constant(1e-3), options);
    trainer.run();
    CHECK(trainer.step() == 3);
  }
}
