// The program `vitrine`: its subcommands, run as a user runs them.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/files/safetensors.h"
#include "core/version.h"
#include "nn/text/characters.h"
#include "tests/examples/train_gpt.h"

using namespace vitrine;
using namespace vitrine::test::train_gpt;
using test::bytes_of_file;

namespace fs = std::filesystem;

namespace {

struct Result {
  int code;
  std::string printed;
};

Result run_command(const TextFolder& folder, const Arguments& arguments) {
  Program program(folder, arguments, nullptr, VITRINE_VITRINE_PROGRAM);
  const int code = program.exit_code();
  return {code, program.printed()};
}

/// A subcommand with the flags of a tiny model.
Arguments command(const TextFolder& folder, const std::string& name, const Arguments& more) {
  Arguments all = tiny(folder, more);
  all.insert(all.begin(), name);
  return all;
}

std::string succeeds(const TextFolder& folder, const Arguments& arguments) {
  const Result result = run_command(folder, arguments);
  CHECK_MESSAGE(result.code == 0, result.printed);
  return result.printed;
}

void contains(const std::string& text, const std::string& part) {
  CHECK_MESSAGE(text.find(part) != text.npos, part, " in ", text);
}

}  // namespace

TEST_CASE("help and completion name each command and each option; wrong usage is exit code 2") {
  const TextFolder folder;
  const std::string help = succeeds(folder, {"--help"}), bash = succeeds(folder, {"completion", "bash"}),
                    zsh = succeeds(folder, {"completion", "zsh"}),
                    fish = succeeds(folder, {"completion", "fish"});
  CHECK(succeeds(folder, {"--version"}) == fmt::format("vitrine of Vitrine {}\n", version()));
  for (const std::string name : {"train", "sample", "check", "inspect", "compare", "tokenize", "translate",
                                 "convert", "search", "completion"}) {
    contains(help, "\n  " + name + " ");
    const std::string own = succeeds(folder, {name, "--help"});
    contains(own, "\nExamples:\n  ");
    contains(own, "vitrine " + name + " ");
    contains(bash, name + ") flags=\"");
    contains(fish, "-f -a " + name + " ");
  }
  for (const std::string& text : {bash, zsh}) {
    contains(text, "--new-schedule");
    contains(text, "train:--norm) values=\"layer rms scale ada power\"");
  }
  contains(fish, "__fish_seen_subcommand_from train' -l norm ");
  // What bash itself completes
  std::ofstream(folder / "complete.sh")
      << bash << "COMP_WORDS=(vitrine train --warm); COMP_CWORD=2; _vitrine; "
      << "echo ${COMPREPLY[@]}\nCOMP_WORDS=(vitrine tr); COMP_CWORD=1; _vitrine; "
      << "echo ${COMPREPLY[@]}\nCOMP_WORDS=(vitrine tokenize en); COMP_CWORD=2; _vitrine; "
      << "echo ${COMPREPLY[@]}\n";
  CHECK(std::system(("bash '" + (folder / "complete.sh") + "' > '" + (folder / "completed") + "'").c_str()) ==
        0);
  CHECK(bytes_of_file(folder / "completed") == "--warmup\ntrain translate\nencode\n");
  const std::pair<Arguments, const char*> mistakes[] = {
      {{}, "Usage: vitrine COMMAND"},
      {{"trian"}, "vitrine: there is no command trian; did you mean train?"},
      {{"train", "--layrs", "2"}, "vitrine train: there is no option --layrs; did you mean --layers?"},
      {{"train", "--steps", "many"}, "--steps is many, wanted a whole number"},
      {{"sample"}, "checkpoint is required"},
      {{"tokenize", "cut"}, "cut, wanted train, encode TEXT or decode NUMBERS"},
      {{"completion", "sh"}, "there is no shell sh, wanted bash, zsh or fish"},
  };
  for (const auto& mistake : mistakes) {
    const Result result = run_command(folder, mistake.first);
    CHECK_MESSAGE(result.code == 2, mistake.second);
    contains(result.printed, mistake.second);
  }
  const Result failed = run_command(folder, {"sample", folder / "none"});
  CHECK(failed.code == 1);
  contains(failed.printed, "vitrine sample: ");
}

