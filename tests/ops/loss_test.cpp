#include "ops/loss.h"

#include <cmath>
#include <limits>

#include "core/random.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/view.h"
#include "tests/ops/reference.h"

namespace vitrine::test {
namespace {

using V = std::vector<double>;

Tensor targets_of(std::initializer_list<double> values, DType dtype = DType::int64) {
  return tensor(values, dtype);
}

/// Targets in [0, classes), every fifth ignored.
Tensor random_targets(const Shape& shape, int64_t classes, uint64_t seed) {
  Generator generator(seed);
  Tensor y = randint(0, classes, shape, Device::cpu, generator);
  for (int64_t i = 3; i < y.numel(); i += 5) y.data<int64_t>()[i] = -100;
  return y;
}

/// The textbook formula in loops over double: losses per row times their weights, and the sum of
/// weights.
std::pair<V, double> loops(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const V x = logits.values(), t = targets.values();
  const V w = options.class_weights.defined() ? options.class_weights.values()
                                              : V(static_cast<size_t>(logits.size(-1)), 1);
  const size_t n = w.size();
  V losses;
  double total_weight = 0;
  for (size_t row = 0; row < t.size(); ++row) {
    losses.push_back(0);
    if (t[row] == static_cast<double>(options.ignore_index)) continue;
    double total = 0;
    for (size_t c = 0; c < n; ++c) total += std::exp(x[row * n + c]);
    const double weight = w[static_cast<size_t>(t[row])];
    for (size_t c = 0; c < n; ++c) {
      const double target = (static_cast<double>(c) == t[row] ? 1 - options.label_smoothing : 0) +
                            options.label_smoothing / static_cast<double>(n);
      losses.back() -= weight * target * std::log(std::exp(x[row * n + c]) / total);
    }
    total_weight += weight;
  }
  return {losses, total_weight};
}

std::vector<CrossEntropyOptions> all_options(int64_t classes) {
  std::vector<CrossEntropyOptions> all;
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    for (double smoothing : {0.0, 0.1})
      for (bool weighted : {false, true}) {
        all.push_back({reduction, smoothing, -100, {}});
        if (weighted) all.back().class_weights = random({classes}, 9, DType::float32, 0.5, 2);
      }
  return all;
}

TEST_CASE("cross_entropy and nll_loss equal double loops with every option and dtype") {
  for (DType dtype : {DType::float64, DType::float32, DType::bfloat16})
    for (const auto& options : all_options(37)) {
      const Tensor logits = random({3, 7, 37}, 1, dtype, -3, 3), targets = random_targets({3, 7}, 37, 2);
      const auto [losses, weight] = loops(logits, targets, options);
      Tensor want = tensor(losses, {3, 7}, DType::float64);
      if (options.reduction != Reduction::none) want = sum(want);
      if (options.reduction == Reduction::mean) want = want / weight;
      const double tolerance =
          dtype == DType::float64 ? 1e-14 : 2e-6;  // of float32, in which 16-bit losses are kept
      CHECK(distance(cross_entropy(logits, targets, options), want) < tolerance);
      CHECK(cross_entropy(logits, targets, options).dtype() == accumulation_dtype(dtype));
      CHECK(distance(define::cross_entropy(logits, targets, options), want) < tolerance);
      const Tensor log_probabilities = log_softmax(copy_as(logits, accumulation_dtype(dtype)));
      CHECK(distance(nll_loss(log_probabilities, targets, options), want) < tolerance);
    }
}

TEST_CASE("the gradient of cross_entropy equals its definition's in every dtype") {
  for (DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16})
    for (const auto& options : all_options(50)) {
      const Tensor logits = random({11, 50}, 3, dtype, -3, 3), targets = random_targets({11}, 50, 4);
      const auto got =
          gradients([&](const auto& v) { return cross_entropy(v[0], targets, options); }, {logits})[0];
      const auto seed = copy_as(logits, DType::float64);
      // The cotangent of a 16-bit loss is float32, so the float64 run uses a cotangent that is
      // rounded to float32.
      const auto want = gradients(
          [&](const auto& v) {
            return cast(define::cross_entropy(v[0], targets, options), accumulation_dtype(dtype));
          },
          {seed})[0];
      CHECK(got.dtype() == dtype);
      CHECK(distance(got, want, 0.01) < (is_low_precision(dtype) ? 1 : 8) * epsilon(dtype));
    }
}

TEST_CASE("gradients match differences, to the second order") {
  const Tensor logits = random({4, 5}, 5, DType::float64, -2, 2), targets = targets_of({1, 4, -100, 0});
  for (const auto& options : all_options(5)) {
    CHECK(gradient_error([&](const auto& v) { return cross_entropy(v[0], targets, options); }, {logits}) <
          1e-7);
    CHECK(gradient_error([&](const auto& v) { return square(nll_loss(v[0], targets, options)); }, {logits}) <
          1e-7);
  }
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    const Tensor y = random({4, 5}, 6, DType::float64, 0.2, 0.8);
    CHECK(gradient_error([&](const auto& v) { return mse_loss(v[0], v[1], reduction); }, {logits, y}) < 1e-7);
    CHECK(gradient_error([&](const auto& v) { return binary_cross_entropy(v[0], v[1], reduction); },
                         {logits, y}) < 1e-7);
  }
}

