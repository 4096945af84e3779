// Checks of a whole row: its names, mistakes planted in its backward, and everything at once.
#include <algorithm>
#include <exception>
#include <set>

#include "tests/spec/spec.h"

namespace vitrine::spec {
namespace {

enum class Mistake { not_planted, unnoticed, noticed };

/// Whether the checks notice that the gradient of input `input` is multiplied by `factor`.
Mistake plant(const Spec& spec, size_t input, double factor) {
  bool planted = false, noticed = false;
  const Prepare multiply = [&](Tape& tape) {
    tape.filter_gradients([&](const char* op, Grads& grads) {
      if (spec.name != op || input >= grads.size() || !grads[input].defined()) return;
      grads[input] = grads[input].scaled(factor);
      planted = true;
    });
  };
  for (size_t sample = 0; sample < spec.samples.size() && !noticed; ++sample)
    noticed = numel(spec.samples[sample][input].shape) > 0 &&
              !check_differences(spec, sample, multiply).empty() && planted;
  return noticed ? Mistake::noticed : planted ? Mistake::unnoticed : Mistake::not_planted;
}

bool has_elements(const Spec& spec, size_t input) {
  return std::any_of(spec.samples.begin(), spec.samples.end(),
                     [&](const auto& sample) { return numel(sample[input].shape) > 0; });
}

}  // namespace

std::string check_mutations(const Spec& spec) {
  for (size_t input = 0; input < spec.samples[0].size(); ++input)
    for (double factor : {-1.0, 1.01, 0.0}) {
      if (!has_elements(spec, input)) continue;
      const Mistake mistake = plant(spec, input, factor);
      if (spec.composite && mistake != Mistake::not_planted)
        return fmt::format("{} is recorded under its name, and so is no composite", spec.name);
      if (!spec.composite && mistake == Mistake::not_planted)
        return fmt::format(
            "{}: no gradient {} is recorded under this name, unless the row says that it is a composite",
            spec.name, input);
      if (mistake == Mistake::unnoticed)
        return fmt::format("{}: gradient {} times {} was not noticed", spec.name, input, factor);
    }
  return "";
}

std::string check_names(const Spec& spec, const std::vector<Spec>& others) {
  // `to` is recorded only between two devices, so it is not recorded if there is only one.
  std::set<std::string> known = {spec.name, "to"};
  for (const auto* list : {&rows(), &others})
    for (const Spec& row : *list) known.insert(row.name);
  const auto inputs = draw(spec, 0);
  for (int order : {1, 2}) {
    Tape tape({.order = order});
    for (const Tensor& x : inputs) tape.watch(x);
    const Tensor y = spec.call(inputs);
    for (size_t i = 0; i < tape.size(); ++i) {
      const auto node = tape.info(i);
      if (!node.output_slots.empty() && !known.count(node.op))
        return fmt::format("{} records {}, which has no row", spec.name, node.op);
    }
  }
  return "";
}

std::string check_all(const std::vector<Spec>& rows) {
  std::string errors;
  const auto add = [&](const Spec& row, auto&& check) {
    std::string error;
    try {
      error = check();
    } catch (const std::exception& e) {
      error = fmt::format("{}: {}", row.name, e.what());
    }
    if (!error.empty()) errors += error + "\n";
  };
  for (const Spec& row : rows) {
    for (size_t sample = 0; sample < row.samples.size(); ++sample) {
      for (auto* check : {check_values, check_higher_orders, check_threads, check_subsets})
        add(row, [&] { return check(row, sample); });
      for (const Device device : {Device::cpu, Device::cuda})
        for (auto* check : {check_low_precision, check_extremes, check_layouts})
          if (device.is_cpu() || (row.on_gpu && gpu_count() > 0))
            add(row, [&] { return check(row, sample, device, {}); });
      for (auto* check : {check_differences, check_dual}) add(row, [&] { return check(row, sample, {}); });
    }
    add(row, [&] { return check_names(row, rows); });
    add(row, [&] { return check_mutations(row); });
  }
  return errors;
}

}  // namespace vitrine::spec
