// Programs that compare models: recurrent encoder-decoders, pointer-generators, dialogues,
// mechanisms that copy and count, and policies that learn from preferences. A few steps of training
// show that they run; .ci/models runs them in full.
#include <algorithm>
#include <fstream>
#include <string>

#include "tests/examples/parallel_text.h"
#include "tests/examples/printed.h"
#include "tests/folder.h"

using vitrine::test::bytes_of_file, vitrine::test::Folder, vitrine::test::printed_by;

namespace {

/// What the program prints, with a report in the folder.
std::string run(const std::string& program, const Folder& folder) {
  return printed_by(
      (program + " --evaluate-every 4 --out " + folder.path.string() + " 2> /dev/null").c_str());
}

void check_has(const std::string& text, const std::string& part) {
  CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

}  // namespace

TEST_CASE("recurrent encoder-decoders translate dates, with any attention, and the report has maps") {
  const Folder folder;
  const std::string tiny = VITRINE_ALIGN_AND_TRANSLATE " --steps 3 --width 8 --beam 1";
  const std::string printed = run(tiny + " --scores none,additive", folder);
  check_has(printed, "score none: ");
  check_has(printed, " % right of all by beam search");
  check_has(printed, "% right, long sources; score additive");
  const std::string page = bytes_of_file(folder / "report.html");
  check_has(page, "map-thumbs");
  check_has(page, "% right, short sources");
  const std::string checkpoint = folder / "score_additive/checkpoint.safetensors";
  const std::string line =
      printed_by((VITRINE_VITRINE_PROGRAM " translate " + checkpoint + " 'march 3, 2021'").c_str());
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
  check_has(printed_by((VITRINE_VITRINE_PROGRAM " inspect --tape " + checkpoint).c_str()), "cross_entropy");
  check_has(run(tiny + " --scores general --view local-p --half-window 2 --feeding attentional --cell lstm",
                folder),
            "score general: ");
  CHECK(std::system((tiny + " --scores nonsense 2> /dev/null").c_str()) != 0);
  CHECK(std::system((tiny + " --scores none --view local-m 2> /dev/null").c_str()) != 0);
  CHECK(std::system((tiny + " --data one.txt 2> /dev/null").c_str()) != 0);
  vitrine::test::check_full_output(tiny + " --scores dot --out " + folder.path.string());
}

TEST_CASE("they translate parallel text, with BPE and BLEU") {
  const Folder folder;
  check_has(run(VITRINE_ALIGN_AND_TRANSLATE " --steps 3 --width 8 --scores dot" +
                    vitrine::test::parallel_text_in(folder),
                folder),
            " BLEU of all by beam search");
}

TEST_CASE("headlines are written with and without copying") {
  const Folder folder;
  const std::string tiny = VITRINE_WRITE_HEADLINES " --steps 3 --width 8 --count 20";
  const std::string printed = run(tiny, folder);
  check_has(printed, "plain decoder: ");
  check_has(printed, "pointer-generator: ");
  check_has(printed, " % of 20 held-out headlines are right");
  check_has(bytes_of_file(folder / "report.html"), "map-thumbs");
  check_has(printed_by((VITRINE_VITRINE_PROGRAM " inspect " + (folder / "pointer-generator") +
                        "/checkpoint.safetensors")
                           .c_str()),
            "FLOPs forward");
  check_has(run(tiny + " --no-coverage --score general", folder), "pointer-generator: ");
  CHECK(std::system((tiny + " --score none 2> /dev/null").c_str()) != 0);
  vitrine::test::check_full_output(tiny + " --out " + folder.path.string());
}

TEST_CASE("dialogues are answered, and the conversation is shown") {
  const Folder folder;
  const std::string tiny = VITRINE_ANSWER_DIALOGUES " --steps 3 --width 8 --heads 2 --count 10";
  const std::string printed = run(tiny + " --rounds 4", folder);
  check_has(printed, " % of 40 held-out answers are right");
  check_has(printed, "\n    ");
  check_has(bytes_of_file(folder / "report.html"), "map-thumbs");
  CHECK(std::system((tiny + " --rounds 0 2> /dev/null").c_str()) != 0);
  vitrine::test::check_full_output(tiny + " --out " + folder.path.string());
}

TEST_CASE("each mechanism copies, remembers and counts, and runs are compared by task and in all") {
  const Folder folder;
  const std::string tiny = VITRINE_COPY_AND_PARITY
      " --steps 4 --width 8 --layers 1 --heads 2 --copied 4 --bits 8 --total 40 "
      "--tokens 80 --held-out 1";
  const std::string printed = run(tiny + " --tasks copy,long_copy,parity", folder);
  for (const char* task : {"copy", "long_copy", "parity"}) {
    for (const char* mechanism :
         {"standard", "experts", "universal", "reformer", "transformer_xl", "rwkv4", "rwkv7", "mamba"}) {
      check_has(printed, std::string(task) + ", " + mechanism + ": ");
      CHECK(std::ifstream(folder / (std::string(task) + "/" + mechanism + "/record.json")).good());
    }
    const std::string report = bytes_of_file(folder / (std::string(task) + "/report.html"));
    for (const char* part : {"Totals", "Load of the experts", "Steps until a position halts"})
      check_has(report, part);
  }
  check_has(printed, "accuracy, twice as long");
  const std::string page = bytes_of_file(folder / "report.html");
  check_has(page, "steps to 99 %");
  check_has(page, "peak memory");
  check_has(run(tiny + " --tasks parity --mechanisms lstm,rotary", folder), "parity, lstm: ");
  CHECK(std::system((tiny + " --tasks nonsense 2> /dev/null").c_str()) != 0);
  CHECK(std::system((tiny + " --mechanisms nonsense 2> /dev/null").c_str()) != 0);
  vitrine::test::check_full_output(tiny + " --tasks parity --mechanisms lstm --out " + folder.path.string());
}

TEST_CASE("preferences are learned in both ways, and compared with the best policies") {
  const Folder folder;
  const std::string tiny = VITRINE_LEARN_PREFERENCES
      " --width 16 --heads 2 --imitation-steps 8 --judge-steps 8 --policy-steps 4"
      " --count 20 --dpo-betas 1,0.5 --policy-betas 1,0";
  const std::string printed = run(tiny, folder);
  for (const char* part : {" % of held-out pairs by their true rewards\n", "best reward",
                           "true reward; imitation ", "; DPO, beta 0.5 ", "; policy gradient, beta 0 "})
    check_has(printed, part);
  const std::string page = bytes_of_file(folder / "report.html");
  for (const char* part : {"the best policies", "win rate over training", "asks for"}) check_has(page, part);
  for (const char* file : {"imitation", "reward_model", "DPO,_beta_1", "policy_gradient,_beta_0"})
    CHECK_MESSAGE(bytes_of_file(folder / (std::string(file) + "/record.json")).size() > 100, file);
  // Runs that have ended are read again, and a further one is trained.
  check_has(run(tiny + " --resume --dpo-betas 1,0.5,2", folder), "; DPO, beta 2 ");
  CHECK(std::system((tiny + " --dpo-betas 0 2> /dev/null").c_str()) != 0);
  CHECK(std::system((tiny + " --group 1 2> /dev/null").c_str()) != 0);
  vitrine::test::check_full_output(tiny + " --out " + folder.path.string());
}
