#include "nn/training/rate_history.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"

namespace vitrine::nn::training {
namespace {

const char* const kRates = "learning rates";
const char* const kChanges = "schedule changes";

/// The JSON value of a key. A missing or invalid value is an error.
nlohmann::json json_of(const std::map<std::string, std::string>& metadata, const char* key,
                       const std::string& path) {
  const auto found = metadata.find(key);
  check(found != metadata.end(), "resume: {} is no checkpoint of a training run: it has no {}", path, key);
  nlohmann::json json = nlohmann::json::parse(found->second, nullptr, false);
  check(json.is_array(), "resume: {} is broken: its {} are \"{}\", wanted a list", path, key, found->second);
  return json;
}

/// Parses rows of a step and `numbers` numbers, with increasing steps from `first` to `last`. Other
/// content is an error.
std::vector<std::pair<int64_t, std::vector<double>>> rows_of(const nlohmann::json& json, size_t numbers,
                                                             int64_t first, int64_t last, const char* key,
                                                             const std::string& path) {
  std::vector<std::pair<int64_t, std::vector<double>>> rows;
  for (const auto& row : json) {
    bool good = row.is_array() && row.size() == numbers + 1 && row[0].is_number_integer() &&
                row[0].get<int64_t>() >= first && row[0].get<int64_t>() <= last;
    for (size_t i = 1; good && i <= numbers; ++i) good = row[i].is_number();
    check(good, "resume: {} is broken: its {} have {}, wanted a step from {} to {} and {} learning rates",
          path, key, row.dump(), first, last, numbers);
    rows.emplace_back(row[0].get<int64_t>(), std::vector<double>());
    for (size_t i = 1; i <= numbers; ++i) rows.back().second.push_back(row[i].get<double>());
    first = rows.back().first + 1;
  }
  return rows;
}

}  // namespace

std::string ScheduleChange::text() const {
  return fmt::format("after step {}: learning rate {}, then {}", after_step, from, to);
}

RateHistory::RateHistory(optim::Schedule schedule) : schedule_(std::move(schedule)) {}

RateHistory::Rates RateHistory::rates(int64_t step) const {
  Rates all;
  const auto add = [&](int64_t n) {
    const auto known = before_.find(n);
    all[n] = known == before_.end() ? rate(n) : known->second;
  };
  if (step > 0) add(step);
  for (int64_t n = step > 1 ? 1 : 0; n > 0; n = n <= (step - 1) / 2 ? 2 * n : 0) add(n);
  return all;
}

void RateHistory::save(std::map<std::string, std::string>& metadata, int64_t step) const {
  auto all = nlohmann::json::array(), changes = nlohmann::json::array();
  for (const auto& [n, lr] : rates(step)) all.push_back({n, lr});
  for (const ScheduleChange& change : changes_)
    changes.push_back({change.after_step, change.from, change.to});
  metadata[kRates] = all.dump();
  metadata[kChanges] = changes.dump();
}

RateHistory RateHistory::resumed(const std::map<std::string, std::string>& metadata, int64_t step,
                                 const std::string& path, bool new_schedule) const {
  RateHistory result(schedule_);
  for (const auto& [n, numbers] : rows_of(json_of(metadata, kChanges, path), 2, 1, step, kChanges, path))
    result.changes_.push_back({n, numbers[0], numbers[1]});
  const int64_t since = result.changes_.empty() ? 0 : result.changes_.back().after_step;
  Rates made;  // of the past steps, from the checkpoint
  for (const auto& [n, numbers] : rows_of(json_of(metadata, kRates, path), 1, 1, step, kRates, path))
    made[n] = numbers[0];
  check(step == 0 || made.contains(step), "resume: {} is broken: it has no learning rate of step {}", path,
        step);
  Rates comparable = made;
  comparable.erase(comparable.begin(), comparable.upper_bound(since));
  // The new schedule of a change has made no step yet, but the change stores the rate of its first
  // step.
  if (step == since && step > 0) comparable[step + 1] = result.changes_.back().to;
  result.before_ = Rates(made.begin(), made.upper_bound(since));
  for (const auto& [n, lr] : comparable) {
    if (rate(n) == lr) continue;
    check(new_schedule,
          "resume: the learning rate of step {} of {} is {}, of this run {}; --new-schedule changes the "
          "schedule after step {}",
          n, path, lr, rate(n), step);
    if (step == since) result.changes_.pop_back();
    result.changes_.push_back({step, made.at(step), rate(step + 1)});
    result.before_ = made;
    break;
  }
  return result;
}

}  // namespace vitrine::nn::training
