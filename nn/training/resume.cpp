// What a run leaves behind, and how a later one goes on from it: the checkpoint and the metrics.
#include <charconv>
#include <cmath>
#include <cstdio>
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

std::map<std::string, std::string> Trainer::setting() const {
  return {{"seed", std::to_string(options_.seed)},
          {"batch", std::to_string(options_.batch)},
          {"accumulate", std::to_string(options_.accumulate)},
          {"context", std::to_string(model_.options().context)},
          {"attention", model_.options().attention},
          {"dtype", std::string(name(model_.tokens.weight.dtype()))},
          {"optimizer", options_.optimizer},
          {"training text", training_.fingerprint()},
          {"validation text", validation_.fingerprint()}};
}

void Trainer::save(const std::string& path) {
  Safetensors file;
  for (const auto& [name, x] : model_.state_dict()) file.tensors["model/" + name] = x;
  for (const auto& [name, x] : optimizer_->state_dict()) file.tensors["optimizer/" + name] = x;
  file.metadata = setting();
  file.metadata["step"] = std::to_string(step_);
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
  for (const auto& [key, here] : setting())
    check(metadata(key) == here, "resume: {} has the {} {}, this run has {}", path, key, metadata(key), here);
  const int64_t step = step_in(metadata("step"), path);
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
  model_.check_state_dict(model);
  optimizer_->check_state_dict(optimizer);
  model_.load_state_dict(model);  // what fits nowhere has changed nothing
  optimizer_->load_state_dict(optimizer);
  step_ = step;
  scale_.restore(scale, scaled);
  default_generator() = generator;
  read_metrics();
}

std::vector<std::pair<std::string, Series*>> Trainer::series() {
  std::vector<std::pair<std::string, Series*>> all = {{"loss", &report_.train_loss},
                                                      {"lr", &report_.learning_rate},
                                                      {"tokens_per_second", &report_.tokens_per_second},
                                                      {"validation_loss", &report_.validation_loss}};
  for (size_t i = 0; i < report_.grad_norm_by_layer.size(); ++i) {
    PathGradients& path = report_.grad_norm_by_path[i];
    const std::string name = fmt::format("gradient_norm.{}", i);
    all.insert(all.end(), {{name, &report_.grad_norm_by_layer[i]},
                           {name + ".q", &path.q},
                           {name + ".k", &path.k},
                           {name + ".v", &path.v}});
  }
  return all;
}

void Trainer::write_metrics() {
  if (options_.metrics.empty()) return;
  if (!metrics_.is_open()) {
    metrics_.open(options_.metrics, step_ > 1 ? std::ios::app : std::ios::out);
    check(metrics_.good(), "training: cannot write {}", options_.metrics);
  }
  nlohmann::ordered_json line = {{"step", step_}};
  for (const auto& [name, series] : series())
    if (!series->x.empty() && series->x.back() == static_cast<double>(step_)) line[name] = series->y.back();
  metrics_ << line.dump() << std::endl;
}

/// Takes in the lines up to this step, and cuts off what was written behind them by a run that had come further.
void Trainer::read_metrics() {
  std::error_code missing;
  if (!std::filesystem::is_regular_file(options_.metrics, missing)) return;
  std::ifstream in(options_.metrics);
  size_t kept = 0;
  int64_t last = 0;
  for (std::string text; std::getline(in, text) && !in.eof(); kept += text.size() + 1) {
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer()) break;
    const auto step = line["step"].get<int64_t>();
    if (step <= last || step > step_) break;
    for (const auto& [name, series] : series())
      if (line.contains(name))  // what was not finite is null
        series->add(static_cast<double>(step), line[name].is_number() ? line[name].get<double>() : NAN);
    last = step;
  }
  std::filesystem::resize_file(options_.metrics, kept);
}

}  // namespace vitrine::nn::training
