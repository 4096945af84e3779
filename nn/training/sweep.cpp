#include "nn/training/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/files/safetensors.h"

namespace vitrine::nn::training {
namespace {

std::string shown(const std::string& option, const std::string& value) {
  return option == "mixer" ? value : option + " " + value;
}

/// Converts a run name to a file name: =, / and blanks become dashes, and commas are removed.
std::string file_name_of(const std::string& name) {
  std::string file;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == ',') continue;  // before a blank
    file += name[i] == '=' || name[i] == ' ' || name[i] == '/' ? '-' : name[i];
  }
  return file;
}

/// "laser, optimizer lion": the values of the axes that distinguish runs.
std::string name_of(const OptionValues& options, const std::vector<SweepAxis>& axes, bool with_seed) {
  std::string name;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto& [option, value] = options[i];
    const bool left_out = (i > 0 && axes[i].values.size() == 1) || (option == "seed" && !with_seed);
    if (!left_out) name += (name.empty() ? "" : ", ") + shown(option, value);
  }
  return name;
}

std::vector<OptionValues> combinations(const std::vector<SweepAxis>& axes) {
  std::vector<OptionValues> all = {{}};
  for (const SweepAxis& axis : axes) {
    std::vector<OptionValues> longer;
    for (const OptionValues& options : all)
      for (const std::string& value : axis.values) {
        longer.push_back(options);
        longer.back().emplace_back(axis.option, value);
      }
    all = std::move(longer);
  }
  return all;
}

void check_axes(const std::vector<SweepAxis>& axes) {
  check(!axes.empty(), "compare: there is nothing to compare; wanted an option and its values");
  std::set<std::string> options;
  for (const SweepAxis& axis : axes) {
    check(options.insert(axis.option).second, "compare: {} is given twice; wanted once, with all its values",
          axis.option);
    check(!axis.values.empty(), "compare: {} has no values", axis.option);
    std::set<std::string> values;
    for (const std::string& value : axis.values) {
      check(!value.empty(), "compare: {} has an empty value", axis.option);
      check(values.insert(value).second, "compare: {} names {} twice", axis.option, value);
    }
  }
}

/// A word that does not begin an axis has no =, or is a value such as laser+softcap=20.
void check_value_word(const std::string& word, bool of_first, const std::vector<std::string>& parts,
                      const OptionList& options) {
  const size_t equals = word.find('=');
  if (equals == word.npos) return;
  const std::string name = word.substr(0, equals), part = name.substr(name.rfind('+') + 1);
  if (of_first && std::find(parts.begin(), parts.end(), part) != parts.end()) return;
  std::vector<std::string> known = options.names();
  if (of_first) known.insert(known.end(), parts.begin(), parts.end());
  fail("--compare {}: there is no option {}{}{}", word, of_first ? "or part " : "", part,
       did_you_mean(part, known));
}

/// Checks that runs may differ in this option.
void check_axis(const SweepAxis& axis, OptionList& options) {
  const Option& option = *options.find(axis.option);
  check(option.role == Role::result || option.role == Role::schedule,
        "--compare: --{} is the same for all runs", option.name);
  check(option.given.empty(), "--compare {}=… is in place of {}, and both are given", option.name,
        option.given);
}

void read_values(SweepAxis& axis, OptionList& options) {
  Option& option = *options.find(axis.option);
  for (std::string& value : axis.values) {
    option.read({value}, "--compare " + option.name);
    value = option.values().front();
  }
}

bool agrees(const Run& run, const std::map<std::string, std::string>& saved) {
  return std::all_of(run.options.begin(), run.options.end(), [&](const auto& option) {
    const auto found = saved.find(option.first);
    return found == saved.end() || found->second == option.second;
  });
}

std::string described(const std::vector<SweepAxis>& axes, std::map<std::string, std::string> saved) {
  std::string text;
  for (const SweepAxis& axis : axes)
    if (saved.contains(axis.option))
      text += fmt::format("{}the {} \"{}\"", text.empty() ? "" : " and ", axis.option, saved[axis.option]);
  return text;
}

