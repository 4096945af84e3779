#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/files/file.h"
#include "core/files/run_lock.h"
#include "core/parallel.h"
#include "examples/vitrine/command.h"
#include "examples/vitrine/search_page.h"
#include "examples/vitrine/training.h"
#include "nn/training/interrupt.h"
#include "nn/training/search.h"

namespace vitrine::examples {

using namespace nn;
using namespace nn::training;

namespace {

struct SearchSettings : Settings {
  std::vector<std::string> over;
  std::string method = "random";
  int64_t trials = 9, rungs = 1, eta = 3;
  uint64_t search_seed = 1;

  SearchSettings() { out = "search"; }
  void list(OptionList& o) {
    o.group("Search");
    o("over", over,
      "OPTION=VALUE,VALUE or OPTION=LOW..HIGH for any option of train that results depend on; may be repeated. "
      "A range from LOW to at least 10·LOW is logarithmic")
        .decides(Role::files);
    o("method", method, "random draws, or the grid of all combinations")
        .one_of({"random", "grid"})
        .decides(Role::files);
    const auto random = [this] { return method == "random" ? "" : "a grid has all combinations"; };
    o("trials", trials, "random draws").at_least(1).unless(random).decides(Role::files);
    o("search-seed", search_seed, "seed of the draws").unless(random).decides(Role::files);
    o("rungs", rungs, "successive halving: how often trials are compared; 1: all make all steps")
        .at_least(1)
        .decides(Role::files);
    o("eta", eta, "successive halving: one in so many trials goes on, for so many times the steps")
        .at_least(2)
        .decides(Role::files);
    Settings::list(o);
    for (const char* name : {"compare", "seeds", "resume", "checkpoint", "new-schedule"}) o.remove(name);
  }
};

/// The results of one trial so far, in search.json of its folder.
class TrialFile {
 public:
  TrialFile(std::string path, const OptionValues& setting) : path_(std::move(path)) {
    for (const auto& [name, value] : setting) json_["setting"][name] = value;
    json_["losses"] = nlohmann::json::array();
    std::ifstream in(path_);
    if (!in) return;
    const nlohmann::json saved = nlohmann::json::parse(in, nullptr, false);
    check(saved.is_object() && saved.contains("losses") && saved["losses"].is_array() &&
              saved.contains("setting"),
          "search: {} is broken", path_);
    check(saved["setting"] == json_["setting"],
          "search: {} is of a search with other settings; repeat those, or give another --out", path_);
    json_ = saved;
  }
  /// The loss at a rung; none: not reached.
  std::optional<double> loss(size_t rung) const {
    if (rung >= json_["losses"].size()) return std::nullopt;
    const auto& loss = json_["losses"][rung];
    return loss.is_number() ? loss.get<double>() : INFINITY;
  }
  double flops() const {
    const auto flops = json_.find("flops");
    return flops != json_.end() && flops->is_number() ? flops->get<double>() : NAN;
  }
  void add(double loss, double flops) {
    json_["losses"].push_back(loss);
    json_["flops"] = flops;
    const std::string text = json_.dump() + "\n";
    const std::string_view parts[] = {text};
    write_file("search", path_, parts);
  }

 private:
  std::string path_;
  nlohmann::json json_;
};

/// One search: its trials, each with a run folder.
class Search {
 public:
  Search(SearchSettings settings, const Call& call) : s_(std::move(settings)), call_(call) {
    static_cast<Settings&>(s_) = checked(s_);
    SearchSettings read = s_;
    OptionList options = options_of(read, call.options);
    axes_ = parse_search_axes(s_.over, mixer_parts(), options);
    trials_ = s_.method == "grid" ? grid_trials(axes_) : random_trials(axes_, s_.trials, s_.search_seed);
    rungs_ = halving_rungs(s_.training.steps, s_.eta, s_.rungs);
    for (size_t i = 0; i < trials_.size(); ++i) {
      Run& run = runs_.emplace_back();
      run.options = trials_[i];
      for (const auto& [name, value] : trials_[i])
        run.name += fmt::format("{}{} {}", run.name.empty() ? "" : ", ", name, value);
      run.method = run.name;
      place_files(run, fmt::format("{}/trial-{:03}", s_.out, i + 1), Layout::folders);
      settings_of(i);  // errors in a later trial are reported before training begins
    }
  }

