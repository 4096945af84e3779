// The encoder-decoder Transformer: what each position sees, decoding in steps, and that it learns.
#include "nn/models/encoder_decoder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nn/check_gradients.h"
#include "nn/training/trainer.h"
#include "ops/view.h"
#include "optim/schedule.h"
#include "tests/nn/models/seq2seq_checks.h"

using namespace vitrine;
using namespace vitrine::nn;
using test::random_ids;

namespace {

const EncoderDecoderOptions kTiny = {.source_vocabulary = 7,
                                     .vocabulary = 6,
                                     .source_context = 6,
                                     .context = 8,
                                     .width = 8,
                                     .encoder_layers = 2,
                                     .decoder_layers = 2,
                                     .heads = 2};

EncoderDecoder lively(const std::string& mixer, EncoderDecoderOptions options = kTiny) {
  options.mixer = mixer;
  return test::lively<EncoderDecoder>(options);
}

const std::vector<std::string> kMixers = {"standard", "rotary", "laser+alibi", "lstm", "linear"};

}  // namespace

TEST_CASE("a target position sees the target up to itself and the whole source") {
  for (const std::string& name : kMixers) {
    INFO(name);
    EncoderDecoder model = lively(name);
    const Tensor source = random_ids(2, 5, 7, 1), ids = random_ids(2, 6, 6, 2);
    const Tensor logits = model.forward(source, {}, ids);
    CHECK(logits.shape() == Shape{2, 6, 6});
    for (int64_t changed = 0; changed < 6; ++changed) {
      std::vector<double> other = ids.values();
      for (const int64_t row : {0, 1}) other[row * 6 + changed] = 5 - other[row * 6 + changed];
      const Tensor now = model.forward(source, {}, cast(tensor(other, {2, 6}), DType::int64));
      if (changed > 0)
        CHECK(test::largest_difference(slice(now, 1, 0, changed), slice(logits, 1, 0, changed)) <= 1e-14);
      CHECK(test::largest_difference(slice(now, 1, changed, changed + 1),
                                     slice(logits, 1, changed, changed + 1)) > 1e-3);
    }
    for (int64_t changed = 0; changed < 5; ++changed) {
      std::vector<double> other = source.values();
      other[changed] = 6 - other[changed] == other[changed] ? 0 : 6 - other[changed];
      const Tensor now = model.forward(cast(tensor(other, {2, 5}), DType::int64), {}, ids);
      CHECK(test::largest_difference(slice(now, 1, 0, 1), slice(logits, 1, 0, 1)) > 1e-6);
      // The other row
      CHECK(test::largest_difference(select(now, 0, 1), select(logits, 0, 1)) <= 1e-14);
    }
  }
}

TEST_CASE("padding of the source changes nothing; decoding in steps equals the full pass; search") {
  for (const std::string& name : kMixers) {
    INFO(name);
    EncoderDecoder model = lively(name);
    test::check_padding(model, 6);
    test::check_steps(model, 6);
    test::check_search(model, 6);
  }
}

TEST_CASE("the traces of a decoder are of its attention to the source") {
  EncoderDecoder model = lively("standard");
  const Memory memory = model.encode(random_ids(2, 5, 7, 1), index_tensor(std::vector<int64_t>{5, 3}, {2}));
  std::vector<MixerTrace> traces;
  StackCall call = test::call_of(memory);
  call.traces = &traces;
  model.features(random_ids(2, 4, 6, 2), call);
  REQUIRE(traces.size() == 2);
  for (const MixerTrace& trace : traces) {
    CHECK(trace.weights.shape() == Shape{2, 2, 4, 5});
    CHECK(max(abs(sum(trace.weights, {-1}) - 1)).item() <= 1e-14);
    CHECK(max(slice(select(trace.weights, 0, 1), 2, 3, 5)).item() == 0);  // padding
  }
}

TEST_CASE("the gradients of an encoder-decoder agree with differences, and a clone gives the same") {
  EncoderDecoderOptions small = kTiny;  // every parameter is moved four times
  small.width = 4, small.hidden = 3, small.encoder_layers = 1, small.decoder_layers = 1;
  EncoderDecoder model = lively("standard", small);
  const Tensor source = random_ids(2, 4, 7, 8), ids = random_ids(2, 3, 6, 9),
               wanted = random_ids(2, 3, 6, 10);
  const Tensor lengths = index_tensor(std::vector<int64_t>{4, 2}, {2});
  const auto loss = [&](const std::vector<Tensor>&) {
    return cross_entropy(model.forward(source, lengths, ids), wanted);
  };
  const GradientReport report = check_gradients(model, loss, {});
  CHECK_MESSAGE(report.passed, to_string(report));
  EncoderDecoder twin = model.clone();
  CHECK(twin.forward(source, lengths, ids).values() == model.forward(source, lengths, ids).values());
  for (const Parameter& p : model.parameters()) CHECK(p.requires_grad());
}

