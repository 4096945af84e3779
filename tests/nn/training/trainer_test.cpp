#include "nn/training/trainer.h"
#include "nn/models/gpt.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "core/creation.h"
#include "core/memory/allocator.h"
#include "core/parallel.h"
#include "nn/data/windows.h"
#include "nn/generation/generate.h"
#include "nn/text/characters.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "tests/folder.h"
#include "tests/memory_use.h"
#include "tests/nn/training/tiny.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::report;
using namespace vitrine::nn::training;
using test::counting, test::quiet, test::text, test::tiny;

namespace {

/// Half of the tokens follow from the previous token, so the loss cannot reach 0.
std::vector<int64_t> noisy(int64_t n) {
  Generator generator(5);
  std::vector<int64_t> tokens = {0};
  while (static_cast<int64_t>(tokens.size()) < n)
    tokens.push_back(generator.next_below(2) == 0 ? generator.next_below(7) : (tokens.back() + 1) % 7);
  return tokens;
}

std::vector<double> train(int64_t steps, int64_t stop_at = -1) {
  const test::Folder folder;
  const std::string path = folder / "checkpoint";
  manual_seed(3);
  auto model = std::make_unique<Gpt>(tiny());
  const auto schedule = optim::warmup_cosine(1e-2, 5, 40);
  if (stop_at >= 0) {
    Trainer first(text(*model, counting(300), counting(60)), schedule, quiet(steps));
    first.run([&] { return first.step() == stop_at; });
    first.save(path);
    manual_seed(99);
    model = std::make_unique<Gpt>(tiny());
    Trainer second(text(*model, counting(300), counting(60)), schedule, quiet(steps));
    second.resume(path);
    second.run();
  } else {
    Trainer(text(*model, counting(300), counting(60)), schedule, quiet(steps)).run();
  }
  return test::all_values(*model);
}

}  // namespace

