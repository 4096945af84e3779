#include "tests/programs/checks.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/creation.h"
#include "core/gradcheck/differences.h"
#include "core/random.h"
#include "core/record.h"
#include "core/tape.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/programs/ops.h"

namespace vitrine::programs {
namespace {

/// A loss and its gradients in row-major order, as float64.
struct Result {
  double loss = 0;
  std::vector<std::vector<double>> gradients;
};

std::vector<std::vector<double>> numbers(const std::vector<Tensor>& xs) {
  std::vector<std::vector<double>> result;
  for (const Tensor& x : xs) result.push_back(x.values());
  return result;
}

Values as(const Values& xs, DType dtype) {
  Values result;
  for (const Tensor& x : xs) result.push_back(copy_as(x, dtype));
  return result;
}

Result by_gradient(const Program& program, const Values& inputs, const RunOptions& options = {},
                   int order = 1) {
  Tape tape({.order = order});
  for (const Tensor& x : inputs) tape.watch(x);
  const Tensor loss = run(program, inputs, options).back();
  return {loss.item(), numbers(tape.gradient(loss, inputs))};
}

Result by_backward(const Program& program) {
  const Values leaves = as(program.inputs, DType::float64);
  for (Tensor x : leaves) x.requires_grad();
  Tape tape;
  const Tensor loss = run(program, leaves).back();
  const double value = loss.item();
  if (has_gradient(loss)) tape.backward(loss);  // else every input is read under Pause alone
  Result result{value, {}};
  for (const Tensor& x : leaves)
    result.gradients.push_back(x.grad().defined() ? x.grad().values()
                                                  : std::vector<double>(static_cast<size_t>(x.numel())));
  return result;
}

/// Some steps are kept: about a third, the last one, and what has to happen once and in order. A
/// constant has no gradient to recompute.
std::vector<bool> some_kept(const Program& program) {
  Choice choice(program.seed + 1);
  std::vector<bool> kept;
  for (const Step& step : program.steps) kept.push_back(step.op->draws || choice.chance(0.35));
  kept.back() = true;
  return kept;
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double v : values) most = std::max(most, std::isfinite(v) ? std::abs(v) : INFINITY);
  return most;
}

double largest_difference(const std::vector<double>& x, const std::vector<double>& y) {
  if (x.size() != y.size()) return INFINITY;
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i)
    most = std::max(most, std::isfinite(x[i] - y[i]) ? std::abs(x[i] - y[i]) : INFINITY);
  return most;
}

/// The largest gradient of any value on the way from the inputs to the loss. A backward rounds the
/// terms that it adds, so that its error may be of this size even where the terms cancel.
double largest_on_the_way(const Program& program) {
  Tape tape;
  for (const Tensor& x : program.inputs) tape.watch(x);
  const Values values = run(program, program.inputs);
  Values tracked;
  for (const Tensor& x : values)
    if (tape.tracks(x)) tracked.push_back(x);
  double most = 0;
  for (const Tensor& gradient : tape.gradient(values.back(), tracked))
    if (const double here = largest(gradient.values()); std::isfinite(here)) most = std::max(most, here);
  return most;
}

/// How far results move where every step's result is rounded as float32 would: the yardstick of all
/// comparisons. Backwards round as well, by the factors' own gradients.
class Yardstick {
 public:
  static constexpr double kEpsilon = 0x1p-23;
  static constexpr double kTimes = 200;  // a kernel rounds more often than its operands and results

  Yardstick(const Program& program, Result exact) : exact_(std::move(exact)), moved_(program.inputs.size()) {
    for (uint64_t draw = 0; draw < 2; ++draw) {
      const Result moved =
          by_gradient(program, program.inputs, {.noise = kEpsilon, .noise_seed = 10000 * draw});
      loss_ = std::max(loss_, std::abs(moved.loss - exact_.loss));
      for (size_t i = 0; i < moved_.size(); ++i)
        moved_[i] = std::max(moved_[i], largest_difference(moved.gradients[i], exact_.gradients[i]));
    }
    way_ = largest_on_the_way(program);
  }

  /// "" or where a result computed with that epsilon is farther off than rounding explains.
  std::string compare(const Result& got, double epsilon) const {
    const double units = epsilon / kEpsilon;
    if (const double bound = units * kTimes * loss_ + kTimes * epsilon * (1 + std::abs(exact_.loss));
        !(std::abs(got.loss - exact_.loss) <= bound))
      return fmt::format("the loss is {:.17g}, not {:.17g} ± {:.2g}", got.loss, exact_.loss, bound);
    for (size_t i = 0; i < moved_.size(); ++i) {
      const double bound = units * kTimes * moved_[i] + kTimes * epsilon * (1 + way_);
      const double error = largest_difference(got.gradients[i], exact_.gradients[i]);
      if (!(error <= bound))
        return fmt::format("the gradient of {} is {:.9g}, not {:.9g}: {:.2g} off, above {:.2g}",
                           static_cast<char>('a' + i), fmt::join(got.gradients[i], ", "),
                           fmt::join(exact_.gradients[i], ", "), error, bound);
    }
    return "";
  }

  const Result& exact() const { return exact_; }

 private:
  Result exact_;
  double loss_ = 0, way_ = 0;
  std::vector<double> moved_;
};

/// A direction for each input.
std::vector<std::vector<double>> directions(const Program& program) {
  Choice choice(program.seed + 2);
  std::vector<std::vector<double>> result;
  for (const Tensor& x : program.inputs) {
    result.emplace_back();
    for (int64_t i = 0; i < x.numel(); ++i) result.back().push_back(choice.number(-1, 1));
  }
  return result;
}