TEST_CASE("it learns to reverse sequences of several lengths within seconds") {
  manual_seed(2);
  // Token 0 begins and ends a target and pads a source.
  const auto batch = [](int64_t index, int64_t rows) {
    Generator generator(static_cast<uint64_t>(index));
    std::vector<int64_t> source(static_cast<size_t>(rows * 5)), lengths, given, wanted;
    int64_t tokens = 0;
    for (int64_t b = 0; b < rows; ++b) {
      const int64_t length = 1 + generator.next_below(5);
      std::vector<int64_t> own;
      for (int64_t t = 0; t < length; ++t) own.push_back(1 + generator.next_below(5));
      std::copy(own.begin(), own.end(), source.begin() + b * 5);
      std::reverse(own.begin(), own.end());
      given.push_back(0);
      given.insert(given.end(), own.begin(), own.end());
      given.resize(static_cast<size_t>((b + 1) * 6));
      wanted.insert(wanted.end(), own.begin(), own.end());
      wanted.push_back(0);
      wanted.resize(static_cast<size_t>((b + 1) * 6), -100);
      lengths.push_back(length);
      tokens += length + 1;
    }
    return Batch{{index_tensor(source, {rows, 5}), index_tensor(lengths, {rows}),
                  index_tensor(given, {rows, 6}), index_tensor(wanted, {rows, 6})},
                 tokens};
  };
  EncoderDecoder model({.source_vocabulary = 6,
                        .vocabulary = 6,
                        .source_context = 5,
                        .context = 6,
                        .width = 32,
                        .encoder_layers = 1,
                        .decoder_layers = 1,
                        .heads = 2});
  training::Trainer trainer(
      {.model = model,
       .batch = [&](int64_t index) { return batch(index, 32); },
       .validation = [&] { return std::vector{batch(1 << 20, 64)}; },
       .loss = [&](const auto& x) { return cross_entropy(model.forward(x[0], x[1], x[2]), x[3]); }},
      optim::warmup_cosine(5e-3, 50, 300), {.steps = 300, .evaluate_every = 300, .progress = false});
  trainer.run();
  CHECK(trainer.validation_loss() < 0.05);
  const Tape::Pause pause;
  const Batch fresh = batch(1 << 21, 50);
  const auto found = beam_search(model, std::vector<std::vector<int64_t>>(50, {0}), 6, {.beam = 2},
                                 {{.tokens = {0}}, model.encode(fresh.tensors[0], fresh.tensors[1])});
  int right = 0;
  for (size_t b = 0; b < 50; ++b) {
    std::vector<int64_t> own;
    for (int64_t t = static_cast<int64_t>(fresh.tensors[1].values()[b]) - 1; t >= 0; --t)
      own.push_back(static_cast<int64_t>(fresh.tensors[0].values()[b * 5 + static_cast<size_t>(t)]));
    own.insert(own.begin(), 0);
    own.push_back(0);
    right += found[b][0].tokens == own ? 1 : 0;
  }
  CHECK(right >= 48);
}

TEST_CASE("what an encoder-decoder cannot do is refused with a reason") {
  EncoderDecoderOptions bad = kTiny;
  bad.decoder_layers = 0;
  CHECK_THROWS_WITH_AS(EncoderDecoder{bad}, "EncoderDecoder: decoder-layers is 0, wanted at least 1", Error);
  EncoderDecoder model(kTiny);
  const Tensor ids = random_ids(1, 3, 6, 1);
  CHECK_THROWS_WITH_AS(model.forward(ids), doctest::Contains("there is no memory"), Error);
  CHECK_THROWS_WITH_AS(generate(model, {1}, 2), doctest::Contains("there is no memory"), Error);
  CHECK_THROWS_WITH_AS(model.encode(random_ids(1, 7, 6, 1)), doctest::Contains("with at most 6 tokens"),
                       Error);
  CHECK_THROWS_WITH_AS(model.encode(full({1, 2}, 7, DType::int64)), doctest::Contains("outside [0, 7)"),
                       Error);
  CHECK_THROWS_WITH_AS(model.forward(ids, {}, random_ids(1, 9, 6, 1)),
                       doctest::Contains("the context holds 8"), Error);
  CHECK_THROWS_AS(model.forward(random_ids(2, 3, 6, 1), {}, ids), Error);
}
