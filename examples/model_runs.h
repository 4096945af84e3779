// Programs that train models one after another, and compare them in one report.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/files/run_lock.h"
#include "core/parallel.h"
#include "core/random.h"
#include "examples/command_line.h"
#include "nn/report/page.h"
#include "nn/report/report.h"
#include "nn/training/interrupt.h"
#include "nn/training/schedule_options.h"
#include "nn/training/trainer.h"

namespace vitrine::examples {

/// The options of training and of the report.
struct RunSettings {
  nn::training::TrainingOptions training = {};
  nn::training::ScheduleOptions schedule = {};
  int64_t batch = 64;
  uint64_t seed = 1;
  int threads = 0;
  std::string out = {};

  void list(nn::OptionList& o) {
    training.list(o);
    // Each run saves in --out, from which none goes on, and trains on the CPU.
    for (const char* name : {"checkpoint", "new-schedule", "graph"}) o.remove(name);
    schedule.list(o);
    o.group("Training");
    o("batch", batch, "examples of a batch").at_least(1);
    o("seed", seed, "seed of all random numbers");
    o.group("Machine");
    o("threads", threads, "CPU threads; 0: all cores").decides(nn::Role::execution);
    o.group("Files and progress");
    o("out", out, "folder of the report, and of the checkpoint and metrics of each run")
        .decides(nn::Role::files);
  }
};

/// Trains the model of a task. `name` is that of the run in the report, and of its files.
template <class Settings>
nn::report::RunRecord train(nn::training::Task task, const Settings& s, const std::string& name) {
  const RunSettings& run = s.run;
  nn::training::TrainingOptions options = run.training;
  options.run = name;
  std::string file = name;
  std::replace(file.begin(), file.end(), ' ', '_');
  options.checkpoint = run.out + "/" + file + ".safetensors";
  options.metrics = run.out + "/" + file + ".jsonl";
  if (!options.tensorboard.empty()) options.tensorboard += "/" + file;
  nn::training::Trainer trainer(std::move(task), run.schedule.schedule(options.steps), options);
  trainer.run(nn::training::interrupted);
  nn::report::RunRecord& record = trainer.record();
  record.name = record.method = name;
  record.settings = nn::option_values(s, {nn::Role::result, nn::Role::schedule});
  return std::move(record);
}

/// The report of runs of one task.
inline void write_results(const std::string& path, const std::string& title,
                          const std::vector<nn::report::RunRecord>& records) {
  nn::report::write_report(path, title, records);
}
/// The page of a program whose runs have different tasks.
inline void write_results(const std::string& path, const std::string& /*title*/,
                          const nn::report::Page& page) {
  nn::report::write_page(path, page);
}

/// The main function of a program with the options `s`, which has RunSettings as `run`. `body`
/// trains models and returns what the report shows: their records, or a page.
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
    nn::training::catch_signals();
    write_results(s.run.out + "/report.html", purpose, body(s));
    say(stdout, "report: {}/report.html\n", s.run.out);
    return 0;
  });
}

}  // namespace vitrine::examples
