#include "nn/report/seeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "nn/metrics/metric.h"

namespace vitrine::nn::report {
namespace {

double last_of(const RunRecord& run, const std::string& metric) {
  for (const MetricValues& values : run.metrics)
    if (values.name == metric) return values.last();
  return not_given;
}

bool is_pair(const RunRecord& a, const RunRecord& b) { return !a.seed.empty() && a.seed == b.seed; }

}  // namespace

const std::string& method_of(const RunRecord& run) { return run.method.empty() ? run.name : run.method; }

std::vector<std::string> methods_of(const std::vector<RunRecord>& runs) {
  std::vector<std::string> methods;
  for (const RunRecord& run : runs)
    if (std::find(methods.begin(), methods.end(), method_of(run)) == methods.end())
      methods.push_back(method_of(run));
  return methods;
}

double final_validation_loss(const RunRecord& run) {
  if (!std::isnan(run.final_validation_loss)) return run.final_validation_loss;
  return run.validation_loss.y.empty() ? not_given : run.validation_loss.y.back();
}

const RunRecord& reference_of(const std::vector<RunRecord>& runs, const RunRecord& run) {
  for (const RunRecord& other : runs)
    if (method_of(other) == method_of(runs.front()) && is_pair(other, run)) return other;
  return runs.front();
}

std::vector<Figure> figures_of(const std::vector<RunRecord>& runs) {
  std::vector<Figure> figures = {{"validation loss", final_validation_loss, "{:.4f}"}};
  for (const MetricValues& metric : runs.front().metrics)
    figures.push_back({metric.name, [name = metric.name](const RunRecord& run) { return last_of(run, name); },
                       metric.format});
  return figures;
}

std::vector<MethodMeans> means_over_seeds(const std::vector<RunRecord>& runs,
                                          const std::function<double(const RunRecord&)>& figure) {
  std::vector<MethodMeans> means;
  const std::vector<std::string> methods = methods_of(runs);
  for (const std::string& method : methods) {
    std::vector<double> values, differences;
    for (const RunRecord& run : runs) {
      if (method_of(run) != method || !std::isfinite(figure(run))) continue;
      values.push_back(figure(run));
      for (const RunRecord& other : runs)
        if (method_of(other) == methods.front() && is_pair(other, run) && std::isfinite(figure(other)))
          differences.push_back(figure(run) - figure(other));
    }
    if (method == methods.front()) differences.clear();
    means.push_back({method, bootstrap_mean(values), bootstrap_mean(differences)});
  }
  return means;
}

bool has_seeds(const std::vector<RunRecord>& runs) { return methods_of(runs).size() < runs.size(); }

std::string interval_text(const MeanInterval& interval, const std::string& format) {
  std::string text = formatted(format, interval.mean);
  if (!std::isnan(interval.low))
    text += fmt::format(" [{}, {}]", formatted(format, interval.low), formatted(format, interval.high));
  return text;
}

std::string signed_format(const std::string& format) {
  size_t sign = nn::field_begin(format) + 2;  // after {:
  if (sign == 1 || sign > format.size() || format[sign - 1] != ':') return "{:+.4f}";
  // The sign follows the alignment, which may have a character to fill with
  const auto is_one_of = [&format](size_t at, std::string_view kinds) {
    return at < format.size() && kinds.find(format[at]) != kinds.npos;
  };
  if (is_one_of(sign + 1, "<>^"))
    sign += 2;
  else if (is_one_of(sign, "<>^"))
    sign += 1;
  return format.substr(0, sign) + "+" + format.substr(sign + (is_one_of(sign, "+- ") ? 1 : 0));
}

std::string verdict(const MeanInterval& difference) {
  if (std::isnan(difference.low)) return "too few seeds";
  return !difference.excludes_zero() ? "none" : difference.mean < 0 ? "lower" : "higher";
}

std::string means_text(const std::vector<RunRecord>& runs) {
  if (runs.empty() || !has_seeds(runs)) return "";
  std::string text = fmt::format(
      "means over seeds, with 95 % intervals of {} bootstrap resamples; of fewer than six pairs they say too much\n",
      kResamples);
  const std::string first = methods_of(runs).front();
  for (const Figure& figure : figures_of(runs))
    for (const MethodMeans& m : means_over_seeds(runs, figure.of)) {
      text +=
          fmt::format("{}: mean {} {} of {} {}", m.method, figure.name, interval_text(m.mean, figure.format),
                      m.mean.count, m.mean.count == 1 ? "seed" : "seeds");
      if (m.difference.count > 0)
        text += fmt::format("; difference to {}: {} {} of {} {}", first, verdict(m.difference),
                            interval_text(m.difference, signed_format(figure.format)), m.difference.count,
                            m.difference.count == 1 ? "pair" : "pairs");
      text += "\n";
    }
  return text;
}

}  // namespace vitrine::nn::report