TEST_CASE("train makes a folder for each run; its config repeats the run, and other commands read it") {
  const TextFolder folder;
  const std::string runs = folder / "runs";
  const std::string printed = succeeds(folder, command(folder, "train",
                                                       {"--compare", "standard,laser", "--steps", "12",
                                                        "--out", runs, "--tensorboard", folder / "events"}));
  CHECK(fs::exists(runs + "/report.html"));
  const std::string laser = runs + "/laser", checkpoint = laser + "/checkpoint.safetensors";
  for (const char* file :
       {"config.ini", "metrics.jsonl", "checkpoint.safetensors", "record.json", "report.html"})
    CHECK_MESSAGE(fs::exists(laser + "/" + file), file);
  CHECK(fs::exists(folder / "events/laser/events.out.tfevents.0000000001.vitrine"));
  const std::string bytes = bytes_of_file(checkpoint);
  fs::remove(checkpoint);
  succeeds(folder, {"train", "--config", laser + "/config.ini"});
  CHECK((bytes_of_file(checkpoint) == bytes));

  const std::string sample = succeeds(folder, {"sample", laser, "--count", "9"});
  contains(printed, "--- sample ---\n" + sample + "---");

  // As a shell expands runs/*/
  contains(succeeds(folder, {"compare", runs + "/standard/", laser + "/", "--out", folder / "both.html"}),
           "report: ");
  const std::string page = bytes_of_file(folder / "both.html");
  contains(page, "Loss of all runs");
  contains(page, "training cost");
  contains(page, "bits per byte");
  succeeds(folder, {"compare", laser, laser + "/record.json", "--out", folder / "twice.html"});
  // Runs of the same name get their paths as names
  contains(bytes_of_file(folder / "twice.html"), laser + "/record.json");
  const Result none = run_command(folder, {"compare", runs});
  CHECK(none.code == 1);
  contains(none.printed, "has no record.json");
  const Result page_given = run_command(folder, {"compare", runs + "/report.html", laser});
  CHECK(page_given.code == 1);
  contains(page_given.printed,
           "report.html is no run folder and no record.json; runs/*/ names the folders alone");

  const std::string shown = succeeds(folder, {"inspect", laser, "--tape", "--drawing", folder / "t.dot"});
  for (const char* part : {"a gpt", "blocks.0.attention.out.weight", "[16, 16]",
                           "mixer                 laser", "cross_entropy", "FLOPs forward and"})
    contains(shown, part);
  CHECK(bytes_of_file(folder / "t.dot").starts_with("digraph"));
  // The model's own characters
  CHECK(succeeds(folder, {"tokenize", "encode", "fox", "--pieces", "--tokenizer", laser}) == "f|o|x\n");
}

TEST_CASE("convert saves a run as the folder of a pretrained model, which the other commands read") {
  const TextFolder folder;
  const std::string run = folder / "runs/standard", mine = folder / "mine", small = folder / "small";
  succeeds(folder,
           command(folder, "train",
                   {"--steps", "4", "--tokenizer", "bpe", "--vocabulary", "300", "--out", folder / "runs"}));
  contains(succeeds(folder, {"convert", run, mine}), "parameters as float32");
  const Arguments prompt = {"--count", "9", "--prompt", "The "};
  const auto sample = [&](const std::string& model) {
    Arguments all = {"sample", model};
    all.insert(all.end(), prompt.begin(), prompt.end());
    return succeeds(folder, all);
  };
  CHECK(sample(run) == sample(mine));
  succeeds(folder, {"convert", mine, small, "--dtype", "bfloat16"});
  CHECK(2 * fs::file_size(small + "/model.safetensors") < 1.1 * fs::file_size(mine + "/model.safetensors"));
  sample(small);
  succeeds(folder, command(folder, "train", {"--steps", "1", "--mixer", "laser", "--out", folder / "runs"}));
  const Result refused = run_command(folder, {"convert", folder / "runs/laser", folder / "other"});
  CHECK(refused.code == 1);
  contains(refused.printed, "mixer is laser, wanted standard");
}

TEST_CASE("check succeeds for the right gradients of a model") {
  const TextFolder folder;
  contains(succeeds(folder, {"check", "--mixer", "laser+qk_norm", "--width", "4", "--context", "3"}),
           ": right\n");
  const Result refused = run_command(folder, {"check", "--heads", "3"});
  CHECK(refused.code == 1);
  contains(refused.printed, "the width 8 is no multiple of the 3 heads");
}

TEST_CASE("tokenize trains, encodes and decodes") {
  const TextFolder folder;
  const std::string file = folder / "t.json";
  contains(succeeds(folder, {"tokenize", "train", "--data", folder / "text.txt", "--vocabulary", "262",
                             "--tokenizer", file}),
           "bpe, 262 tokens");
  const std::string ids = succeeds(folder, {"tokenize", "encode", "the Übung", "--tokenizer", file});
  Arguments decode = {"tokenize", "decode", "--tokenizer", file};
  std::istringstream words(ids);
  for (std::string id; words >> id;) decode.push_back(id);
  CHECK(succeeds(folder, decode) == "the Übung\n");
  const Result wrong = run_command(folder, {"tokenize", "decode", "x", "--tokenizer", file});
  CHECK(wrong.code == 1);
  contains(wrong.printed, "a token is x, wanted a whole number");
  contains(succeeds(folder, {"tokenize", "train", "--data", folder / "text.txt", "--kind", "word_piece",
                             "--vocabulary", "256", "--tokenizer", file}),
           "word_piece, ");
}

