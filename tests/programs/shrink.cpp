#include <algorithm>

#include "ops/view.h"
#include "tests/programs/generate.h"
#include "tests/programs/ops.h"

namespace vitrine::programs {
namespace {

/// Without values that the last step does not need; inputs first.
Program pruned(const Program& program, const std::vector<Tensor>& as_input) {
  std::vector<bool> needed(program.size(), false);
  needed.back() = true;
  for (size_t i = program.size(); i-- > program.inputs.size();)
    if (needed[i] && !as_input[i].defined())
      for (const size_t operand : program.steps[i - program.inputs.size()].operands) needed[operand] = true;
  Program result{program.seed, {}, {}};
  std::vector<size_t> number(program.size());
  for (size_t i = 0; i < program.size(); ++i) {
    if (!needed[i]) continue;
    const bool is_input = i < program.inputs.size();
    if (!is_input && !as_input[i].defined()) continue;
    number[i] = result.inputs.size();
    result.inputs.push_back(is_input ? program.inputs[i] : as_input[i]);
  }
  size_t next = result.inputs.size();
  for (size_t i = program.inputs.size(); i < program.size(); ++i) {
    if (!needed[i] || as_input[i].defined()) continue;
    Step step = program.steps[i - program.inputs.size()];
    for (size_t& operand : step.operands) operand = number[operand];
    number[i] = next++;
    result.steps.push_back(std::move(step));
  }
  return result;
}

/// The program in which value `from` is read in the place of `value`.
Program replaced(const Program& program, size_t value, size_t from) {
  Program result = program;
  for (Step& step : result.steps)
    for (size_t& operand : step.operands)
      if (operand == value) operand = from;
  return pruned(result, std::vector<Tensor>(program.size()));
}

/// Programs with a step less, the smallest first.
std::vector<Program> smaller(const Program& program) {
  const Values values = run(program, program.inputs);
  std::vector<Program> result;
  for (size_t i = program.inputs.size(); i + 1 < program.size(); ++i) {
    // The loss of this value alone, and the same without what led to it.
    Program end = program;
    end.steps.resize(i - program.inputs.size() + 1);
    end.steps.push_back({&op("loss"), {i}, {}});
    result.push_back(pruned(end, std::vector<Tensor>(end.size())));
    std::vector<Tensor> as_input(program.size());
    as_input[i] = contiguous(values[i]);
    result.push_back(pruned(program, as_input));
    for (const size_t operand : program.steps[i - program.inputs.size()].operands)
      if (values[operand].shape() == values[i].shape()) result.push_back(replaced(program, i, operand));
  }
  const Step& loss = program.steps.back();
  for (size_t k = 0; k < loss.operands.size() && loss.operands.size() > 1; ++k) {
    Program fewer = program;
    fewer.steps.back().operands.erase(fewer.steps.back().operands.begin() + static_cast<std::ptrdiff_t>(k));
    result.push_back(pruned(fewer, std::vector<Tensor>(fewer.size())));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Program& x, const Program& y) { return x.steps.size() < y.steps.size(); });
  return result;
}

}  // namespace

Program shrunk(Program program, const std::function<bool(const Program&)>& fails) {
  for (bool found = true; found;) {
    found = false;
    for (const Program& candidate : smaller(program)) {
      const bool less = candidate.steps.size() < program.steps.size() ||
                        candidate.steps.back().operands.size() < program.steps.back().operands.size();
      if (!less || !is_inside(candidate) || !fails(candidate)) continue;
      program = candidate;
      found = true;
      break;
    }
  }
  return program;
}

}  // namespace vitrine::programs
