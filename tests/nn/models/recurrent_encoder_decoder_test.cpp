// The recurrent encoder-decoder: its formulas, what each position sees, decoding in steps, and
// errors, for each score, view and feeding.
#include "nn/models/recurrent_encoder_decoder.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "nn/check_gradients.h"
#include "ops/activation.h"
#include "ops/join.h"
#include "ops/matmul.h"
#include "ops/recurrent.h"
#include "ops/softmax.h"
#include "tests/nn/models/seq2seq_checks.h"

using namespace vitrine;
using namespace vitrine::nn;
using test::distance, test::lively, test::random_ids;

namespace {

using Options = RecurrentEncoderDecoderOptions;
using Model = RecurrentEncoderDecoder;

/// Tiny sizes.
Options tiny(SourceScore score, Feeding feeding, LuongView view = LuongView::global, Cell cell = Cell::gru,
             bool coverage = false) {
  return {.source_vocabulary = 6,
          .vocabulary = 6,
          .context = 8,
          .width = 8,
          .cell = cell,
          .score = score,
          .view = view,
          .half_window = 1,
          .feeding = feeding,
          .coverage = coverage};
}

const std::vector<Options> kAll = {
    tiny(SourceScore::none, Feeding::none),
    tiny(SourceScore::none, Feeding::context, LuongView::global, Cell::lstm),
    tiny(SourceScore::additive, Feeding::none),
    tiny(SourceScore::additive, Feeding::context),
    tiny(SourceScore::additive, Feeding::attentional, LuongView::global, Cell::lstm, true),
    tiny(SourceScore::concat, Feeding::none, LuongView::monotonic, Cell::gru, true),
    tiny(SourceScore::dot, Feeding::attentional),
    tiny(SourceScore::general, Feeding::none, LuongView::monotonic),
    tiny(SourceScore::general, Feeding::attentional, LuongView::predictive, Cell::lstm),
    tiny(SourceScore::concat, Feeding::context, LuongView::predictive),
};

std::string name_of_options(const Options& o) {
  return fmt::format("{} {} {} {} {}", name_of(o.score), name_of(o.feeding), name_of(o.view), name_of(o.cell),
                     o.coverage);
}

}  // namespace

TEST_CASE("padding changes nothing, decoding in steps equals the full pass, search agrees with it") {
  for (const Options& o : kAll) {
    INFO(name_of_options(o));
    Model model = lively<Model>(o);
    test::check_padding(model, 6);
    test::check_steps(model, 6);
    test::check_search(model, 6);
  }
}

TEST_CASE("a position sees the target up to itself; each choice of parts gives other logits") {
  std::vector<Tensor> all;
  for (const Options& o : kAll) {
    INFO(name_of_options(o));
    Model model = lively<Model>(o);
    const Tensor source = random_ids(1, 5, 6, 1), ids = random_ids(1, 4, 6, 2);
    const Tensor logits = model.forward(source, {}, ids);
    CHECK(logits.shape() == Shape{1, 4, 6});
    for (int64_t changed = 0; changed < 4; ++changed) {
      std::vector<double> other = ids.values();
      other[static_cast<size_t>(changed)] = 5 - other[static_cast<size_t>(changed)];
      const Tensor now = model.forward(source, {}, cast(tensor(other, {1, 4}), DType::int64));
      if (changed > 0) CHECK(distance(slice(now, 1, 0, changed), slice(logits, 1, 0, changed)) == 0);
      CHECK(distance(slice(now, 1, changed, 4), slice(logits, 1, changed, 4)) > 1e-3);
    }
    for (const Tensor& other : all) CHECK(distance(other, logits) > 1e-3);
    all.push_back(logits);
    CHECK(distance(model.clone().forward(source, {}, ids), logits) == 0);
  }
}

TEST_CASE("the steps of Bahdanau and of Luong, written out") {
  for (const Feeding feeding : {Feeding::context, Feeding::attentional}) {
    Model model = lively<Model>(tiny(SourceScore::general, feeding));
    const Tensor source = random_ids(1, 5, 6, 1), ids = random_ids(1, 3, 6, 2);
    const auto half = [&](const Recurrent::Direction& d, bool reverse) {
      return gru(d.input.forward(model.source_tokens.forward(source)), d.recurrent, d.bias, {},
                 {.reverse = reverse});
    };
    const Tensor forward = half(model.encoder->directions[0], false),
                 backward = half(model.encoder->directions[1], true);
    const Tensor states = concat({forward, backward}, 2);
    CHECK(distance(states, model.encode(source).source) <= 1e-14);
    Tensor h = tanh(model.bridge.forward(concat({select(forward, 1, -1), select(backward, 1, 0)}, 1)));
    Tensor read = zeros({1, 1, 8}, DType::float64);
    const auto context = [&](const Tensor& query) {  // [1, 8] → [1, 1, 8]
      const Tensor scores =
          matmul(matmul(query, model.attention.score_weight), transpose(select(states, 0, 0)));
      return unsqueeze(matmul(softmax(scores), select(states, 0, 0)), 0);
    };
    std::vector<Tensor> logits;
    for (int64_t t = 0; t < 3; ++t) {
      const Tensor token = model.tokens.forward(slice(ids, 1, t, t + 1));
      Tensor c;
      if (feeding == Feeding::context) c = context(h);
      const Tensor x = concat({token, feeding == Feeding::context ? c : read}, 2);
      const Recurrent::Direction& d = model.decoder->directions[0];
      h = select(gru(d.input.forward(x), d.recurrent, d.bias, h), 1, 0);
      if (feeding == Feeding::attentional) c = context(h);
      read = tanh(matmul(concat({c, unsqueeze(h, 0)}, 2), transpose(model.attention.combine_weight)));
      logits.push_back(model.head.forward(read));
    }
    CHECK(distance(concat(logits, 1), model.forward(source, {}, ids)) <= 1e-13);
  }
}