TEST_CASE("a GPT learns to count") {
  manual_seed(1);
  Gpt model(tiny(0));
  Trainer trainer(text(model, counting(500), counting(100)), optim::warmup_cosine(1e-2, 10, 150), quiet(150));
  CHECK(trainer.validation_loss() == doctest::Approx(std::log(7)).epsilon(0.05));
  trainer.run();
  CHECK(trainer.validation_loss() < 0.1);
  CHECK(trainer.record().grad_norm_by_path[1].k.y.size() == 15);
  CHECK(generate(model, {0, 1, 2}, 4, {.temperature = 0}) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("a step after which the validation loss is not finite is reported, and no checkpoint takes it") {
  const test::Folder folder;
  manual_seed(1);
  Gpt model(tiny(0));
  TrainingOptions options = quiet(1);
  options.checkpoint = folder / "checkpoint";
  Trainer trainer(text(model, counting(300), counting(60)), optim::constant(1e38), options);
  CHECK_THROWS_WITH_AS(trainer.run(), doctest::Contains("training: the validation loss is "), Error);
  CHECK(!std::filesystem::exists(options.checkpoint));
}

TEST_CASE("two runs with one seed, and a run that was stopped and resumed, have the same bits") {
  const auto through = train(20);
  CHECK(train(20) == through);
  CHECK(train(20, 11) == through);
}

TEST_CASE("training has the same bits on 1, 2, 3 and 7 threads") {
  const int before = threads();
  std::vector<std::vector<double>> results;
  for (int count : {1, 2, 3, 7}) {
    set_threads(count);
    results.push_back(train(8));
  }
  set_threads(before);
  for (const auto& r : results) CHECK(r == results[0]);
}

TEST_CASE("in 16 bits the loss ends where it ends in float32") {
  std::vector<double> losses;
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    manual_seed(1);
    Gpt model(tiny());
    model.to(dtype);
    Trainer trainer(text(model, noisy(2000), noisy(300)), optim::warmup_cosine(1e-2, 10, 100), quiet(100));
    trainer.run();
    losses.push_back(trainer.record().final_validation_loss);
  }
  CHECK(losses[0] < 1.7);  // less than ln 7 = 1.95, the loss at the start
  CHECK(std::abs(losses[1] - losses[0]) < 0.02);
  CHECK(std::abs(losses[2] - losses[0]) < 0.02);
}

TEST_CASE("gradients that float16 cannot hold are saved by the scale of the loss") {
  std::vector<std::vector<double>> norms;
  for (const DType dtype : {DType::float32, DType::float16}) {
    manual_seed(1);
    Gpt model(tiny(0));
    model.to(dtype);
    // The mean over many tokens gives each a gradient of at most 1e-5.
    Trainer trainer(text(model, noisy(2000), noisy(60), 1024), optim::constant(1e-3), quiet(1));
    trainer.run();
    norms.emplace_back();
    for (const Series& layer : trainer.record().grad_norm_by_layer) norms.back().push_back(layer.y.at(0));
    for (const PathGradients& path : trainer.record().grad_norm_by_path)
      for (const Series& s : {path.q, path.k, path.v}) norms.back().push_back(s.y.at(0));
  }
  REQUIRE(norms[0].size() == 8);
  for (size_t i = 0; i < 8; ++i) CHECK(norms[1][i] / norms[0][i] == doctest::Approx(1).epsilon(1e-3));
}

TEST_CASE("a gradient that overflows leaves its step out and halves the scale of the loss") {
  const Parameter p(full({2}, 1.5));
  const auto add_gradient = [&](double g) {
    p.zero_grad();
    Tape tape;
    tape.backward(sum(p * g));
  };
  LossScale none(DType::bfloat16), scale(DType::float16);
  CHECK(none.value() == 1);
  add_gradient(65536 * 3);
  CHECK(scale.unscale({p}));
  CHECK(p.grad().values() == std::vector<double>{3, 3});
  add_gradient(INFINITY);
  CHECK(!scale.unscale({p}));
  CHECK(scale.value() == 32768);
  add_gradient(1);
  for (int i = 0; i < 2000; ++i) CHECK(scale.unscale({p}));
  CHECK(scale.value() == 65536);
  add_gradient(NAN);
  for (int i = 0; i < 16; ++i) CHECK(!scale.unscale({p}));
  CHECK_THROWS_WITH_AS(scale.unscale({p}), doctest::Contains("not finite, whatever the scale"), Error);
}

TEST_CASE("gradients along Q, K and V are those of the trace, also where blocks are checkpointed") {
  std::vector<std::vector<double>> norms;
  for (const bool checkpointed : {false, true}) {
    manual_seed(1);
    auto o = tiny(0);
    o.recompute_blocks = checkpointed;
    Gpt model(o);
    Trainer trainer(text(model, counting(500), counting(100)), optim::constant(0), quiet(1));
    trainer.run();
    norms.emplace_back();
    for (const PathGradients& path : trainer.record().grad_norm_by_path)
      for (const Series& s : {path.q, path.k, path.v}) norms.back().push_back(s.y.at(0));
  }
  CHECK(norms[0] == norms[1]);
  manual_seed(1);
  Gpt model(tiny(0));
  const Batch batch = WindowLoader(counting(500), 4, 16, 1).batch(0);
  std::vector<MixerTrace> traces;
  Tape tape;
  const Tensor loss = cross_entropy(model.forward(batch.tensors[0], {.traces = &traces}), batch.tensors[1]);
  std::vector<Tensor> paths;
  for (const MixerTrace& t : traces) paths.insert(paths.end(), {t.q, t.k, t.v});
  const auto gradients = tape.gradient(loss, paths);
  for (size_t i = 0; i < 6; ++i)
    CHECK(norms[0][i] == doctest::Approx(std::sqrt(sum(square(gradients[i])).item())).epsilon(1e-3).scale(0));
}

TEST_CASE(
    "a step whose gradients are recorded needs no more memory than others, so checkpointing saves it too") {
  for (const bool checkpointed : {false, true}) {
    manual_seed(1);
    auto o = tiny();
    o.context = 96;
    o.layers = 3;
    o.recompute_blocks = checkpointed;
    Gpt model(o);
    Trainer trainer(text(model, counting(500), counting(100)), optim::constant(1e-3), quiet(12));
    std::vector<double> peaks;
    trainer.run([&] {
      peaks.push_back(static_cast<double>(memory::statistics().peak));
      memory::reset_peak();
      return false;
    });
    REQUIRE(peaks.size() == 12);

    CHECK(peaks[11] < 1.05 * peaks[10]);  // of step 10, which records gradient norms, and of step 9
  }
}

TEST_CASE("micro-batches accumulate to the step of their mean") {
  std::vector<std::vector<double>> values;
  for (const int64_t accumulate : {1, 3}) {
    manual_seed(1);
    Gpt model(tiny(0));
    auto options = quiet(2);
    options.accumulate = accumulate;
    options.clip = 0;
    options.optimizer = "sgd";  // unlike Adam, it depends on the scale of gradients
    const auto one_window = counting(17);
    Trainer(text(model, one_window, one_window), optim::constant(0.1), options).run();
    values.push_back(test::all_values(model));
  }
  for (size_t i = 0; i < values[0].size(); ++i) CHECK(std::abs(values[0][i] - values[1][i]) < 1e-5);
}

TEST_CASE("every micro-batch of every step is the next one of the text") {
  const auto tokens = noisy(500);
  auto options = quiet(2);
  options.accumulate = 3;
  options.clip = 0;
  options.optimizer = "sgd";
  options.weight_decay = 0;
  manual_seed(1);
  Gpt model(tiny(0));
  Trainer(text(model, tokens, tokens), optim::constant(0.1), options).run();
  manual_seed(1);
  Gpt want(tiny(0));
  const auto sgd = optim::make_optimizer("sgd", want.parameters(), {.lr = 0.1});
  const WindowLoader windows(tokens, 4, 16, 1);
  for (int64_t i = 0; i < 6; ++i) {
    if (i % 3 == 0) sgd->zero_grad();
    const Batch batch = windows.batch(i);
    {
      Tape tape;
      tape.backward(cross_entropy(want.forward(batch.tensors[0]), batch.tensors[1]) * (1.0 / 3));
    }
    if (i % 3 == 2) sgd->step();
  }
  CHECK(test::all_values(model) == test::all_values(want));
}

TEST_CASE("a trainer takes an optimizer object, and a resumed run one of the same setting") {
  const test::Folder folder;
  auto options = quiet(4);
  options.checkpoint = folder / "checkpoint";
  const auto train = [&](bool by_object, const optim::CommonOptions& common, bool resumes = false) {
    manual_seed(1);
    Gpt model(tiny(0));
    auto task = text(model, counting(300), counting(60));
    auto optimizer = optim::make_optimizer("sgd", model.parameters(), common);
    auto named = options;
    named.optimizer = "sgd", named.weight_decay = 0, named.momentum = common.momentum;
    Trainer trainer = by_object ? Trainer(task, std::move(optimizer), optim::constant(0.1), options)
                                : Trainer(task, optim::constant(0.1), named);
    if (resumes) trainer.resume(options.checkpoint);
    trainer.run();
    return test::all_values(model);
  };
  const auto by_name = train(false, {.momentum = 0.5}), by_object = train(true, {.momentum = 0.5});
  CHECK(by_object == by_name);
  CHECK(train(true, {.momentum = 0.9}) != by_object);
  CHECK(train(true, {.momentum = 0.9}, true) != by_object);
  CHECK_THROWS_WITH_AS(train(true, {.momentum = 0.5}, true), doctest::Contains("is 0.9, of this run 0.5"),
                       Error);
  Gpt model(tiny(0));
  CHECK_THROWS_WITH_AS(
      Trainer(text(model, counting(300), counting(60)), nullptr, optim::constant(1), quiet(1)),
      "training: there is no optimizer", Error);
}

TEST_CASE("the norm of a layer is that of the gradients of its parameters, together") {
  manual_seed(1);
  Gpt model(tiny(0));
  auto options = quiet(1);
  options.clip = 0;
  Trainer trainer(text(model, noisy(500), noisy(60)), optim::constant(1e-3), options);
  trainer.run();
  double squares[2] = {};
  for (const auto& [name, p] : model.named_parameters())  // with the gradients of the last step
    for (size_t layer = 0; layer < 2; ++layer)
      if (name.starts_with(fmt::format("blocks.{}.", layer)))
        for (const double g : p.grad().values()) squares[layer] += g * g;
  const auto& layers = trainer.record().grad_norm_by_layer;
  REQUIRE(layers.size() == 2);
  for (size_t i = 0; i < 2; ++i)
    CHECK(layers[i].y.at(0) == doctest::Approx(std::sqrt(squares[i])).epsilon(1e-6).scale(0));
  CHECK(std::abs(squares[0] / squares[1] - 1) > 1e-3);
}

TEST_CASE("weight decay moves matrices, and neither biases nor the gains of norms") {
  std::vector<std::vector<double>> values[2];
  for (const bool decays : {false, true}) {
    manual_seed(1);
    Gpt model(tiny(0));
    // A bias of 0 would not show decay
    for (Parameter& p : model.parameters()) p.assign(randn(p.shape()));
    auto options = quiet(1);
    options.weight_decay = decays ? 0.5 : 0;
    Trainer(text(model, counting(300), counting(60)), optim::constant(1e-2), options).run();
    for (const Parameter& p : model.parameters()) values[decays].push_back(p.master().values());
  }
  Gpt model(tiny(0));
  const auto named = model.named_parameters();
  for (size_t i = 0; i < named.size(); ++i)
    CHECK_MESSAGE((values[0][i] != values[1][i]) == (named[i].second.shape().rank() >= 2), named[i].first);
}

TEST_CASE("a steady training step takes no memory from the system") {
  manual_seed(1);
  Gpt model(tiny());
  Trainer trainer(text(model, counting(500), counting(100)), optim::constant(1e-3), quiet(30));
  size_t reserved = 0;
  trainer.run([&] {
    if (trainer.step() == 15) reserved = memory::statistics().reserved;
    if (trainer.step() > 15 && trainer.step() < 30) CHECK(memory::statistics().reserved <= reserved);
    return false;
  });
}

TEST_CASE("the peak of memory is that of the run, not of what ran before") {
  constexpr int64_t kLarge = 1 << 24;
  { const Tensor before = zeros({kLarge}); }
  manual_seed(1);
  Gpt model(tiny());
  Trainer trainer(text(model, counting(300), counting(60)), optim::constant(1e-3), quiet(2));
  trainer.run();
  CHECK(trainer.record().peak_memory_bytes > 4.0 * static_cast<double>(model.parameter_count()));
  CHECK(trainer.record().peak_memory_bytes < 4.0 * kLarge);
}

TEST_CASE("a text falls into the characters of Unicode, and bytes that are none stand alone") {
  const auto lengths = [](const std::string& text) {
    std::vector<size_t> result;
    for (const std::string& c : split_characters(text)) result.push_back(c.size());
    return result;
  };
  CHECK(lengths("aé∇😀") == std::vector<size_t>{1, 2, 3, 4});
  // Ill-formed UTF-8: overlong, a surrogate, beyond U+10FFFF, truncated, and a stray continuation
  // byte.
  CHECK(lengths("\xE0\x80\x80") == std::vector<size_t>{1, 1, 1});
  CHECK(lengths("\xED\xA0\x80") == std::vector<size_t>{1, 1, 1});
  CHECK(lengths("\xF5\x80\x80\x80") == std::vector<size_t>{1, 1, 1, 1});
  CHECK(lengths("\xE2\x88") == std::vector<size_t>{1, 1});
  CHECK(lengths("\x80z") == std::vector<size_t>{1, 1});
}

TEST_CASE("text becomes tokens and comes back, whatever its characters") {
  const std::string text = "a ∂ b\xff c 𝛼";
  const CharacterVocabulary vocabulary(text);
  CHECK(vocabulary.size() == 7);
  CHECK(vocabulary.decode(vocabulary.encode(text)) == text);
  CHECK_THROWS_WITH_AS(vocabulary.encode("z"), doctest::Contains("\"z\" at position 0 does not occur"),
                       Error);
  CHECK_THROWS_WITH_AS(vocabulary.decode({7}), doctest::Contains("outside [0, 7)"), Error);
}

TEST_CASE(
    "a text takes five bytes of memory per byte while it becomes tokens, and windows share the tokens") {
  std::string text;
  for (int i = 0; text.size() < 1 << 20; ++i) text += fmt::format("{} ∂x und {}\n", i, i % 7);
  const auto use = test::memory_use([&] {
    const CharacterVocabulary vocabulary(text);
    const auto tokens = vocabulary.encode(text);
    const WindowLoader training(tokens, 4, 16, 1), validation(tokens, 4, 16, 2);
    CHECK(training.batch(0).tokens == validation.batch(0).tokens);
  });
  CHECK(static_cast<double>(use.peak) / static_cast<double>(text.size()) <
        5);  // in addition to the text itself
}

TEST_CASE("the whole split is covered once, with a shorter window at its end") {
  const auto text = counting(105);
  std::vector<double> seen;
  const auto batches = WindowLoader(text, 3, 10, 1).whole();
  for (const Batch& b : batches)
    for (double id : b.tensors[1].values()) seen.push_back(id);
  CHECK(seen == std::vector<double>(text.begin() + 1, text.end()));
  CHECK(batches.front().tensors[0].shape() == Shape{3, 10});
  CHECK(batches.back().tensors[0].shape() == Shape{1, 4});
  CHECK_THROWS_WITH_AS(WindowLoader(counting(10), 3, 10, 1), doctest::Contains("do not hold one window"),
                       Error);
}

TEST_CASE("the validation loss is the mean over tokens, whatever the sizes of the windows") {
  manual_seed(1);
  Gpt model(tiny());
  Trainer trainer(text(model, counting(300), counting(20)), optim::constant(1e-3), quiet(1));
  const double mean = trainer.validation_loss();
  model.eval();
  double sum = 0;
  for (auto [begin, size] : {std::pair{0, 16}, {16, 3}}) {
    Tensor x = empty({1, size}, DType::int64), y = empty({1, size}, DType::int64);
    for (int64_t t = 0; t < size; ++t) {
      x.data<int64_t>()[t] = (begin + t) % 7;
      y.data<int64_t>()[t] = (begin + t + 1) % 7;
    }
    sum += size * cross_entropy(model.forward(x), y).item();
  }
  CHECK(mean == doctest::Approx(sum / 19).epsilon(1e-6));
}