TEST_CASE("a vector of logits takes a scalar target, of int32 too") {
  const Tensor logits = tensor({1, 2, 3}, DType::float64);
  CHECK(cross_entropy(logits, tensor({2}, {}, DType::int32)).item() ==
        doctest::Approx(std::log(1 + std::exp(-1.0) + std::exp(-2.0))));
}

TEST_CASE("logits that are views or far from 0 lose nothing") {
  const Tensor logits = random({6, 9}, 7, DType::float64, -2, 2), targets = random_targets({6}, 9, 8);
  const Tensor view = transpose(copy_as(transpose(logits), DType::float64));
  CHECK(cross_entropy(view, targets).item() == cross_entropy(logits, targets).item());
  const auto dx = [&](const Tensor& x) {
    return gradients([&](const auto& v) { return cross_entropy(v[0], targets); }, {x})[0];
  };
  CHECK(distance(dx(view), dx(logits)) == 0);
  const Tensor whole = tensor({3, 1, 0, 2}, {2, 2}), zero_one = targets_of({0, 1});
  const Tensor far = whole + 8192.0;  // exact in float32
  CHECK(distance(cross_entropy(far, zero_one), cross_entropy(copy_as(whole, DType::float64), zero_one)) <
        1e-6);
  CHECK(distance(gradients([&](const auto& v) { return cross_entropy(v[0], zero_one); }, {far})[0],
                 gradients([&](const auto& v) { return cross_entropy(v[0], zero_one); }, {whole})[0]) < 1e-6);
}

TEST_CASE("ignored rows count for nothing, even with NaN in them; a mean over no rows is 0") {
  const Tensor logits = tensor({1, 2, std::nan(""), 0, kInfinity, 0}, {3, 2});
  const Tensor targets = targets_of({1, -100, -100});
  Tape tape;
  const Tensor x = tape.watch(logits), loss = cross_entropy(x, targets);
  CHECK(loss.item() == doctest::Approx(std::log(1 + std::exp(-1.0))));
  const V dx = tape.gradient(loss, {x}, Keep::yes)[0].values();
  CHECK(V(dx.begin() + 2, dx.end()) == V{0, 0, 0, 0});
  const Tensor none = cross_entropy(x, targets_of({-100, -100, -100}));
  CHECK(none.item() == 0);
  CHECK(tape.gradient(none, {x})[0].values() == V(6, 0));
  CHECK(cross_entropy(empty({0, 2}), empty({0}, DType::int64)).item() == 0);
  CHECK(cross_entropy(logits, targets_of({1, 7, 7}), {.ignore_index = 7}).item() == loss.item());
}

TEST_CASE("a masked class costs nothing unless it is the target; a row of only −∞ costs ∞, with gradient 0") {
  const Tensor logits =
      tensor({0, -kInfinity, 0, -kInfinity, -kInfinity, -kInfinity}, {2, 3}, DType::float64);
  for (int order : {1, 2}) {  // the kernel, and the definition
    Tape tape({.order = order});
    const Tensor x = tape.watch(logits),
                 losses = cross_entropy(x, targets_of({0, 1}), {.reduction = Reduction::none});
    CHECK(losses.values()[0] == doctest::Approx(std::log(2.0)));
    CHECK(losses.values()[1] == kInfinity);
    const V dx = tape.gradient({losses}, {x}, {ones_like(losses)})[0].values();
    CHECK(distance(tensor(dx, {6}, DType::float64), tensor({-0.5, 0, 0.5, 0, 0, 0}, DType::float64)) < 1e-15);
  }
  CHECK(cross_entropy(logits, targets_of({1, -100})).item() == kInfinity);
}

TEST_CASE("a gradient too large for the caches, which is written past them, has the bits of its rows alone") {
  const Tensor logits = random({170, 50021}, 12, DType::float32, -3, 3),
               targets = random_targets({170}, 50021, 13);
  const CrossEntropyOptions options{.reduction = Reduction::sum, .label_smoothing = 0.1};
  const auto dx_of = [&](const Tensor& x, const Tensor& t) {
    return gradients([&](const auto& v) { return cross_entropy(v[0], t, options); }, {x})[0];
  };
  const Tensor dx = dx_of(logits, targets);
  for (int64_t row : {0, 1, 101, 169}) {
    const auto only = [row](const Tensor& x) { return slice(x, 0, row, row + 1); };
    CHECK(only(dx).values() == dx_of(only(logits), only(targets)).values());
  }
}

