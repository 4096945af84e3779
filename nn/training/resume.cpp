// What a run leaves behind, and how a later one goes on from it: the checkpoint and the metrics.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/random.h"
#include "core/safetensors.h"
#include "nn/training/trainer.h"

namespace vitrine::nn::training {
namespace {

int64_t step_in(const std::string& text, const std::string& path) {
  int64_t step = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  check(error == std::errc() && end == text.data() + text.size() && step >= 0,
        "resume: {} is broken: its step is \"{}\", wanted a whole number", path, text);
  return step;
}

double loss_in(const std::string& text, const std::string& path) {
  char* end = nullptr;
  const double loss = std::strtod(text.c_str(), &end);
  check(!text.empty() && *end == '\0', "resume: {} is broken: its loss is \"{}\", wanted a number", path,
        text);
  return loss;
}

/// Where the generator stood.
Generator generator_in(const std::string& text, const std::string& path) {
  unsigned long long seed = 0, offset = 0;
  check(std::sscanf(text.c_str(), "%llu %llu", &seed, &offset) == 2,
        "resume: {} is broken: its random state is \"{}\", wanted a seed and an offset", path, text);
  Generator generator;
  generator.set(seed, offset);
  return generator;
}

}  // namespace

std::map<std::string, std::string> Trainer::setting(int64_t steps) const {
  const TrainingOptions& o = options_;
  std::map<std::string, std::string> all = task_.setting;
  all.insert({{"accumulate", std::to_string(o.accumulate)},
              {"dtype", std::string(name(named_.front().second.dtype()))},
              {"optimizer", o.optimizer},
              {"weight decay", fmt::format("{}", o.weight_decay)},
              {"beta1", fmt::format("{}", o.beta1)},
              {"beta2", fmt::format("{}", o.beta2)},
              {"momentum", fmt::format("{}", o.momentum)},
              {"nesterov", fmt::format("{}", o.nesterov)},
              {"clip", fmt::format("{}", o.clip)}});
  for (int64_t n = 1; n <= steps; n = n < steps ? std::min(2 * n, steps) : n + 1)
    all[fmt::format("learning rate of step {}", n)] = fmt::format("{}", schedule_(n - 1));
  return all;
}

void Trainer::save(const std::string& path) {
  Safetensors file;
  for (const auto& [name, x] : task_.model.state_dict()) file.tensors["model/" + name] = x;
  for (const auto& [name, x] : optimizer_->state_dict()) file.tensors["optimizer/" + name] = x;
  file.metadata = setting(step_);
  file.metadata["step"] = std::to_string(step_);
  file.metadata["loss"] = fmt::format("{}", last_loss_);
  // Dropout draws from the default generator.
  file.metadata["random"] = fmt::format("{} {}", default_generator().seed(), default_generator().offset());
  file.metadata["loss_scale"] = fmt::format("{} {}", scale_.value(), scale_.steps());
  write_safetensors(path, file);
}

void Trainer::resume(const std::string& path) {
  const Safetensors file = read_safetensors(path);
  const auto metadata = [&](const std::string& key) {
    const auto found = file.metadata.find(key);
    check(found != file.metadata.end(), "resume: {} is no checkpoint of a training run: it has no {}", path,
          key);
    return found->second;
  };
  const int64_t step = step_in(metadata("step"), path);
  for (const auto& [key, here] : setting(step))
    check(metadata(key) == here, "resume: the {} of {} is {}, of this run {}", key, path, metadata(key),
          here);
  const Generator generator = generator_in(metadata("random"), path);
  double scale = 1;
  long long scaled = 0;
  check(std::sscanf(metadata("loss_scale").c_str(), "%lf %lld", &scale, &scaled) == 2 && scale >= 1 &&
            scaled >= 0,
        "resume: {} is broken: its loss scale is {}", path, metadata("loss_scale"));
  std::map<std::string, Tensor> model, optimizer;
  for (const auto& [name, x] : file.tensors) {
    if (name.starts_with("model/")) model[name.substr(6)] = x;
    if (name.starts_with("optimizer/")) optimizer[name.substr(10)] = x;
  }
  const double loss = loss_in(metadata("loss"), path);
  task_.model.check_state_dict(model);
  optimizer_->check_state_dict(optimizer);
  read_metrics(path, step, loss);
  graph_.reset();  // it knows the optimizer's state of before
  warm_ = false;
  task_.model.load_state_dict(model);  // what fits nowhere has changed nothing
  optimizer_->load_state_dict(optimizer);
  step_ = step;
  last_loss_ = loss;
  scale_.restore(scale, scaled);
  default_generator() = generator;
}

std::vector<std::pair<std::string, Series*>> Trainer::series() {
  std::vector<std::pair<std::string, Series*>> all = {{"loss", &report_.train_loss},
                                                      {"lr", &report_.learning_rate},
                                                      {"tokens_per_second", &report_.tokens_per_second},
                                                      {"validation_loss", &report_.validation_loss}};
  for (Series& layer : report_.grad_norm_by_layer) all.push_back({"gradient_norm." + layer.name, &layer});
  for (PathGradients& path : report_.grad_norm_by_path) {
    const std::string name = "gradient_norm." + path.name;
    all.insert(all.end(), {{name + ".q", &path.q}, {name + ".k", &path.k}, {name + ".v", &path.v}});
  }
  return all;
}

void Trainer::write_metrics() {
  if (options_.metrics.empty()) return;
  if (!metrics_.is_open()) {
    metrics_.open(options_.metrics, step_ > 1 ? std::ios::app : std::ios::out);
    check(metrics_.good(), "training: cannot open {}: {}", options_.metrics, std::strerror(errno));
  }
  nlohmann::ordered_json line = {
      {"step", step_}, {"seconds", std::round(1e3 * seconds_) / 1e3}, {"peak_bytes", peak_}};
  for (const auto& [name, series] : series())
    if (!series->x.empty() && series->x.back() == static_cast<double>(step_)) line[name] = series->y.back();
  metrics_ << line.dump() << std::endl;
  check(metrics_.good(), "training: cannot write {}: {}", options_.metrics, std::strerror(errno));
}

/// Takes in the lines up to the checkpoint's step in place of this trainer's curves, and cuts off what was written behind them by a
/// run that had come further. The last of them has the checkpoint's loss, or they are another run's. Without a file the curves are
/// those of this trainer up to there.
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
  const bool same = last == step && (step == 0 || (has_loss && lines.back()["loss"].get<double>() == loss));
  check(
      same || !exist || std::filesystem::file_size(options_.metrics) == 0,
      "resume: {} is not of the run of {}: that one has loss {} at step {}, and here the last step up to there is {}{}; move "
      "the file away, or resume where that run has written its own",
      options_.metrics, checkpoint, loss, step, last,
      has_loss ? fmt::format(" with loss {}", lines.back()["loss"].get<double>()) : "");
  if (exist) std::filesystem::resize_file(options_.metrics, kept, failed);
  check(!exist || !failed, "resume: cannot cut {} behind step {}: {}", options_.metrics, step,
        failed.message());
  metrics_.close();
  for (const auto& [name, series] : series()) {
    const auto later = std::upper_bound(series->x.begin(), series->x.end(), static_cast<double>(step));
    const auto known = exist ? 0 : later - series->x.begin();  // by this trainer itself
    series->x.resize(static_cast<size_t>(known)), series->y.resize(static_cast<size_t>(known));
  }
  if (exist) seconds_ = peak_ = 0;
  for (const nlohmann::json& line : lines) {
    for (const auto& [name, series] : series())
      if (line.contains(name))  // what was not finite is null
        series->add(line["step"].get<double>(), line[name].is_number() ? line[name].get<double>() : NAN);
    for (const auto& [name, figure] : {std::pair{"seconds", &seconds_}, {"peak_bytes", &peak_}})
      if (line.contains(name) && line[name].is_number()) *figure = line[name].get<double>();
  }
}

}  // namespace vitrine::nn::training
