// Saving and resuming a run: the checkpoint and the metrics file.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/files/safetensors.h"
#include "core/random.h"
#include "nn/training/checkpoint.h"
#include "nn/training/trainer.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace vitrine::nn::training {
namespace {

/// Reads numbers that are separated by one blank. Returns false for other text.
template <class... Numbers>
bool parse(const std::string& text, Numbers&... numbers) {
  const char *at = text.data(), *const end = at + text.size();
  bool good = true;
  const auto take = [&](auto& number) {
    if (at != text.data()) good = good && at != end && *at++ == ' ';
    const auto result = std::from_chars(at, end, number);
    good = good && result.ec == std::errc();
    at = result.ptr;
  };
  (take(numbers), ...);
  return good && at == end;
}

/// What a checkpoint says about its best model.
struct Best {
  double value = NAN;  ///< of the metric; NaN: none
  int64_t worse = 0;   ///< evaluations since then
};

/// Nothing, if the previous run has kept none by this metric. Older checkpoints do not count
/// evaluations.
Best known_best(std::map<std::string, std::string> metadata, const std::string& best_by,
                const std::string& path) {
  Best best;
  if (metadata["best_by"] != best_by || best_by.empty()) return best;
  check(parse(metadata["best"], best.value), "resume: {} is broken: its best is \"{}\", wanted a number",
        path, metadata["best"]);
  check(metadata.count("worse") == 0 || (parse(metadata["worse"], best.worse) && best.worse >= 0),
        "resume: {} is broken: its worse is \"{}\", wanted a number of evaluations", path, metadata["worse"]);
  return best;
}

/// An optimizer may have made fewer steps than the run, because float16 skips steps whose gradients
/// overflow.
void check_tensors(const std::map<std::string, Tensor>& tensors, int64_t step, const std::string& path) {
  for (const auto& [name, x] : tensors) {
    if (name.starts_with("model/") || name.starts_with("optimizer/"))
      check(all(is_finite(x)).item() != 0, "resume: {} is broken: {} has elements that are not finite", path,
            name);
    check(all(logical_not(is_nan(x))).item() != 0, "resume: {} is broken: {} has elements that are NaN", path,
          name);
    if (name == "optimizer/step" || (name.starts_with("optimizer/") && name.ends_with("/step")))
      for (const double made : x.values())
        check(made >= 0 && made <= static_cast<double>(step),
              "resume: {} is broken: {} is {}, wanted 0 to {}", path, name, made, step);
  }
}

/// Whether the option belongs to the settings of an optimizer.
bool is_of_optimizer(const std::string& option) {
  for (const char* name : {"optimizer", "weight-decay", "beta1", "beta2", "momentum", "nesterov", "moments"})
    if (option == name) return true;
  return false;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Shortens a value that is too long for an error message, such as a vocabulary.
std::string shortened(const std::string& text) {
  return text.size() > 200 ? text.substr(0, 100) + "…" + text.substr(text.size() - 20) : text;
}

}  // namespace

OptionValues Trainer::setting() const {
  OptionValues all(task_.setting.begin(), task_.setting.end());
  for (auto& value : option_values(options_, {Role::result}))
    if (!is_of_optimizer(value.first)) all.push_back(std::move(value));
  all.insert(all.end(), optimizer_->setting().begin(), optimizer_->setting().end());
  all.emplace_back("dtype", name(named_.front().second.dtype()));
  all.emplace_back("gradient_dtype", name(named_.front().second.gradient_dtype()));
  return all;
}

void Trainer::save(const std::string& path) {
  // Masters that are stored in halves are joined, in the memory of gradients that are used up.
  if (moving_ && named_.front().second.stored().rest.defined()) optimizer_->zero_grad();
  const optim::PointScope point(*optimizer_, optim::Optimizer::Point::evaluation);
  Safetensors file;
  for (const auto& [name, x] : task_.model.state_dict()) file.tensors["model/" + name] = x;
  for (const auto& [name, x] : optimizer_->state_dict()) file.tensors["optimizer/" + name] = x;
  const OptionValues all = setting();
  file.metadata.insert(all.begin(), all.end());
  rates_.save(file.metadata, step_);
  file.metadata["step"] = std::to_string(step_);
  file.metadata["loss"] = fmt::format("{}", last_loss_);
  // Dropout uses the default generator.
  file.metadata["random"] = fmt::format("{} {}", default_generator().seed(), default_generator().offset());
  file.metadata["best"] = fmt::format("{}", best_);
  file.metadata["best_by"] = options_.best_by;
  file.metadata["worse"] = std::to_string(worse_);
  file.metadata["loss_scale"] = fmt::format("{} {}", scale_.value(), scale_.steps());
  write_safetensors(path, file);
}

void Trainer::resume(const std::string& path) {
  Safetensors file = read_safetensors(path);
  complete_older_metadata(file.metadata);
  const auto metadata = [&](const std::string& key) {
    const auto found = file.metadata.find(key);
    check(found != file.metadata.end(),
          "resume: {} is no checkpoint of such a run, or one of an earlier version: it has no {}", path, key);
    return found->second;
  };
  int64_t step = 0, scaled = 0;
  double loss = 0, scale = 0;
  uint64_t seed = 0, offset = 0;
  const auto read = [&](const char* key, const char* wanted, auto&... numbers) {
    const std::string text = metadata(key);
    check(parse(text, numbers...), "resume: {} is broken: its {} is \"{}\", wanted {}", path, key, text,
          wanted);
  };
  read("step", "a whole number", step);
  check(step >= 0, "resume: {} is broken: its step is \"{}\", wanted at least 0", path, step);
  check(step <= options_.steps, "resume: {} is at step {}, and this run has {} steps", path, step,
        options_.steps);
  // Older checkpoints do not name the dtype of gradients: it was always the master's.
  const std::string before = file.metadata.count("gradient_dtype") > 0
                                 ? metadata("gradient_dtype")
                                 : std::string(name(named_.front().second.master_dtype()));
  for (const auto& [key, here] : setting()) {
    const std::string there = key == "gradient_dtype" ? before : metadata(key);
    check(there == here, "resume: the {} of {} is {}, of this run {}", key, path, shortened(there),
          shortened(here));
  }
  const RateHistory rates = rates_.resumed(file.metadata, step, path, options_.new_schedule);
  read("loss", "a number", loss);
  check(step == 0 || std::isfinite(loss), "resume: {} is broken: its loss is \"{}\", wanted a finite number",
        path, loss);
  read("random", "a seed and an offset", seed, offset);
  read("loss_scale", "a scale and its steps", scale, scaled);
  check(scale_.is_possible(scale, scaled), "resume: {} is broken: its loss_scale is \"{}\", wanted {}", path,
        metadata("loss_scale"), scale_.possible());
  std::map<std::string, Tensor> model, optimizer;
  for (const auto& [name, x] : file.tensors) {
    if (name.starts_with("model/")) model[name.substr(6)] = x;
    if (name.starts_with("optimizer/")) optimizer[name.substr(10)] = x;
  }
  const Best best = known_best(file.metadata, options_.best_by, path);
  task_.model.check_state_dict(model);
  optimizer_->check_state_dict(optimizer);
  check_tensors(file.tensors, step, path);
  read_metrics(path, step, loss);
  graph_.reset();  // it refers to the old optimizer state
  warm_ = false;
  task_.model.load_state_dict(model);  // throws before it changes anything
  optimizer_->load_state_dict(optimizer);
  rates_ = rates;
  step_ = step;
  last_loss_ = loss;
  best_ = best.value, worse_ = best.worse;
  scale_.restore(scale, scaled);
  default_generator().set(seed, offset);
}

std::vector<std::pair<std::string, report::Series*>> Trainer::series() {
  std::vector<std::pair<std::string, report::Series*>> all = {
      {"loss", &record_.train_loss},
      {"lr", &record_.learning_rate},
      {record_.words.item + "s_per_second", &record_.speed},
      {"flops", &record_.flops},
      {"validation_loss", &record_.validation_loss}};
  for (report::MetricValues& metric : record_.metrics)
    all.push_back({"validation_" + metric.name, &metric.values});
  for (report::Series& layer : record_.grad_norm_by_layer)
    all.push_back({"gradient_norm." + layer.name, &layer});
  for (report::PathGradients& path : record_.grad_norm_by_path) {
    const std::string name = "gradient_norm." + path.name;
    all.insert(all.end(), {{name + ".q", &path.q}, {name + ".k", &path.k}, {name + ".v", &path.v}});
  }
  return all;
}

/// A new run truncates the file; a resumed run appends to it.
void Trainer::open_metrics() {
  if (!options_.metrics.empty() && !metrics_)
    metrics_ = std::make_unique<AppendedFile>("training", options_.metrics, step_ > 0);
  if (!options_.tensorboard.empty() && !events_)
    events_ = std::make_unique<EventFile>(options_.tensorboard, step_ + 1);
}

/// A run cannot be resumed if the metrics lack its steps, so a failed write ends the run.
void Trainer::write_metrics() {
  if (!metrics_ && !events_) return;
  nlohmann::ordered_json line = {
      {"step", step_}, {"seconds", std::round(1e3 * seconds_) / 1e3}, {"peak_bytes", peak_}};
  std::vector<std::pair<std::string, double>> values;
  for (const auto& [name, series] : series())
    if (!series->x.empty() && series->x.back() == static_cast<double>(step_))
      values.emplace_back(name, series->y.back());
  for (const auto& [name, value] : values) line[name] = value;
  for (const ScheduleChange& change : schedule_changes())
    if (change.after_step + 1 == step_) line["new_schedule"] = change.text();
  try {
    if (metrics_) metrics_->append(line.dump() + "\n");
    if (events_) events_->add(step_, seconds_since_1970(), values);
  } catch (const Error& error) {
    if (options_.checkpoint.empty()) throw;
    throw Error(error.what() + saved_as(options_.checkpoint));
  }
}

/// Reads the lines up to the checkpoint's step in place of this trainer's series, and removes later
/// lines, which a longer run has written. The last line that remains must have the checkpoint's
/// loss; otherwise the file belongs to another run. Without a file, this trainer's own series are
/// kept up to that step.
void Trainer::read_metrics(const std::string& checkpoint, int64_t step, double loss) {
  std::error_code failed;
  const bool exist = std::filesystem::is_regular_file(options_.metrics, failed);
  std::ifstream in(options_.metrics);
  size_t kept = 0;
  int64_t last = 0;
  std::vector<nlohmann::json> lines;
  for (std::string text; std::getline(in, text) && !in.eof(); kept += text.size() + 1) {
    nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer()) break;
    const auto at = line["step"].get<int64_t>();
    if (at <= last || at > step) break;
    last = at;
    lines.push_back(std::move(line));
  }
  const bool has_loss = !lines.empty() && lines.back().contains("loss") && lines.back()["loss"].is_number();
  const bool same = last == step && has_loss && lines.back()["loss"].get<double>() == loss;
  const bool none = !exist || std::filesystem::file_size(options_.metrics) == 0;
  check(step > 0 || none, "resume: {} is not of the run of {}, which has made no step; move the file away",
        options_.metrics, checkpoint);
  check(
      same || none,
      "resume: {} is not of the run of {}: that one has loss {} at step {}, and here the last step up to there is {}{}; move "
      "the file away, or resume where that run has written its own",
      options_.metrics, checkpoint, loss, step, last,
      has_loss ? fmt::format(" with loss {}", lines.back()["loss"].get<double>()) : "");
  if (exist) std::filesystem::resize_file(options_.metrics, kept, failed);
  check(!exist || !failed, "resume: cannot cut {} after step {}: {}", options_.metrics, step,
        failed.message());
  metrics_.reset();
  for (const auto& [name, series] : series()) {
    const auto later = std::upper_bound(series->x.begin(), series->x.end(), static_cast<double>(step));
    const auto known = exist ? 0 : later - series->x.begin();  // from this trainer itself
    series->x.resize(static_cast<size_t>(known)), series->y.resize(static_cast<size_t>(known));
  }
  if (exist) seconds_ = peak_ = 0;
  for (const nlohmann::json& line : lines) {
    for (const auto& [name, series] : series())
      if (line.contains(name))  // null: not finite
        series->add(line["step"].get<double>(), line[name].is_number() ? line[name].get<double>() : NAN);
    for (const auto& [name, figure] : {std::pair{"seconds", &seconds_}, {"peak_bytes", &peak_}})
      if (line.contains(name) && line[name].is_number()) *figure = line[name].get<double>();
  }
}

}  // namespace vitrine::nn::training
