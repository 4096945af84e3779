// The program that README shows, run as a user runs it: as a process, with flags, files and Ctrl-C.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "core/safetensors.h"
#include "nn/training/text_data.h"
#include "tests/core/fuzz.h"
#include "tests/nn/mechanisms.h"

using namespace vitrine;
using nn::training::read_text;
using test::bytes_of_file;

namespace fs = std::filesystem;

namespace {

using Arguments = std::vector<std::string>;

/// A folder for one test case, with a text to train on.
struct Folder {
  Folder() : path(fs::temp_directory_path() / fmt::format("vitrine_train_gpt_{}", getpid())) {
    fs::create_directories(path);
    std::ofstream text(path / "text.txt");
    for (int i = 0; i < 40; ++i) text << "the quick brown fox jumps over " << i % 7 << " lazy dogs\n";
  }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }

  fs::path path;
};

/// train_gpt as a child process. What it prints on both streams goes to a file.
class Program {
 public:
  Program(const Folder& folder, Arguments arguments) : log_(folder / "log") {
    arguments.insert(arguments.begin(), VITRINE_TRAIN_GPT);
    std::vector<char*> pointers;
    for (std::string& a : arguments) pointers.push_back(a.data());
    pointers.push_back(nullptr);
    process_ = fork();
    if (process_ != 0) return;
    const int log = open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    alarm(300);  // one that hangs is ended, and its exit code is wrong
    execv(VITRINE_TRAIN_GPT, pointers.data());
    _exit(126);
  }

  bool running() {
    if (!ended_) ended_ = waitpid(process_, &status_, WNOHANG) == process_;
    return !ended_;
  }
  void interrupt() const { kill(process_, SIGINT); }
  int exit_code() {
    if (!ended_) ended_ = waitpid(process_, &status_, 0) == process_;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }
  std::string printed() const { return bytes_of_file(log_); }

