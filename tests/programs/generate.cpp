#include "tests/programs/generate.h"

#include <algorithm>
#include <cmath>

#include "core/creation.h"
#include "ops/reduce.h"
#include "tests/programs/ops.h"

namespace vitrine::programs {
namespace {

constexpr int64_t kMostElements = 64;
constexpr size_t kMostInputs = 5;

class Generation {
 public:
  Generation(uint64_t seed, uint64_t attempt) : choice_(seed + (attempt << 48)) { program_.seed = seed; }

  Program run() {
    for (int64_t i = choice_.between(2, 3); i > 0; --i) add_input(any_shape());
    for (int64_t left = choice_.between(10, 16); left > 0;)
      if (add_some_op()) --left;
    add_loss();
    return renumbered();
  }

 private:
  Shape any_shape() {
    Shape shape;
    for (int64_t rank = choice_.between(0, 4); rank > 0; --rank) shape.push_back(choice_.between(1, 4));
    while (numel(shape) > kMostElements / 2) shape.erase(0);
    return shape;
  }

  size_t add_input(const Shape& shape) {
    Tensor x = empty(shape, DType::float64);
    for (int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] = choice_.number(-2, 2);
    is_input_.push_back(true);
    values_.push_back(x);
    used_.push_back(0);
    steps_.push_back({});
    return values_.size() - 1;
  }

  /// Appends a step if its operands and its result are in the domain of its op.
  std::optional<size_t> add_step(const Op& op, std::vector<size_t> operands, Params params = {}) {
    const Step step{&op, std::move(operands), std::move(params)};
    Program alone{program_.seed, {}, {}};
    Step renumbered = step;
    for (size_t i = 0; i < step.operands.size(); ++i) {
      alone.inputs.push_back(values_[step.operands[i]]);
      renumbered.operands[i] = i;
    }
    alone.steps.push_back(renumbered);
    for (size_t i = 0; i < step.operands.size();
         ++i)  // before it runs: some errors are found by the op itself
      if (alone.inputs[i].numel() == 0) return std::nullopt;
    const Values values = programs::run(alone, alone.inputs);
    const Tensor& y = values.back();
    if (y.numel() == 0 || y.numel() > kMostElements || y.rank() > 4) return std::nullopt;
    if (!outside_domain(alone, values).empty()) return std::nullopt;
    if (norm(y, INFINITY).item() > 10) return std::nullopt;
    for (const size_t operand : step.operands) ++used_[operand];
    is_input_.push_back(false);
    values_.push_back(y);
    used_.push_back(0);
    steps_.push_back(step);
    return values_.size() - 1;
  }

  /// One draw: a row, operands that fit it, and the step. False where something does not fit.
  bool add_some_op() {
    const Op& op = pick_op();
    const size_t first = choice_.recent(values_.size());
    const auto fit = op.fit(choice_, values_[first].shape());
    if (!fit) return false;
    for (const Shape& shape : fit->operands)
      if (numel(shape) > kMostElements || numel(shape) == 0) return false;
    const size_t before = values_.size();
    std::vector<size_t> operands;
    for (size_t i = 0; i < fit->operands.size(); ++i) {
      const auto operand = in_domain(find(fit->operands[i], first), op.domain(i));
      if (!operand) return drop_from(before);
      operands.push_back(*operand);
    }
    return add_step(op, operands, fit->params) || drop_from(before);
  }

  const Op& pick_op() {
    static const std::vector<const Op*> weighted = [] {
      std::vector<const Op*> rows;
      for (const Op& op : table()) rows.insert(rows.end(), static_cast<size_t>(op.weight), &op);
      return rows;
    }();
    return *weighted[static_cast<size_t>(choice_.below(static_cast<int64_t>(weighted.size())))];
  }

  /// Takes back what has been added since; false.
  bool drop_from(size_t size) {
    while (values_.size() > size) {
      for (const size_t operand : steps_.back().operands) --used_[operand];
      steps_.pop_back(), values_.pop_back(), used_.pop_back(), is_input_.pop_back();
    }
    return false;
  }

  /// A value of that shape: one that there is, a view of one, or a new input.
  size_t find(const Shape& shape, size_t first) {
    if (values_[first].shape() == shape && choice_.chance(0.7)) return first;
    if (choice_.chance(0.6)) {
      std::vector<size_t> fitting;
      for (size_t i = 0; i < values_.size(); ++i)
        if (values_[i].shape() == shape) fitting.push_back(i);
      if (!fitting.empty()) return fitting[choice_.recent(fitting.size())];
    }
    for (int tries = 0; tries < 12; ++tries)
      if (const auto view = view_of(choice_.recent(values_.size()), shape)) return *view;
    const auto inputs = static_cast<size_t>(std::count(is_input_.begin(), is_input_.end(), true));
    if (inputs < kMostInputs) return add_input(shape);
    const size_t whole = choice_.recent(values_.size());
    const auto scalar = add_step(op("mean"), {whole}, {.ints = {0}});
    const std::vector<int64_t> sizes(shape.begin(), shape.end());
    const auto spread = scalar ? add_step(op("expand"), {*scalar}, {.ints = sizes}) : std::nullopt;
    return spread ? *spread : whole;
  }