/// The index of the run to which a checkpoint belongs.
size_t place_of(const std::string& checkpoint, const std::vector<Run>& runs,
                const std::vector<SweepAxis>& axes) {
  const auto saved = read_safetensors(checkpoint).metadata;
  std::vector<const Run*> found;
  for (const Run& run : runs)
    if (agrees(run, saved)) found.push_back(&run);
  if (found.size() == 1) return static_cast<size_t>(found[0] - runs.data());
  // A checkpoint stores the resolved value of an option: positions are learned instead of
  // automatic.
  std::error_code none;
  for (size_t i = 0; i < runs.size(); ++i)
    if (std::filesystem::equivalent(runs[i].checkpoint, checkpoint, none)) return i;
  check(!found.empty(), "resume: {} is of {}, none of these runs", checkpoint, described(axes, saved));
  fail("resume: {} may be of {} of these runs; wanted the file of one of them, such as {}", checkpoint,
       found.size(), found[0]->checkpoint);
}

}  // namespace

const std::string& Run::value(const std::string& option) const {
  for (const auto& [name, text] : options)
    if (name == option) return text;
  fail("Run: {} has no option {}", name, option);
}

void place_files(Run& run, const std::string& path, Layout layout) {
  run.file = std::filesystem::path(path).filename().string();
  if (layout == Layout::files) {
    run.files = path;
    run.config = path + ".ini", run.metrics = path + ".jsonl";
  } else {
    run.files = path + "/checkpoint";
    run.config = path + "/config.ini", run.metrics = path + "/metrics.jsonl";
    run.record = path + "/record.json", run.report = path + "/report.html";
  }
  run.checkpoint = run.go_on = run.files + ".safetensors";
}

std::vector<SweepAxis> parse_axes(const std::vector<std::string>& words, const std::string& first,
                                  const std::vector<std::string>& parts, OptionList& options) {
  std::vector<SweepAxis> axes;
  for (const std::string& word : words) {
    const size_t equals = std::min(word.find('='), word.size());
    const Option* const option = equals < word.size() ? options.find(word.substr(0, equals)) : nullptr;
    if (option != nullptr || axes.empty()) axes.push_back({option ? option->name : first, {}});
    if (option == nullptr) check_value_word(word, axes.back().option == first, parts, options);
    axes.back().values.push_back(option ? word.substr(equals + 1) : word);
  }
  for (const SweepAxis& axis : axes) check_axis(axis, options);
  for (SweepAxis& axis : axes) read_values(axis, options);
  return axes;
}

std::vector<Run> plan_runs(const std::vector<SweepAxis>& axes, const std::string& folder,
                           const std::string& resume, Layout layout) {
  check_axes(axes);
  std::vector<Run> runs;
  std::set<std::string> taken;
  for (OptionValues& options : combinations(axes)) {
    Run run;
    run.name = name_of(options, axes, true);
    run.method = name_of(options, axes, false);
    // "seed7": the format of the file names of runs
    std::string file = file_name_of(run.method);
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i].option == "seed" && (i == 0 || axes[i].values.size() > 1))
        file += (file.empty() ? "seed" : "-seed") + options[i].second;
    run.options = std::move(options);
    place_files(run, folder + "/" + file, layout);
    check(taken.insert(run.files).second, "plan_runs: two runs would write {}", run.files);
    runs.push_back(std::move(run));
  }
  if (resume.empty()) return runs;
  const size_t resumed = place_of(resume, runs, axes);
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
  std::error_code none;  // if the file does not exist
  if (!fs::equivalent(run.resume, kept, none))
    fs::copy_file(run.resume, kept, fs::copy_options::overwrite_existing);
  return fs::absolute(kept).lexically_normal().string();
}

}  // namespace vitrine::nn::training