TEST_CASE("mse_loss and binary_cross_entropy match hand numbers and stay finite for large logits") {
  const Tensor x = tensor({1, 2, -3, 0}, {2, 2}, DType::float64),
               y = tensor({0, 1, 1, 0.5}, {2, 2}, DType::float64);
  CHECK(mse_loss(x, y).item() == (1 + 1 + 16 + 0.25) / 4);
  CHECK(mse_loss(x, y, Reduction::none).values() == V{1, 1, 16, 0.25});
  V want;
  for (size_t i = 0; i < 4; ++i) {
    const double p = 1 / (1 + std::exp(-x.values()[i])), t = y.values()[i];
    want.push_back(-t * std::log(p) - (1 - t) * std::log(1 - p));
  }
  CHECK(distance(binary_cross_entropy(x, y, Reduction::none), tensor(want, {2, 2}, DType::float64)) < 1e-14);
  CHECK(binary_cross_entropy(tensor({1000, -1000}), tensor({1, 0})).item() == 0);
  CHECK(binary_cross_entropy(tensor({1000, -1000}), tensor({0, 1})).item() == 1000);
  const Tensor sure = tensor({20, -20, 20}), truth = tensor({1, 0, 0.75});
  const V small = binary_cross_entropy(sure, truth, Reduction::none).values();
  CHECK(small[0] == doctest::Approx(std::log1p(std::exp(-20.0))).epsilon(1e-6).scale(0));
  CHECK(small[1] == small[0]);
  CHECK(small[2] == doctest::Approx(5));
  CHECK(
      gradients([&](const auto& v) { return binary_cross_entropy(v[0], truth, Reduction::none); }, {sure})[0]
          .values()[0] < 0);
  CHECK(mse_loss(full({2}, 1, DType::bfloat16), full({2}, 2, DType::bfloat16)).dtype() == DType::float32);
  Tape tape;  // at 0 the derivative of max(x, 0) is a matter of convention, that of the loss is not
  const Tensor zero = tape.watch(Tensor(0.0)), loss = binary_cross_entropy(zero, Tensor(0.25));
  CHECK(tape.gradient(loss, {zero})[0].item() == 0.25);
}

TEST_CASE("losses and gradients do not depend on the number of threads") {
  const Tensor logits = random({203, 1009}, 10, DType::float32, -3, 3),
               targets = random_targets({203}, 1009, 11);
  CHECK(same_on_any_threads([&] {
    return std::vector<Tensor>{
        cross_entropy(logits, targets, {.label_smoothing = 0.1}),
        gradients([&](const auto& v) { return cross_entropy(v[0], targets); }, {logits})[0]};
  }));
}

TEST_CASE("errors name the target, its position and the shapes") {
  const Tensor logits = empty({2, 3});
  CHECK(error_of([&] {
          cross_entropy(logits, targets_of({0, 3}));
        }) == "cross_entropy: targets has 3 at position 1, outside [0, 3)");
  CHECK(error_of([&] {
          cross_entropy(logits, targets_of({-1, 0}));
        }) == "cross_entropy: targets has -1 at position 0, outside [0, 3)");
  CHECK(error_of([&] { cross_entropy(logits, targets_of({1})); }) ==
        "cross_entropy: targets has the shape [1], wanted [2], for logits of shape [2, 3]");
  CHECK(error_of([&] {
          cross_entropy(logits, tensor({0, 1}));
        }) == "cross_entropy: targets is float32[2] on cpu, wanted int64, int32 or uint8");
  CHECK(error_of([&] {
          cross_entropy(logits, targets_of({0, 1}), {.label_smoothing = 1.5});
        }) == "cross_entropy: label_smoothing is 1.5, wanted 0 to 1");
  CHECK(error_of([&] {
          cross_entropy(logits, targets_of({0, 1}), {.class_weights = ones({2})});
        }) == "cross_entropy: class_weights has the shape [2], wanted [3]");
  CHECK(error_of([&] {
          cross_entropy(logits, targets_of({0, 1}), {.ignore_index = (int64_t{1} << 53) + 1});
        }) == "cross_entropy: ignore_index is 9007199254740993, wanted -2^53 to 2^53");
  CHECK(error_of([&] { nll_loss(Tensor(1.0), targets_of({1})); }) ==
        "nll_loss: log_probabilities is a scalar, wanted [..., V]");
  CHECK(error_of([&] { mse_loss(logits, empty({3})); }) ==
        "mse_loss: x has the shape [2, 3] and y the shape [3], wanted the same");
  CHECK(error_of([&] {
          binary_cross_entropy(empty({2}, DType::int64), empty({2}));
        }).starts_with("binary_cross_entropy: logits is int64[2]"));
  for (double wrong : {1.5, -0.25})
    CHECK(error_of([&] {
            binary_cross_entropy(zeros({3}), tensor({0, wrong, 1}));
          }) == fmt::format("binary_cross_entropy: targets has {} at position 1, outside [0, 1]", wrong));
  CHECK(error_of([&] { binary_cross_entropy(zeros({1}), full({1}, NAN)); }).find("has nan at") !=
        std::string::npos);
}

}  // namespace
}  // namespace vitrine::test