TEST_CASE("the gradients agree with differences, also of what one step passes to the next") {
  for (Options o : {kAll[1], kAll[3], kAll[4], kAll[8]}) {
    INFO(name_of_options(o));
    o.width = 4, o.source_vocabulary = 4, o.vocabulary = 3;  // every parameter is moved four times
    Model model = lively<Model>(o);
    const Tensor source = random_ids(2, 4, 4, 8), ids = random_ids(2, 3, 3, 9),
                 wanted = random_ids(2, 3, 3, 10);
    const Tensor lengths = index_tensor(std::vector<int64_t>{4, 2}, {2});
    const GradientReport report =
        check_gradients(model,
                        [&](const std::vector<Tensor>&) {
                          return cross_entropy(model.forward(source, lengths, ids), wanted);
                        },
                        {});
    CHECK_MESSAGE(report.passed, to_string(report));
  }
}

TEST_CASE("coverage is the sum of the earlier weights, and a trace has the weights and what is visible") {
  Model model =
      lively<Model>(tiny(SourceScore::concat, Feeding::none, LuongView::monotonic, Cell::gru, true));
  const Memory memory = model.encode(random_ids(2, 5, 6, 1), index_tensor(std::vector<int64_t>{5, 3}, {2}));
  std::vector<MixerTrace> traces;
  StackCall call = test::call_of(memory);
  call.traces = &traces;
  const auto decoded = model.decode(random_ids(2, 4, 6, 2), call);
  REQUIRE(traces.size() == 1);
  CHECK(traces[0].weights.shape() == Shape{2, 1, 4, 5});
  CHECK(distance(select(traces[0].weights, 1, 0), decoded.weights) == 0);
  for (int64_t t = 0; t < 4; ++t)
    CHECK(distance(select(decoded.coverage, 1, t), sum(slice(decoded.weights, 1, 0, t), {1})) <= 1e-14);
  // Within one place of the step, and within the row.
  for (const auto& [step, place, seen] :
       {std::tuple{0, 1, true}, {0, 2, false}, {3, 2, true}, {3, 3, false}}) {
    const int64_t t = step, s = place;
    INFO(t, " ", s);
    CHECK((select(select(select(decoded.weights, 0, 1), 0, t), 0, s).item() > 0) == seen);
    CHECK((select(select(select(select(traces[0].visible, 0, 1), 0, 0), 0, t), 0, s).item() != 0) == seen);
  }
  CHECK(distance(sum(decoded.weights, {-1}), ones({2, 4}, DType::float64)) <= 1e-14);
}

TEST_CASE("what a recurrent encoder-decoder cannot do is refused with a reason") {
  const auto refused = [](auto change, const char* why) {
    Options o = kAll[2];
    change(o);
    CHECK_THROWS_WITH_AS(Model{o}, doctest::Contains(why), Error);
  };
  refused([](Options& o) { o.width = 7; }, "width is 7, wanted an even number");
  refused([](Options& o) { o.dropout = 1; }, "dropout is 1, wanted");
  refused([](Options& o) { o.score = SourceScore::none, o.coverage = true; }, "without attention");
  refused([](Options& o) { o.score = SourceScore::none, o.view = LuongView::predictive; },
          "without attention");
  refused([](Options& o) { o.score = SourceScore::dot, o.coverage = true; },
          "the score dot reads no coverage");
  Model model(kAll[2]);
  const Tensor ids = random_ids(1, 3, 6, 1);
  const Memory memory = model.encode(ids);
  CHECK_THROWS_WITH_AS(model.forward(ids), doctest::Contains("there is no memory"), Error);
  CHECK_THROWS_WITH_AS(model.forward(ids, {}, random_ids(1, 9, 6, 1)),
                       doctest::Contains("9 positions, the context holds 8"), Error);
  CHECK_THROWS_WITH_AS(model.encode(full({1, 2}, 6, DType::int64)), doctest::Contains("outside [0, 6)"),
                       Error);
  CHECK_THROWS_WITH_AS(model.encode(full({1, 0}, 0, DType::int64)), doctest::Contains("at least one token"),
                       Error);
  CHECK_THROWS_WITH_AS(model.forward(ids, {}, full({1, 0}, 0, DType::int64)),
                       doctest::Contains("T of at least 1"), Error);
  StackCall padded = test::call_of(memory);
  padded.padding = index_tensor(std::vector<int64_t>{1}, {1});
  CHECK_THROWS_WITH_AS(model.forward(ids, padded), doctest::Contains("prompts of one length"), Error);
  const auto encoder = make_recurrent(Cell::gru, {.width = 4, .causal = false});
  CHECK_THROWS_WITH_AS(encoder->states(zeros({1, 2, 4})), doctest::Contains("of two directions"), Error);
}
