#include "nn/training/search.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/philox.h"
#include "core/random.h"

namespace vitrine::nn::training {
namespace {

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  return detail::parse(text, value) ? std::optional(value) : std::nullopt;
}

SearchAxis axis_of(const std::string& option, const std::string& word, OptionList& options) {
  const size_t dots = word.find("..");
  if (dots == word.npos) return {.option = option, .values = {word}};
  const std::string where = "--over " + option;
  const auto low = number_in(word.substr(0, dots)), high = number_in(word.substr(dots + 2));
  check(low && high && std::isfinite(*low) && std::isfinite(*high) && *low < *high,
        "{}: the range is {}, wanted LOW..HIGH with numbers", where, word);
  const std::string& type = options.find(option)->type;
  check(type.find("number") != type.npos, "{}: a range is for numbers, wanted values: {}=VALUE,VALUE", where,
        option);
  return {.option = option,
          .low = *low,
          .high = *high,
          .logarithmic = *low > 0 && *high >= 10 * *low,
          .whole = type.find("whole") != type.npos};
}

void check_axis(const SearchAxis& axis, OptionList& options) {
  Option& option = *options.find(axis.option);
  check(option.role == Role::result || option.role == Role::schedule,
        "--over: --{} is the same for all trials", option.name);
  check(option.given.empty(), "--over {}=… is in place of {}, and both are given", option.name, option.given);
}

/// The value of a number in [0, 1).
std::string value_at(const SearchAxis& axis, double u) {
  if (!axis.values.empty())
    return axis.values[static_cast<size_t>(u * static_cast<double>(axis.values.size()))];
  const double high = axis.whole ? axis.high + 1 : axis.high;
  const double x =
      axis.logarithmic ? axis.low * std::pow(high / axis.low, u) : axis.low + u * (high - axis.low);
  if (axis.whole) return fmt::format("{}", static_cast<int64_t>(std::min(std::floor(x), axis.high)));
  return fmt::format("{:.3g}", std::clamp(x, axis.low, axis.high));
}

}  // namespace

std::vector<SearchAxis> parse_search_axes(const std::vector<std::string>& words,
                                          const std::vector<std::string>& parts, OptionList& options) {
  std::vector<SearchAxis> axes;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const bool after_values = !axes.empty() && !axes.back().values.empty();
    check(equals != word.npos || after_values, "--over {}: wanted OPTION=VALUE,VALUE or OPTION=LOW..HIGH",
          word);
    const std::string name = word.substr(0, equals), part = name.substr(name.rfind('+') + 1);
    if (equals == word.npos || (after_values && std::find(parts.begin(), parts.end(), part) != parts.end())) {
      axes.back().values.push_back(word);
      continue;
    }
    const Option* const option = options.find(name);
    check(option != nullptr, "--over {}: there is no option {}{}", word, name,
          did_you_mean(name, options.names()));
    axes.push_back(axis_of(option->name, word.substr(equals + 1), options));
  }
  check(!axes.empty(), "--over: there is nothing to search, wanted OPTION=VALUE,VALUE or OPTION=LOW..HIGH");
  for (size_t i = 0; i < axes.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      check(axes[i].option != axes[j].option, "--over names {} twice", axes[i].option);
  for (const SearchAxis& axis : axes) check_axis(axis, options);
  for (SearchAxis& axis : axes) {
    Option& option = *options.find(axis.option);
    const std::string where = "--over " + axis.option;
    for (std::string& value : axis.values) {
      option.read({value}, where);
      value = option.values().front();
    }
    if (axis.values.empty())  // both ends must be allowed
      for (const double u : {0.0, std::nextafter(1.0, 0.0)}) option.read({value_at(axis, u)}, where);
    option.given.clear();
  }
  return axes;
}

std::vector<OptionValues> grid_trials(const std::vector<SearchAxis>& axes) {
  std::vector<OptionValues> trials = {{}};
  for (const SearchAxis& axis : axes) {
    check(!axis.values.empty(), "--over {}: a grid has values, not a range: {}=VALUE,VALUE", axis.option,
          axis.option);
    std::vector<OptionValues> longer;
    for (const OptionValues& trial : trials)
      for (const std::string& value : axis.values) {
        longer.push_back(trial);
        longer.back().emplace_back(axis.option, value);
      }
    trials = std::move(longer);
  }
  return trials;
}

std::vector<OptionValues> random_trials(const std::vector<SearchAxis>& axes, int64_t count, uint64_t seed) {
  std::vector<OptionValues> trials;
  Generator generator(seed);
  for (int64_t i = 0; i < count; ++i) {
    const auto numbers =
        rand({static_cast<int64_t>(axes.size())}, DType::float32, Device::cpu, 0, 1, generator).values();
    OptionValues& trial = trials.emplace_back();
    for (size_t j = 0; j < axes.size(); ++j)
      trial.emplace_back(axes[j].option, value_at(axes[j], numbers[j]));
  }
  return trials;
}

std::vector<int64_t> halving_rungs(int64_t steps, int64_t eta, int64_t rungs) {
  check(eta >= 2, "search: eta is {}, wanted at least 2", eta);
  check(rungs >= 1, "search: rungs is {}, wanted at least 1", rungs);
  std::vector<int64_t> all = {steps};
  for (int64_t i = 1; i < rungs; ++i) {
    all.insert(all.begin(), (all.front() + eta - 1) / eta);
    check(all[0] < all[1], "search: {} rungs with eta {} are too many for {} steps", rungs, eta, steps);
  }
  return all;
}

std::vector<size_t> best_first(const std::vector<TrialResult>& results) {
  std::vector<size_t> order(results.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const TrialResult &x = results[a], &y = results[b];
    if (x.losses.size() != y.losses.size()) return x.losses.size() > y.losses.size();
    return x.loss() < y.loss();
  });
  return order;
}

std::vector<TrialResult> search(const std::vector<OptionValues>& trials, const std::vector<int64_t>& rungs,
                                int64_t eta, const std::function<double(size_t, size_t)>& evaluate,
                                const std::function<bool()>& stop) {
  std::vector<TrialResult> results;
  for (const OptionValues& options : trials) results.push_back({options});
  std::vector<size_t> alive(trials.size());
  std::iota(alive.begin(), alive.end(), 0);
  for (size_t rung = 0; rung < rungs.size(); ++rung) {
    for (const size_t trial : alive) {
      if (stop()) return results;
      const double loss = evaluate(trial, rung);
      if (stop()) return results;  // it was ended in its middle
      results[trial].losses.push_back(std::isfinite(loss) ? loss : INFINITY);
      results[trial].steps = rungs[rung];
    }
    std::stable_sort(alive.begin(), alive.end(),
                     [&](size_t a, size_t b) { return results[a].loss() < results[b].loss(); });
    const auto kept = (static_cast<int64_t>(alive.size()) + eta - 1) / eta;
    alive.resize(static_cast<size_t>(kept));
    std::erase_if(alive, [&](size_t trial) { return !std::isfinite(results[trial].loss()); });
    std::sort(alive.begin(), alive.end());
  }
  return results;
}

}  // namespace vitrine::nn::training