  int run() {
    if (s_.threads != 0) set_threads(s_.threads);
    std::filesystem::create_directories(s_.out);
    const RunLock lock("--out", s_.out);
    check_can_write("--out", s_.out + "/report.html");
    const Corpus corpus = read_corpus(s_);
    const auto results = search(
        trials_, rungs_, s_.eta, [&](size_t trial, size_t rung) { return evaluate(trial, rung, corpus); },
        interrupted);
    if (interrupted()) return say(stdout, "\ninterrupted; the same command goes on\n"), 0;
    std::vector<double> flops;
    for (size_t i = 0; i < trials_.size(); ++i) flops.push_back(file_of(i).flops());
    write_search_page(s_.out + "/report.html", axes_, rungs_, results, flops);
    const size_t best = best_first(results).front();
    say(stdout,
        "best: {}, validation loss {:.4f}\nrepeat it with vitrine train --config {}\nreport: {}/report.html\n",
        runs_[best].name, results[best].loss(), examples::quoted(runs_[best].config), s_.out);
    return std::isfinite(results[best].loss()) ? 0 : 1;
  }

 private:
  Settings settings_of(size_t trial) const { return settings_of_run(s_, call_.options, runs_[trial]); }

  TrialFile file_of(size_t trial) const {
    const Settings own = settings_of(trial);
    OptionValues setting = option_values(own, {Role::result, Role::schedule});
    setting.emplace_back("data", own.data);
    setting.emplace_back("tokenizer", fmt::format("{} {}", own.tokenizer, own.vocabulary));
    setting.emplace_back("rungs", fmt::format("{}", fmt::join(rungs_, " ")));
    return {std::filesystem::path(runs_[trial].config).replace_filename("search.json"), setting};
  }

  /// Trains up to the rung, on from the checkpoint if there is one. What was measured before is
  /// read.
  double evaluate(size_t trial, size_t rung, const Corpus& corpus) const {
    TrialFile file = file_of(trial);
    if (const auto known = file.loss(rung)) return *known;
    Run run = runs_[trial];
    if (std::filesystem::exists(run.checkpoint)) run.resume = run.checkpoint;
    say(stdout, "trial {} of {}, up to step {}: ", trial + 1, trials_.size(), rungs_[rung]);
    double loss = INFINITY;
    const auto measure = [&](Trainer& trainer) {
      const auto& losses = trainer.record().validation_loss;
      const bool known = !losses.x.empty() && losses.x.back() == static_cast<double>(trainer.step());
      if (!interrupted()) loss = known ? losses.y.back() : trainer.validation_loss();
    };
    const auto sum = [](const report::RunRecord& record) {
      return std::accumulate(record.flops.y.begin(), record.flops.y.end(), 0.0);
    };
    try {
      const report::RunRecord record = train_run(settings_of(trial), run, corpus,
                                                 {.program = "vitrine train",
                                                  .stop = interrupted,
                                                  .until = rungs_[rung],
                                                  .shows = false,
                                                  .at_end = measure});
      if (!interrupted()) file.add(loss, sum(record));
    } catch (const FailedRun& failed) {
      file.add(loss, sum(failed.record));
    }
    return loss;
  }

  SearchSettings s_;
  const Call& call_;
  std::vector<SearchAxis> axes_;
  std::vector<OptionValues> trials_;
  std::vector<int64_t> rungs_;
  std::vector<Run> runs_;
};

int run(SearchSettings& s, const Call& call) {
  call.options.check_given();
  catch_signals();
  return Search(s, call).run();
}

}  // namespace

Command search_command() {
  return make_command<SearchSettings>(
      "search", "Searches for good values of any options of train.",
      "  vitrine search --over lr=0.0001..0.01 --over mixer=standard,laser --trials 20\n"
      "  vitrine search --over width=64,128 --over layers=2,4 --method grid\n"
      "  vitrine search --over lr=0.0001..0.1 --trials 27 --rungs 4 --steps 2700   successive halving",
      {}, run);
}

}  // namespace vitrine::examples