 private:
  std::string log_;
  pid_t process_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

/// Flags of a model so small that a step takes a millisecond, with `more` behind them.
Arguments tiny(const Folder& folder, const Arguments& more) {
  Arguments all = {"--data", folder / "text.txt", "--layers", "1",        "--width", "16",        "--context",
                   "16",     "--batch",           "2",        "--sample", "9",       "--threads", "2"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<nlohmann::json> json_lines(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

/// The words of a command line, as a shell reads them.
Arguments shell_words(const std::string& line) {
  std::FILE* shell = popen(("printf '%s\\n' " + line).c_str(), "r");
  REQUIRE(shell != nullptr);
  std::string printed;
  char bytes[512];
  while (std::fgets(bytes, sizeof bytes, shell) != nullptr) printed += bytes;
  CHECK(pclose(shell) == 0);
  Arguments words;
  std::istringstream in(printed);
  for (std::string word; std::getline(in, word);) words.push_back(word);
  return words;
}

/// Takes what the program writes into a pipe, and interrupts it after the first line. The pipe holds a few dozen lines at most,
/// so that the program cannot be far ahead, however slowly this process runs.
void interrupt_after_first_line(Program& program, const std::string& pipe) {
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  REQUIRE(fcntl(reader, F_SETPIPE_SZ, 4096) > 0);
  bool interrupted = false;
  char bytes[512];
  while (program.running()) {
    const ssize_t count = read(reader, bytes, sizeof(bytes));
    if (count <= 0) {
      usleep(1000);
    } else if (!interrupted &&
               std::string_view(bytes, static_cast<size_t>(count)).find('\n') != std::string::npos) {
      program.interrupt();
      interrupted = true;
    }
  }
  close(reader);
  CHECK(interrupted);
}

}  // namespace

TEST_CASE("--help names every flag and every part of attention") {
  const Folder folder;
  Program program(folder, {"--help"});
  CHECK(program.exit_code() == 0);
  const std::string help = program.printed();
  std::vector<std::string> words = {"--config",
                                    "--data",
                                    "--attention",
                                    "--compare",
                                    "--out",
                                    "--resume",
                                    "--steps",
                                    "--batch",
                                    "--accumulate",
                                    "--layers",
                                    "--heads",
                                    "--key-heads",
                                    "--width",
                                    "--context",
                                    "--dropout",
                                    "--positions",
                                    "--hidden",
                                    "--activation",
                                    "--norm",
                                    "--post-norm",
                                    "--no-bias",
                                    "--device",
                                    "--graph",
                                    "--momentum",
                                    "--nesterov",
                                    "--beta1",
                                    "--beta2",
                                    "--evaluate-every",
                                    "--save-every",
                                    "--checkpoint",
                                    "--checkpoint-blocks",
                                    "--optimizer",
                                    "--schedule",
                                    "--weight-decay",
                                    "--clip",
                                    "--lr",
                                    "--final-lr",
                                    "--warmup",
                                    "--dtype",
                                    "--seed",
                                    "--seeds",
                                    "--threads",
                                    "--prompt",
                                    "--sample"};
  for (const std::string& name : test::kMechanisms)  // a part alone, without its number
    if (name.find('+') == std::string::npos) words.push_back(name.substr(0, name.find('=')));
  for (const std::string& word : words)
    CHECK_MESSAGE(help.find(fmt::format("  {} ", word)) != std::string::npos, word);
}

TEST_CASE("without --data it reads the project's own source and documentation") {
  const Folder folder;
  Arguments words = tiny(folder, {"--steps", "1", "--out", folder / "out"});
  words.erase(words.begin(), words.begin() + 2);
  Program program(folder, words);
  CHECK(program.exit_code() == 0);
  const std::string printed = program.printed(), before = " parameters, ";
  INFO(printed);
  REQUIRE(printed.find(before) != std::string::npos);
  CHECK(std::stoll(printed.substr(printed.find(before) + before.size())) > 500'000);  // tokens
}

TEST_CASE("wrong flags and values are told before anything is trained") {
  const Folder folder;
  const std::string out = folder / "out";
  std::ofstream(folder / "empty.txt");
  std::ofstream(folder / "misspelt.ini") << "layrs = 2\n";
  const std::pair<Arguments, std::string> mistakes[] = {
      {{"--attention", "lazer"}, "there is no part lazer in lazer; did you mean laser?"},
      {{"--compare", "standard,rotray"}, "there is no part rotray in rotray; did you mean rotary?"},
      {{"--compare", "standard,laser,standard"}, "--compare names standard twice"},
      {{"--seeds", "1,2,1"}, "--seeds names 1 twice"},
      {{"--checkpoint", folder / "one", "--seeds", "1,2"}, "--checkpoint names the file of one run"},
      {{"--save-every=-1"}, "save_every is -1"},
      {{"--evaluate-every", "0"}, "evaluate_every is 0"},
      {{"--hidden=-1"}, "the hidden size is -1"},
      {{"--activation", "tanh"}, "there is no activation tanh: wanted relu, "},
      {{"--norm", "batch"}, "there is no norm batch: wanted layer or rms"},
      {{"--beta2", "1"}, "beta"},
      {{"--beta1", "1"}, "the betas are 1 and 0.99"},
      {{"--nesterov"}, "adamw has no Nesterov momentum"},
      {{"--final-lr", "0.1", "--schedule", "noam"}, "--final-lr: the schedule noam has none"},
      {{"--attention", "qk_norm+cosine"}, "cosine normalizes queries and keys itself"},
      {{"--steps", "-3"}, "--steps is -3"},
      {{"--steps", "many"}, "many is no whole number"},
      {{"--steps", "99999999999999999999"}, "99999999999999999999 is no whole number from"},
      {{"--seed=-1"}, "-1 is no whole number from 0 to 18446744073709551615"},
      {{"--seeds", "1,-2"}, "-2 is no whole number from 0"},
      {{"--seeds", "1,2", "--seed", "3"}, "--seed"},
      {{"--compare", "standard,laser", "--attention", "laser"}, "--attention"},
      {{"--warmup=-5"}, "--warmup is -5, wanted at least 0"},
      {{"--final-lr", "0.5"}, "--final-lr is 0.5, above the --lr of 0.001"},
      {{"--checkpoint", folder.path.string()}, "is not a file"},
      {{"--heads", "3"}, "the width 16 is no multiple of the 3 heads"},
      {{"--key-heads", "3"}, "4 query heads cannot share 3 key heads"},
      {{"--accumulate", "0"}, "accumulate is 0, wanted at least 1"},
      {{"--sample=-1"}, "--sample is -1"},
      {{"--clip=-1"}, "clip is -1, wanted at least 0"},
      {{"--lr=-1"}, "cosine: wanted learning rates of at least 0, got -1"},
      {{"--final-lr=nan"}, "and nan"},
      {{"--dropout", "1"}, "the probability is 1, wanted [0, 1)"},
      {{"--dtype", "int64"}, "int64 not in {float32,float64,bfloat16,float16}"},
      {{"--optimizer", "adamx"}, "there is no optimizer adamx: wanted sgd, "},
      {{"--schedule", "cosinus"}, "there is no schedule cosinus: wanted constant, "},
      {{"--positions", "where"}, "there are no positions where"},
      {{"--threads=-1"}, "wanted 1 to 1024 threads, got -1"},
      {{"--prompt", "Q"}, "the character \"Q\" at position 0 does not occur"},
      {{"--resume", folder / "none"}, "none: No such file"},
      {{"--resume", folder / "text.txt"}, "text.txt is broken"},
      {{"--resume", folder / "text.txt", "--seeds", "1,2"}, "text.txt is broken"},
      {{"--data", folder / "none.txt"}, "none.txt: No such file"},
      {{"--data", folder / "empty.txt"}, "empty.txt is empty"},
      {{"--data", folder.path.string()}, "is empty or a folder"},
      {{"--context", "5000"}, "tokens, wanted more than the context of 5000"},
      {{"--out", folder / "text.txt/sub"}, "Not a directory"},
      {{"--config", folder / "none.ini"}, "none.ini was not readable"},
      {{"--config", folder / "misspelt.ini"}, "layrs"},
      {{"--layrs", "2"}, "--layrs"},
      {{"surplus"}, "surplus"},
  };
  for (const auto& mistake : mistakes) {
    Arguments all = tiny(folder, {"--steps", "2", "--out", out});
    all.insert(all.end(), mistake.first.begin(), mistake.first.end());
    Program program(folder, all);
    CAPTURE(mistake.second);
    CHECK(program.exit_code() > 0);
    CHECK(program.exit_code() < 126);
    CHECK_MESSAGE(program.printed().find(mistake.second) != std::string::npos, program.printed());
    CHECK((!fs::exists(out) || fs::is_empty(out)));
    fs::remove_all(out);
  }
}

TEST_CASE("a config file gives flags, and those on the command line go first") {
  const Folder folder;
  std::ofstream(folder / "run.ini")
      << "# a comment\nsteps = 3\nattention = \"laser+qk_norm\"\nkey-heads=2\nlr = 0.01\n"
         "checkpoint-blocks = true\nseeds = 5,6\n";
  Program given(folder,
                tiny(folder, {"--steps", "3", "--attention", "laser+qk_norm", "--key-heads", "2", "--lr",
                              "0.02", "--checkpoint-blocks", "--seeds", "5,6", "--out", folder / "given"}));
  CHECK(given.exit_code() == 0);
  Program read(folder,
               tiny(folder, {"--config", folder / "run.ini", "--lr", "0.02", "--out", folder / "read"}));
  CHECK_MESSAGE(read.exit_code() == 0, read.printed());
  for (const char* file : {"laser+qk_norm-seed5.safetensors", "laser+qk_norm-seed6.safetensors"})
    CHECK((bytes_of_file(folder / "read" + "/" + file) == bytes_of_file(folder / "given" + "/" + file)));
  CHECK(json_lines(folder / "read/laser+qk_norm-seed5.jsonl").back()["step"] == 3);
}

TEST_CASE("Ctrl-C saves a checkpoint and says how to go on, which ends as if nothing had happened") {
  const Folder folder;
  std::ofstream(folder / "runs.ini") << "compare = [\"softcap=20\", \"standard\"]\nseeds = 7,8\n";
  const auto run = [&](const char* out, const Arguments& more) {
    Arguments all = tiny(folder, {"--steps", "200", "--dropout", "0.1", "--out", folder / out});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  Program through(folder, run("through", {"--attention", "softcap=20", "--seed", "7"}));
  REQUIRE(through.exit_code() == 0);
  const auto expected = json_lines(folder / "through/softcap-20.jsonl");
  REQUIRE(expected.size() == 200);

  Arguments config = {"--config", folder / "runs.ini"};
  fs::create_directories(folder / "Ada's runs");
  const std::string pipe = folder / "Ada's runs/softcap-20-seed7.jsonl";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  Program first(folder, run("Ada's runs", config));
  interrupt_after_first_line(first, pipe);
  CHECK(first.exit_code() == 130);
  fs::remove(pipe);
  const std::string printed = first.printed(), said = "go on with the same options and ";
  REQUIRE_MESSAGE(printed.find(said) != std::string::npos, printed);
  const size_t begin = printed.find(said) + said.size();
  for (const std::string& word : shell_words(printed.substr(begin, printed.find('\n', begin) - begin)))
    config.push_back(word);

  Program second(folder, run("Ada's runs", config));
  CHECK_MESSAGE(second.exit_code() == 0, second.printed());
  CHECK((bytes_of_file(folder / "Ada's runs/softcap-20-seed7.safetensors") ==
         bytes_of_file(folder / "through/softcap-20.safetensors")));
  // Those behind it are trained too: the report is of all four.
  CHECK(json_lines(folder / "Ada's runs/standard-seed8.jsonl").size() == 200);
  CHECK(read_text(folder / "Ada's runs/report.html")
            .find("softcap=20, seed 7 · softcap=20, seed 8 · standard, seed 7") != std::string::npos);
  CHECK(second.printed().find("standard: mean validation loss ") != std::string::npos);
  const auto rest = json_lines(pipe);
  REQUIRE(!rest.empty());
  CHECK(rest.size() < 200);
  for (size_t i = 0; i < rest.size(); ++i)
    for (const char* key : {"step", "loss", "lr"})
      CHECK(rest[i][key] == expected[expected.size() - rest.size() + i][key]);
  Program wrong(folder, run("through", {"--resume", folder / "through/softcap-20.safetensors"}));
  CHECK(wrong.exit_code() == 1);
  CHECK(wrong.printed().find("is of the attention \"softcap=20\" and the seed \"7\"") != std::string::npos);
}

TEST_CASE("every schedule trains a single step, and momentum and betas reach the optimizer") {
  const Folder folder;
  const auto weights = [&](Arguments more) {
    more.insert(more.end(), {"--out", folder / "out"});
    Program program(folder, tiny(folder, more));
    CHECK_MESSAGE(program.exit_code() == 0, program.printed());
    return read_safetensors(folder / "out/standard.safetensors").tensors.at("model/tokens.weight").values();
  };
  for (const char* schedule : {"constant", "cosine", "linear", "inverse_sqrt", "noam", "cosine_times_warmup"})
    weights({"--steps", "1", "--schedule", schedule});
  CHECK(read_text(folder / "out/report.html").find("0.001 to 0.001, cosine_times_warmup") !=
        std::string::npos);
  const Arguments adam = {"--steps", "4"}, sgd = {"--steps", "4", "--optimizer", "sgd"};
  const auto with = [](Arguments all, const Arguments& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  CHECK(weights(adam) != weights(with(adam, {"--beta1", "0.5"})));
  const auto plain = weights(sgd);
  CHECK(plain != weights(with(sgd, {"--momentum", "0.5"})));
  CHECK(plain != weights(with(sgd, {"--nesterov"})));
}

TEST_CASE("a comparison writes metrics, checkpoints and a report") {
  const Folder folder;
  Program program(folder,
                  tiny(folder, {"--compare", "standard,laser", "--steps", "4", "--out", folder / "out"}));
  REQUIRE_MESSAGE(program.exit_code() == 0, program.printed());
  for (const char* file : {"out/standard.jsonl", "out/laser.jsonl"}) {
    const auto lines = json_lines(folder / file);
    REQUIRE(lines.size() == 4);
    for (size_t i = 0; i < 4; ++i) {
      CHECK(lines[i]["step"] == i + 1);
      CHECK(lines[i]["loss"].get<double>() > 0);
    }
    CHECK(lines[3]["validation_loss"].is_number());
  }
  CHECK(fs::exists(folder / "out/laser.safetensors"));
  const std::string report = read_text(folder / "out/report.html");
  for (const char* part :
       {"<!DOCTYPE html>", "Training with Vitrine: standard · laser", "id=\"run-1\"", "</html>"})
    CHECK_MESSAGE(report.find(part) != std::string::npos, part);
}

TEST_CASE("a comparison that goes on takes what is finished from its folder") {
  const Folder folder;
  const Arguments compare = {"--compare",   "standard,softcap=20,laser", "--steps", "60", "--out",
                             folder / "out"};
  Program whole(folder, tiny(folder, compare));
  REQUIRE(whole.exit_code() == 0);
  const auto last_line = [&](const char* file) { return json_lines(folder / file).back(); };
  const auto first = last_line("out/standard.jsonl"), third = last_line("out/laser.jsonl");
  fs::remove(folder / "out/laser.safetensors");
  fs::remove(folder / "out/report.html");
  Arguments more = compare;
  more.insert(more.end(), {"--resume", folder / "out/softcap-20.safetensors"});
  Program rest(folder, tiny(folder, more));
  CHECK_MESSAGE(rest.exit_code() == 0, rest.printed());
  CHECK(read_text(folder / "out/report.html").find("standard · softcap=20 · laser") != std::string::npos);
  CHECK(last_line("out/standard.jsonl") == first);  // the time too: it has not been trained again
  CHECK(last_line("out/laser.jsonl")["loss"] == third["loss"]);
  CHECK(last_line("out/laser.jsonl")["step"] == 60);
}

TEST_CASE("a run that fails leaves the others of its comparison their report") {
  const Folder folder;
  Program program(folder, tiny(folder, {"--compare", "standard,scale=1e300,laser", "--steps", "4", "--out",
                                        folder / "out"}));
  CHECK(program.exit_code() == 1);
  CHECK_MESSAGE(program.printed().find("train_gpt: scale=1e300, seed 1: ") != std::string::npos,
                program.printed());
  CHECK(read_text(folder / "out/report.html").find("standard · laser") != std::string::npos);
}

TEST_CASE("the runs of a comparison are those that each attention has alone: same text, same seed") {
  const Folder folder;
  Program both(folder, tiny(folder, {"--compare", "standard,laser", "--steps", "4", "--dropout", "0.1",
                                     "--out", folder / "both"}));
  CHECK(both.exit_code() == 0);
  for (const std::string name : {"standard", "laser"}) {
    Program alone(folder, tiny(folder, {"--attention", name, "--steps", "4", "--dropout", "0.1", "--out",
                                        folder / "alone"}));
    CHECK(alone.exit_code() == 0);
    const std::string file = "/" + name + ".safetensors";
    CHECK((bytes_of_file(folder / "both" + file) == bytes_of_file(folder / "alone" + file)));
  }
}

TEST_CASE("flags of the block reach the model, and those of saving and evaluating the run") {
  const Folder folder;
  const auto trained = [&](const Arguments& more) {
    Arguments all = tiny(folder, {"--steps", "4", "--checkpoint", folder / "saved", "--save-every", "3",
                                  "--evaluate-every", "2", "--out", folder / "out"});
    all.insert(all.end(), more.begin(), more.end());
    Program program(folder, all);
    CHECK_MESSAGE(program.exit_code() == 0, program.printed());
    return read_safetensors(folder / "saved").tensors;
  };
  const auto plain = trained({});
  CHECK(plain.count("model/final_norm.bias") == 1);
  CHECK(plain.at("model/blocks.0.feed_forward.up.weight").shape() == Shape{64, 16});
  const auto lines = json_lines(folder / "out/standard.jsonl");
  REQUIRE(lines.size() == 4);
  for (size_t i = 0; i < 4; ++i) CHECK(lines[i].contains("validation_loss") == (i % 2 == 1));
  CHECK(!fs::exists(folder / "out/standard.safetensors"));

  const auto bare =
      trained({"--hidden", "24", "--activation", "swiglu", "--norm", "rms", "--post-norm", "--no-bias"});
  CHECK(bare.at("model/blocks.0.feed_forward.up.weight").shape() == Shape{48, 16});
  for (const auto& entry : bare) {
    const std::string& name = entry.first;
    CHECK_MESSAGE((name.find("bias") == name.npos && name.find("final_norm") == name.npos), name);
  }

  const auto slower = trained({"--beta2", "0.9"});
  const char* weight = "model/tokens.weight";
  CHECK(slower.at(weight).values() != plain.at(weight).values());
}