Values moved(const Program& program, const std::vector<std::vector<double>>& along, double t) {
  Values inputs;
  for (size_t i = 0; i < along.size(); ++i) inputs.push_back(shifted(program.inputs[i], along[i], t));
  return inputs;
}

/// A derivative by 4 points, with what is known of its error: from h to h/4 the error of the
/// formula falls to 1/256, so that the change is far above what remains of it; what is lost to
/// rounding is added. The step with the least error is taken.
struct Difference {
  std::vector<double> slope;
  double error = INFINITY;
};

Difference differentiate(const Path& path, double wanted) {
  Difference best;
  const double size = largest(path(0));
  for (const double h : {1e-3, 4e-3, 1e-4, 1e-5}) {
    try {
      const auto coarse = central_difference(path, h), fine = central_difference(path, h / 4);
      const double error = largest_difference(coarse, fine) + 0x1p-52 * 200 * size / h;
      if (error < best.error) best = {fine, error};
    } catch (const Error&) {
      continue;  // this step leaves the domain of an op that refuses it; a smaller one may not
    }
    if (best.error < wanted) break;
  }
  return best;
}

constexpr double kSettled = 1e-5, kEnough = 1e-8, kTimes = 4;

std::string compare_first(const Program& program, const Result& exact, Values* constants, bool& settled) {
  const auto along = directions(program);
  double want = 0, size = 1e-3;
  for (size_t i = 0; i < along.size(); ++i)
    for (size_t k = 0; k < along[i].size(); ++k) {
      want += exact.gradients[i][k] * along[i][k];
      size += std::abs(exact.gradients[i][k] * along[i][k]);
    }
  const Difference d = differentiate(
      [&](double t) {
        return std::vector<double>{
            run(program, moved(program, along, t), {.constants = constants}).back().item()};
      },
      kEnough * size);
  settled = d.error <= kSettled * size;
  if (!settled || std::abs(d.slope[0] - want) <= kTimes * d.error + kEnough * size) return "";
  return fmt::format("along a direction differences give {:.12g} ± {:.2g}, the tape {:.12g}", d.slope[0],
                     d.error, want);
}

std::string compare_second(const Program& program, Values* constants, bool& settled) {
  const auto along = directions(program);
  std::vector<double> product;
  {
    Tape tape({.order = 2});
    for (const Tensor& x : program.inputs) tape.watch(x);
    const Tensor loss = run(program, program.inputs, {.constants = constants}).back();
    const auto gradients = tape.gradient(loss, program.inputs, Keep::yes);
    Tensor slope = Tensor(0, DType::float64);
    for (size_t i = 0; i < gradients.size(); ++i)
      slope = slope + sum(gradients[i] * tensor(along[i], program.inputs[i].shape(), DType::float64));
    if (tape.tracks(slope))
      for (const Tensor& x : tape.gradient(slope, program.inputs))
        for (const double v : x.values()) product.push_back(v);
  }
  const double size = 1e-2 + largest(product);
  const Difference d = differentiate(
      [&](double t) {
        std::vector<double> all;
        for (const auto& part :
             by_gradient(program, moved(program, along, t), {.constants = constants}).gradients)
          all.insert(all.end(), part.begin(), part.end());
        return all;
      },
      kEnough * size);
  if (product.empty()) product.resize(d.slope.size());
  settled = d.error <= kSettled * size;
  if (!settled) return "";
  const double error = largest_difference(product, d.slope);
  if (error <= kTimes * d.error + 10 * kEnough * size) return "";
  return fmt::format("the Hessian times a direction is {:.9g} by the tape, {:.9g} by differences ± {:.2g}",
                     fmt::join(product, ", "), fmt::join(d.slope, ", "), d.error);
}

}  // namespace

Outcome check(const Program& program, bool second) {
  Outcome outcome;
  const char* running = "gradient()";
  const auto failed = [&](const std::string& message) {
    if (!message.empty()) outcome.failure = {running, message};
    return !message.empty();
  };
  try {
    Values constants;
    const Yardstick yardstick(program, by_gradient(program, program.inputs, {.constants = &constants}));
    const double epsilon = 0x1p-52;
    const auto agrees = [&](const char* what, const std::function<Result()>& other, double unit) {
      running = what;
      return !failed(yardstick.compare(other(), unit));
    };
    const auto with = [&](RunOptions options, int order = 1) {
      return [&program, options = std::move(options), order] {
        return by_gradient(program, program.inputs, options, order);
      };
    };
    if (!agrees(
            "backward() against gradient()", [&] { return by_backward(program); }, epsilon) ||
        !agrees("order 2 against order 1", with({}, 2), epsilon) ||
        !agrees("copies against views", with({.layout = Layout::copies}), epsilon) ||
        !agrees("strided against plain", with({.layout = Layout::strided}), epsilon) ||
        !agrees("recomputed against plain", with({.kept = some_kept(program)}), epsilon) ||
        !agrees(
            "float32 against float64",
            [&] { return by_gradient(program, as(program.inputs, DType::float32)); }, Yardstick::kEpsilon))
      return outcome;
    running = "differences against gradient()";
    if (failed(compare_first(program, yardstick.exact(), &constants, outcome.first_settled))) return outcome;
    running = "differences against order 2";
    outcome.second_checked = second;
    if (second) failed(compare_second(program, &constants, outcome.second_settled));
  } catch (const std::exception& error) {
    failed(std::string("an error: ") + error.what());
  }
  return outcome;
}

}  // namespace vitrine::programs
