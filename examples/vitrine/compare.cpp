#include <filesystem>

#include "core/files/file.h"
#include "examples/vitrine/command.h"
#include "nn/report/record_file.h"
#include "nn/report/report.h"
#include "nn/report/seeds.h"

namespace vitrine::examples {
namespace {

struct CompareSettings {
  std::string out = "comparison.html", title = "Runs of Vitrine";

  void list(nn::OptionList& o) {
    o.group("Files");
    o("out", out, "the report, one HTML file").decides(nn::Role::files);
    o("title", title, "its title").decides(nn::Role::files);
  }
};

/// The record of a run folder, or of its file.
nn::report::RunRecord record_in(const std::string& path) {
  namespace fs = std::filesystem;
  const std::string file = fs::is_directory(path) ? path + "/record.json" : path;
  check(!fs::exists(path) || fs::is_directory(path) || path.ends_with(".json"),
        "compare: {} is no run folder and no record.json; runs/*/ names the folders alone", path);
  check(fs::exists(file), "compare: {} has no {}; a run writes it when it ends or is interrupted", path,
        fs::path(file).filename().string());
  return nn::report::read_record(file);
}

/// Runs of different folders may have the same name; they then get their paths.
void tell_apart(std::vector<nn::report::RunRecord>& runs, const std::vector<std::string>& paths) {
  std::vector<size_t> repeated;
  for (size_t i = 0; i < runs.size(); ++i)
    for (size_t j = 0; j < runs.size(); ++j)
      if (i != j && runs[i].name == runs[j].name && (repeated.empty() || repeated.back() != i))
        repeated.push_back(i);
  for (const size_t i : repeated) {
    runs[i].name = paths[i];
    runs[i].method = paths[i];
  }
}

int run(CompareSettings& s, const Call& call) {
  check_can_write("--out", s.out);
  std::vector<nn::report::RunRecord> runs;
  for (const std::string& path : call.words) runs.push_back(record_in(path));
  tell_apart(runs, call.words);
  say(stdout, "{}", nn::report::means_text(runs));
  nn::report::write_report(s.out, s.title, runs);
  say(stdout, "report: {}\n", s.out);
  return 0;
}

}  // namespace

Command compare_command() {
  return make_command<CompareSettings>("compare", "Draws any runs together in one report.",
                                       "  vitrine compare runs/standard runs/laser\n"
                                       "  vitrine compare runs/*/ --out all.html --title 'All runs'",
                                       {"run", "run folders", 1, 1000}, run);
}

}  // namespace vitrine::examples
