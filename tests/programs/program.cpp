#include "tests/programs/program.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "core/recompute.h"
#include "ops/elementwise.h"
#include "ops/join.h"
#include "ops/view.h"
#include "tests/programs/ops.h"

namespace vitrine::programs {
namespace {

/// The same values as a view that no kernel meets in memory order: of the steps 0, 1 and 2 each in
/// its own way.
Tensor strided_view(const Tensor& x, size_t step) {
  if (x.rank() == 0) return select(tile(unsqueeze(x, 0), {3}), 0, 1);
  const int64_t axis = static_cast<int64_t>(step) % x.rank();
  if (step % 3 == 0) return slice(repeat(x, 2, axis), axis, 0, std::nullopt, 2);
  if (step % 3 == 1) return flip(clone(flip(x, {axis})), {axis});
  return transpose(clone(transpose(x, 0, axis)), 0, axis);
}

class Runner {
 public:
  Runner(const Program& program, const RunOptions& options) : program_(program), options_(options) {
    if (options_.constants != nullptr) options_.constants->resize(program.steps.size());
  }

  Values run(Values values) {
    manual_seed(program_.seed);
    values.resize(program_.size());
    for (size_t i = program_.inputs.size(); i < values.size(); ++i) {
      if (options_.kept.empty())
        values[i] = apply(i, values);
      else if (options_.kept[i - program_.inputs.size()])
        values[i] = recompute([runner = *this, i, before = values] {
          Values local = before;
          return runner.computed(i, local);
        });
    }
    return values;
  }

 private:
  /// The value of a step, with those that it needs.
  Tensor computed(size_t i, Values& values) const {
    for (const size_t operand : step(i).operands)
      if (!values[operand].defined()) computed(operand, values);
    return values[i] = apply(i, values);
  }

  Tensor apply(size_t i, const Values& values) const {
    Values operands;
    for (const size_t operand : step(i).operands)
      operands.push_back(noisy(values[operand], 10 * i + operands.size()));
    const Op& op = *step(i).op;
    Tensor y;
    if (op.constant && options_.constants != nullptr) {
      Tensor& constant = (*options_.constants)[i - program_.inputs.size()];
      if (!constant.defined()) constant = op.run(operands, step(i).params);
      y = constant;
    } else {
      y = op.run(operands, step(i).params);
    }
    y = noisy(y, 10 * i + 9);
    if (options_.layout == Layout::copies) return clone(y);
    if (options_.layout == Layout::strided) return strided_view(y, i);
    return y;
  }

  Tensor noisy(const Tensor& x, uint64_t place) const {
    if (options_.noise == 0) return x;
    Generator generator(options_.noise_seed + place);
    Tensor factors = empty(x.shape(), x.dtype());
    for (int64_t i = 0; i < x.numel(); ++i)
      factors.data<double>()[i] = 1 + options_.noise * (2 * generator.next_uniform() - 1);
    return x * factors;
  }

  const Step& step(size_t i) const { return program_.steps[i - program_.inputs.size()]; }

  const Program& program_;
  RunOptions options_;
};

std::string name_of(const Program& program, size_t value) {
  if (value < program.inputs.size()) return std::string(1, static_cast<char>('a' + value));
  return fmt::format("v{}", value - program.inputs.size());
}

template <class T, class F>
void write_numbers(std::string& out, const std::vector<T>& values, size_t from, bool all, F&& text) {
  for (size_t i = from; i < (all ? values.size() : std::min(from + 1, values.size())); ++i)
    out += (i > from ? ", " : "") + text(values[i]);
}

std::string call_text(const Program& program, const Step& step) {
  std::string out;
  const std::string& text = step.op->text;
  for (size_t i = 0; i < text.size(); ++i) {
    const char kind = text[i];
    if ((kind != '$' && kind != '%' && kind != '~') || i + 1 == text.size()) {
      out += kind;
      continue;
    }
    const size_t from = static_cast<size_t>(text[++i] - '0');
    const bool all = i + 1 < text.size() && text[i + 1] == '*';
    if (all) ++i;
    if (kind == '$')
      write_numbers(out, step.operands, from, all, [&](size_t value) { return name_of(program, value); });
    if (kind == '%')
      write_numbers(out, step.params.ints, from, all, [](int64_t v) { return std::to_string(v); });
    if (kind == '~')
      write_numbers(out, step.params.numbers, from, all, [](double v) { return fmt::format("{}", v); });
  }
  return out;
}

std::string value_text(const Tensor& x) {
  std::string text;
  const auto values = x.values();
  for (size_t i = 0; i < values.size(); ++i) text += fmt::format("{}{}", i > 0 ? ", " : "", values[i]);
  return text;
}

}  // namespace

Values run(const Program& program, const Values& inputs, const RunOptions& options) {
  return Runner(program, options).run(inputs);
}

std::string to_string(const Program& program) {
  std::string text;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Tensor& x = program.inputs[i];
    text += fmt::format("  {} = tensor({{{}}}, {{{}}}, DType::float64);\n", name_of(program, i),
                        value_text(x), fmt::join(x.shape(), ", "));
  }
  for (size_t i = 0; i < program.steps.size(); ++i)
    text += fmt::format("  {} = {};\n", name_of(program, program.inputs.size() + i),
                        call_text(program, program.steps[i]));
  return text;
}

std::string outside_domain(const Program& program, const Values& values) {
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    Values operands;
    for (size_t k = 0; k < step.operands.size(); ++k) {
      operands.push_back(values[step.operands[k]]);
      const Domain& domain = step.op->domain(k);
      for (const double v : operands.back().values()) {
        if (!(v >= domain.low && v <= domain.high))
          return fmt::format("step {}: operand {} of {} is {}", i, k, step.op->name, v);
        for (const double kink : domain.kinks)
          if (std::abs(v - kink) < kMargin)
            return fmt::format("step {}: operand {} of {} is near {}", i, k, step.op->name, kink);
      }
    }
    if (step.op->holds && !step.op->holds(operands, step.params))
      return fmt::format("step {}: operands of {} are too close", i, step.op->name);
    for (const double v : values[program.inputs.size() + i].values())
      if (!std::isfinite(v) || std::abs(v) < step.op->least)
        return fmt::format("step {}: {} gives {}", i, step.op->name, v);
  }
  return "";
}

bool is_inside(const Program& program) {
  try {
    return !program.inputs.empty() && outside_domain(program, run(program, program.inputs)).empty();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace vitrine::programs
