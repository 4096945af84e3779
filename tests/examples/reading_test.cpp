// The programs that read words: each trains for some steps, measures, and writes its report.
#include <fmt/format.h>

#include <string>

#include "core/files/safetensors.h"
#include "tests/examples/printed.h"
#include "tests/folder.h"

using namespace vitrine;
using test::printed_by;

namespace {

std::string report_of(const char* program, const std::string& options, const char* result) {
  const test::Folder folder;
  const std::string run = program + options + " --out " + folder.path.string();
  const std::string printed = printed_by(run.c_str());
  CHECK_MESSAGE(printed.find(result) != std::string::npos, printed);
  return test::bytes_of_file(folder / "report.html");
}

void check_has(const std::string& html, std::initializer_list<const char*> parts) {
  for (const char* part : parts) CHECK_MESSAGE(html.find(part) != std::string::npos, part);
}

void check_usage(const std::string& program) {
  const test::Folder folder;
  for (const char* wrong : {" --steps 0", " --nonsense", " --mixer nonsense", " surplus"})
    CHECK(std::system((program + wrong + " > /dev/null 2>&1").c_str()) != 0);
  test::check_full_output(program + " --steps 1 --width 4 --evaluate-every 1 --out " + folder.path.string());
}

}  // namespace

TEST_CASE("documents are classified, by their sentences or as one sequence, and from files") {
  const char* const result = " % of 1000 held-out documents is right\n";
  const std::string html = report_of(VITRINE_CLASSIFY_DOCUMENTS, " --steps 2 --width 8", result);
  check_has(html, {"<h3>Attention over words</h3>", "accuracy", ">1.2<"});
  const std::string joined =
      report_of(VITRINE_CLASSIFY_DOCUMENTS, " --steps 1 --width 8 --levels 1 --laser", result);
  CHECK(joined.find(">1.2<") == std::string::npos);
  const test::Folder folder;
  std::string good, bad;
  for (int i = 0; i < 30; ++i) good += "a fine film\n", bad += "a dull film\n";
  test::write_bytes(folder / "good", good), test::write_bytes(folder / "bad", bad);
  const std::string files = VITRINE_CLASSIFY_DOCUMENTS " --steps 30 --width 16 --lr 0.02 --data " +
                            (folder / "bad") + "," + (folder / "good") + " --out " + (folder / "run");
  CHECK(printed_by(files.c_str()).find("100.0 % of 6 held-out documents is right\n") != std::string::npos);
  CHECK(std::system(VITRINE_CLASSIFY_DOCUMENTS " --data /nowhere 2> /dev/null") != 0);
  check_usage(VITRINE_CLASSIFY_DOCUMENTS);
}

TEST_CASE("a run continues from its checkpoint with --resume, and ends as if it had not been stopped") {
  const test::Folder folder;
  const auto run = [&](const char* out, int steps, const char* more) {
    printed_by(fmt::format("{} --width 8 --schedule constant --steps {} --out {} {} 2> /dev/null",
                           VITRINE_CLASSIFY_DOCUMENTS, steps, folder / out, more)
                   .c_str());
    return read_safetensors(folder / (std::string(out) + "/hierarchical_attention/checkpoint.safetensors"));
  };
  const Safetensors whole = run("whole", 6, "");
  CHECK(run("parts", 3, "").metadata.at("step") == "3");
  const Safetensors parts = run("parts", 6, "--resume --new-schedule");
  CHECK(parts.metadata.at("step") == "6");
  for (const auto& one : whole.tensors)
    CHECK_MESSAGE(parts.tensors.at(one.first).values() == one.second.values(), one.first);
}

TEST_CASE("entailment is judged, with a confusion matrix and the alignment of words") {
  const std::string html =
      report_of(VITRINE_JUDGE_ENTAILMENT, " --steps 2 --width 8", " % of 1000 held-out pairs is right\n");
  check_has(html, {"<h3>Confusion matrix</h3>", "<h3>Held-out pairs</h3>", "<h3>Attention maps</h3>",
                   "contradiction"});
  check_usage(VITRINE_JUDGE_ENTAILMENT);
}

TEST_CASE("questions are answered, with the flow of attention and examples") {
  const std::string html = report_of(VITRINE_ANSWER_QUESTIONS, " --steps 2 --width 8",
                                     " % of 1000 held-out questions are answered exactly\n");
  check_has(html, {"<h3>Held-out questions</h3>", "<h3>Attention over words</h3>", "<h3>Attention maps</h3>",
                   "exact answers"});
  check_usage(VITRINE_ANSWER_QUESTIONS);
}
