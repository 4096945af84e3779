#include "nn/training/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/files/safetensors.h"

namespace vitrine::nn::training {
namespace {

/// Which of the runs a checkpoint is of.
size_t place_of(const std::string& checkpoint, const std::vector<Run>& runs) {
  auto saved = read_safetensors(checkpoint).metadata;
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const Run& run) {
    return run.attention == saved["attention"] && std::to_string(run.seed) == saved["seed"];
  });
  check(found != runs.end(), "resume: {} is of the attention \"{}\" and the seed \"{}\", none of these runs",
        checkpoint, saved["attention"], saved["seed"]);
  return static_cast<size_t>(found - runs.begin());
}

}  // namespace

std::vector<Run> plan_runs(const std::vector<std::string>& attentions, const std::vector<uint64_t>& seeds,
                           const std::string& folder, const std::string& resume) {
  std::vector<Run> runs;
  for (const std::string& attention : attentions)
    for (const uint64_t seed : seeds) {
      std::string name = attention, files = folder + "/" + attention;
      std::replace(files.end() - static_cast<int64_t>(attention.size()), files.end(), '=', '-');
      if (seeds.size() > 1) {
        name += fmt::format(", seed {}", seed);
        files += fmt::format("-seed{}", seed);
      }
      const std::string checkpoint = files + ".safetensors";
      runs.push_back({attention, seed, name, files, checkpoint, "", checkpoint});
    }
  if (resume.empty()) return runs;
  const size_t resumed = place_of(resume, runs);
  runs[resumed].resume = resume;
  for (Run* run = runs.data(); run != &runs[resumed]; ++run) {
    if (std::filesystem::exists(run->checkpoint)) run->resume = run->checkpoint;
    run->go_on = resume;  // which has been trained further
  }
  return runs;
}

ComparisonRecords train_runs(const std::vector<Run>& runs,
                             const std::function<report::RunRecord(const Run&)>& train,
                             const std::function<bool()>& stop) {
  ComparisonRecords records;
  for (const Run& run : runs) {
    if (stop() && !records.trained.empty()) break;
    try {
      records.trained.push_back(train(run));
    } catch (const FailedRun& failed) {
      records.failed.push_back(failed.record);
    }
  }
  return records;
}

std::string keep_start(const Run& run, const Trainer& trainer) {
  namespace fs = std::filesystem;
  if (trainer.schedule_changes().empty()) return "";
  const std::string kept = fmt::format("{}.step{}.safetensors", run.files, trainer.step());
  std::error_code none;  // of a file that is not there
  if (!fs::equivalent(run.resume, kept, none))
    fs::copy_file(run.resume, kept, fs::copy_options::overwrite_existing);
  return fs::absolute(kept).lexically_normal().string();
}

std::string mean_losses(const std::vector<report::RunRecord>& records) {
  std::vector<std::string> methods;  // in the order of the runs
  for (const auto& record : records)
    if (std::find(methods.begin(), methods.end(), record.method) == methods.end())
      methods.push_back(record.method);
  std::string text;
  for (const std::string& method : methods) {
    double sum = 0;
    int seeds = 0;
    for (const auto& record : records)
      if (record.method == method) sum += record.final_validation_loss, ++seeds;
    if (seeds > 1)
      text += fmt::format("{}: mean validation loss {:.4f} of {} seeds\n", method, sum / seeds, seeds);
  }
  return text;
}

}  // namespace vitrine::nn::training
