// Programs that train one model, or several one after another, with a report that compares them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/files/run_lock.h"
#include "core/parallel.h"
#include "core/random.h"
#include "examples/command_line.h"
#include "nn/config_file.h"
#include "nn/report/page.h"
#include "nn/report/record_file.h"
#include "nn/report/report.h"
#include "nn/training/interrupt.h"
#include "nn/training/schedule_options.h"
#include "nn/training/sweep.h"
#include "nn/training/trainer.h"

namespace vitrine::examples {

/// The options of training and of the report.
struct RunSettings {
  nn::training::TrainingOptions training = {};
  nn::training::ScheduleOptions schedule = {};
  int64_t batch = 64;
  uint64_t seed = 1;
  int threads = 0;
  std::string dtype = "float32";
  std::string out = {};
  bool resume = false;

  void list(nn::OptionList& o) {
    training.list(o);
    // Each run saves in --out, and trains on the CPU.
    for (const char* name : {"checkpoint", "graph"}) o.remove(name);
    schedule.list(o);
    o.group("Training");
    o("batch", batch, "examples of a batch").at_least(1);
    o("seed", seed, "seed of all random numbers");
    o.group("Machine");
    o("threads", threads, "CPU threads; 0: all cores").decides(nn::Role::execution);
    o("dtype", dtype, "16-bit dtypes keep float32 master weights; float16 scales the loss")
        .one_of({"float32", "bfloat16", "float16"});
    o.group("Files and progress");
    o("out", out, "folder of the report, and of a folder for each run with its checkpoint and metrics")
        .decides(nn::Role::files);
    o("resume", resume, "continue the runs that are in --out from their checkpoints")
        .decides(nn::Role::files);
  }
};

/// The files of the run with this name.
inline nn::training::Run files_of(const RunSettings& run, std::string name) {
  std::replace(name.begin(), name.end(), ' ', '_');
  nn::training::Run files;
  nn::training::place_files(files, run.out + "/" + name, nn::training::Layout::folders);
  return files;
}

/// Trains the model of a task. `name` is that of the run in the report, and of its folder.
template <class Settings>
nn::report::RunRecord train(nn::training::Task task, const Settings& s, const std::string& name) {
  const RunSettings& run = s.run;
  const nn::training::Run files = files_of(run, name);
  std::filesystem::create_directories(std::filesystem::path(files.checkpoint).parent_path());
  nn::training::TrainingOptions options = run.training;
  options.run = name;
  options.checkpoint = files.checkpoint;
  options.metrics = files.metrics;
  if (!options.tensorboard.empty()) options.tensorboard += "/" + files.file;
  // A resumed run must have the same
  for (const auto& [option, value] : nn::option_values(s, {nn::Role::result}))
    task.setting.emplace("--" + option, value);
  task.model.to(dtype_of(run.dtype));
  nn::training::Trainer trainer(std::move(task), run.schedule.schedule(options.steps), options);
  if (run.resume && std::filesystem::exists(files.checkpoint)) trainer.resume(files.checkpoint);
  trainer.run(nn::training::interrupted);
  if (nn::training::interrupted())
    say(stdout, "{}: interrupted at step {}; results are those of the last evaluation. --resume continues\n",
        name, trainer.step());
  nn::report::RunRecord& record = trainer.record();
  record.name = record.method = name;
  record.settings = nn::option_values(s, {nn::Role::result, nn::Role::schedule});
  return std::move(record);
}

/// Writes the record and the report of a run into its folder.
inline void write_record(const RunSettings& run, const nn::report::RunRecord& record) {
  const nn::training::Run files = files_of(run, record.name);
  nn::report::write_record(files.record, record);
  nn::report::write_report(files.report, record.name, {record});
}

/// Writes the files of each run, and one report of all, out/report.html.
inline void write_comparison(const RunSettings& run, const std::string& title,
                             const std::vector<nn::report::RunRecord>& records) {
  for (const nn::report::RunRecord& record : records) write_record(run, record);
  nn::report::write_report(run.out + "/report.html", title, records);
}

/// The main function of a program with the options `s`, which has RunSettings as `run`.
/// `body(s, title)` trains models and writes the report with this title, out/report.html.
template <class Settings, class Body>
int run_model_program(const std::string& name, const std::string& purpose, const std::string& examples,
                      Settings s, int argc, char** argv, const Body& body) {
  return run_program(name.c_str(), [&] {
    if (s.run.out.empty()) s.run.out = "reports/" + name;
    nn::OptionList options = nn::options_of(s);
    CommandLine line(name, purpose, examples);
    if (const auto code = line.parse(options, argc, argv)) return *code;
    options.check_given();
    nn::check_options(s, name);
    if (s.run.threads != 0) set_threads(s.run.threads);
    std::filesystem::create_directories(s.run.out);
    const RunLock lock("--out", s.run.out);
    // Runs that go on keep the options with which they began.
    if (const std::string config = s.run.out + "/config.ini";
        !s.run.resume || !std::filesystem::exists(config))
      nn::write_config(config, options, fmt::format("repeat this with {} --config {}", name, quoted(config)));
    nn::training::catch_signals();
    body(s, purpose);
    if (!nn::training::interrupted()) say(stdout, "report: {}/report.html\n", s.run.out);
    return 0;
  });
}

}  // namespace vitrine::examples