TEST_CASE("train takes any kind of tokens, and counts bits per byte of the text") {
  const TextFolder folder;
  for (const std::string kind : {"characters", "bpe", "words", "word_piece"}) {
    const std::string run = folder / kind;
    Arguments arguments = {"--steps", "2", "--tokenizer", kind, "--out", run};
    if (kind != "characters") arguments.insert(arguments.end(), {"--vocabulary", "260"});
    succeeds(folder, command(folder, "train", arguments));
    std::istringstream lines(bytes_of_file(run + "/standard/metrics.jsonl"));
    std::string last;
    for (std::string line; std::getline(lines, line);) last = line;
    const auto metrics = nlohmann::json::parse(last);
    // Word pieces do not give the text back.
    CHECK(metrics.contains("validation_bits per byte") == (kind != "word_piece"));
    if (kind == "characters") {
      const std::string text = bytes_of_file(folder / "text.txt");
      const auto characters = static_cast<double>(nn::count_characters(text));
      const size_t cut =
          static_cast<size_t>(nn::position_of_character(text, static_cast<int64_t>(0.9 * characters)));
      const double per_byte = static_cast<double>(nn::count_characters(text.substr(cut))) /
                              static_cast<double>(text.size() - cut);
      const double loss = metrics["validation_loss"], bits = metrics["validation_bits per byte"];
      CHECK(bits == doctest::Approx(loss / std::log(2) * per_byte).epsilon(1e-12));
    }
  }
  const Result empty = run_command(
      folder,
      command(folder, "train", {"--tokenizer", "word_piece", "--vocabulary", "260", "--prompt", " "}));
  CHECK(empty.code == 1);
  contains(empty.printed, "--prompt: the tokenizer word_piece makes no token of it");
  const Result unknown = run_command(folder, command(folder, "train", {"--sample", "0", "--prompt", "€"}));
  CHECK(unknown.code == 1);
  contains(unknown.printed, "the character \"€\" at position 0 does not occur");
  CHECK(unknown.printed.find("loss") == std::string::npos);  // before the training
}

TEST_CASE("vitrine translate reads the checkpoint that the example translate has saved") {
  const TextFolder folder;
  const std::string checkpoint = folder / "dates/mixer_standard/checkpoint.safetensors";
  Program trained(folder, {"--steps", "3", "--width", "16", "--out", folder / "dates"}, nullptr,
                  VITRINE_TRANSLATE);
  REQUIRE_MESSAGE(trained.exit_code() == 0, trained.printed());
  const std::string text = succeeds(folder, {"translate", checkpoint, "march 3, 2021", "1 may 99"});
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  contains(succeeds(folder, {"inspect", checkpoint}), "a encoder_decoder");
  contains(succeeds(folder, {"inspect", checkpoint, "--tape"}), "cross_entropy");
  const Result wrong = run_command(folder, {"sample", checkpoint});
  CHECK(wrong.code == 1);
  contains(wrong.printed, "is a encoder_decoder, wanted gpt");
}

TEST_CASE("a search that was killed goes on, and ends as if it had not been") {
  const TextFolder folder;
  const auto arguments = [&](const std::string& out) {
    return command(folder, "search",
                   {"--over", "lr=0.001..0.1", "--over", "mixer=standard,laser", "--trials", "5", "--rungs",
                    "2", "--eta", "2", "--steps", "24", "--save-every", "3", "--out", out});
  };
  const std::string whole = folder / "whole", again = folder / "again";
  const std::string printed = succeeds(folder, arguments(whole));
  contains(printed, "best: lr ");
  const auto files = [&](const std::string& name) {
    std::vector<std::string> all;
    for (int i = 1; i <= 5; ++i)
      all.push_back(bytes_of_file(fmt::format("{}/trial-00{}/search.json", name, i)));
    return all;
  };
  {
    Program killed(folder, arguments(again), nullptr, VITRINE_VITRINE_PROGRAM);
    while (killed.running() && !fs::exists(again + "/trial-002/checkpoint.safetensors"))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    killed.send(SIGKILL);
    killed.exit_code();
  }
  CHECK_FALSE(fs::exists(again + "/report.html"));
  succeeds(folder, arguments(again));
  CHECK(files(again) == files(whole));
  CHECK(bytes_of_file(again + "/report.html") == bytes_of_file(whole + "/report.html"));
  const auto json = nlohmann::json::parse(files(whole)[0]);
  CHECK(json["setting"]["rungs"] == "12 24");
  const std::string page = bytes_of_file(whole + "/report.html");
  for (const char* part : {"Validation loss by lr", "The best trial of each mixer", "training cost"})
    contains(page, part);
  // Three of five trials have made all steps.
  int ended = 0;
  for (const std::string& file : files(whole))
    ended += nlohmann::json::parse(file)["losses"].size() == 2 ? 1 : 0;
  CHECK(ended == 3);
  Arguments other = arguments(again);
  other.insert(other.end(), {"--dropout", "0.1"});
  const Result refused = run_command(folder, other);
  CHECK(refused.code == 1);
  contains(refused.printed, "is of a search with other settings");
}