  std::optional<size_t> view_of(size_t value, const Shape& shape) {
    const Shape from = values_[value].shape();
    const std::vector<int64_t> sizes(shape.begin(), shape.end());
    if (from == shape) return value;
    if (numel(from) == numel(shape)) return add_step(op("reshape"), {value}, {.ints = sizes});
    if (from.rank() <= shape.rank() && broadcasts(from, shape))
      return add_step(op("expand"), {value}, {.ints = sizes});
    if (from.rank() != shape.rank()) return std::nullopt;
    for (int i = 0; i < from.rank(); ++i)
      if (from[i] < shape[i]) return std::nullopt;
    size_t view = value;
    for (int i = 0; i < from.rank(); ++i) {
      if (from[i] == shape[i]) continue;
      const int64_t start = choice_.between(0, from[i] - shape[i]);
      view = *add_step(op("slice"), {view}, {.ints = {i, start, start + shape[i], 1}});
    }
    return view;
  }

  static bool broadcasts(const Shape& from, const Shape& to) {
    for (int i = 1; i <= from.rank(); ++i) {
      const int64_t size = from[from.rank() - i];
      if (size != 1 && size != to[to.rank() - i]) return false;
    }
    return true;
  }

  /// The value, or if it is outside the domain, what a factor and a number bring there.
  std::optional<size_t> in_domain(size_t value, const Domain& domain) {
    const Tensor flat = reshape(values_[value], {values_[value].numel()});
    const double low = min(flat).item(), high = max(flat).item();
    if (low >= domain.low && high <= domain.high) return value;
    const double room = domain.high - domain.low;
    const auto rounded = [](double v) { return std::round(v * 100) / 100; };
    const double factor = std::max(0.01, rounded(std::min(1.0, 0.8 * room / std::max(high - low, 1e-3))));
    const auto scaled =
        factor == 1 ? value : add_step(row("mul_scalar", "$0 * ~0"), {value}, {.numbers = {factor}});
    if (!scaled) return std::nullopt;
    const double least = domain.low + 0.1 * room, most = domain.high - 0.1 * room - (high - low) * factor;
    const double shift = rounded((least > most ? least : choice_.number(least, most)) - low * factor);
    return add_step(row("add_scalar", "$0 + ~0"), {*scaled}, {.numbers = {shift}});
  }

  static const Op& row(const std::string& name, const std::string& text) {
    for (const Op& op : table())
      if (op.name == name && op.text == text) return op;
    fail("there is no row {} {}", name, text);
  }

  /// Everything that nothing reads goes into the loss, some of it after a reduction over some axes:
  /// so cotangents are expanded.
  void add_loss() {
    const size_t size = values_.size();
    std::vector<size_t> ends;
    for (size_t i = 0; i < size; ++i) {
      if (used_[i] > 0) continue;
      size_t end = i;
      if (values_[i].rank() > 0 && choice_.chance(0.5)) {
        Params params{.ints = {0}};
        for (const int64_t axis : some_axes(choice_, values_[i].shape())) params.ints.push_back(axis);
        end = add_step(op(choice_.chance(0.5) ? "sum" : "mean"), {i}, params).value_or(i);
      }
      ends.push_back(end);
    }
    for (const size_t end : ends) ++used_[end];
    steps_.push_back({&op("loss"), ends, {}});
    is_input_.push_back(false);
    values_.push_back({});
  }

  /// Inputs first, then steps.
  Program renumbered() {
    std::vector<size_t> number(values_.size());
    size_t next = 0;
    for (const bool inputs : {true, false})
      for (size_t i = 0; i < values_.size(); ++i)
        if (is_input_[i] == inputs) number[i] = next++;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (is_input_[i]) {
        program_.inputs.push_back(values_[i]);
        continue;
      }
      Step step = steps_[i];
      for (size_t& operand : step.operands) operand = number[operand];
      program_.steps.push_back(step);
    }
    return program_;
  }

  Choice choice_;
  Program program_;
  // By value, inputs among the others:
  std::vector<bool> is_input_;
  Values values_;
  std::vector<int> used_;
  std::vector<Step> steps_;
};

}  // namespace

Program generate(uint64_t seed) {
  // What a step draws depends on the steps before it, so that the whole may leave a domain that
  // each step kept.
  for (uint64_t attempt = 0;; ++attempt) {
    const Program program = Generation(seed, attempt).run();
    if (is_inside(program)) return program;
  }
}

}  // namespace vitrine::programs
