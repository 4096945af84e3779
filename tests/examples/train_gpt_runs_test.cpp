// Runs of train_gpt at the same time and one after the other: comparisons, Ctrl-C and resumed runs.
#include <sys/stat.h>

#include <sstream>

#include "nn/text/read_text.h"
#include "tests/examples/train_gpt.h"

using namespace vitrine;
using namespace vitrine::test::train_gpt;
using nn::read_text, test::bytes_of_file;

namespace fs = std::filesystem;

namespace {

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

/// Takes what the program writes into a pipe, and sends it the signal after the first line. The
/// pipe holds a few dozen lines at most, so that the program cannot be far ahead, however slowly
/// this process runs.
void send_after_first_line(Program& program, const std::string& pipe, int signal) {
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  REQUIRE(fcntl(reader, F_SETPIPE_SZ, 4096) > 0);
  bool interrupted = false;
  char bytes[512];
  while (program.running()) {
    const ssize_t count = read(reader, bytes, sizeof(bytes));
    if (count <= 0) {
      usleep(1000);
    } else if (interrupted
                   ? signal == SIGTERM  // which may come more than once
                   : std::string_view(bytes, static_cast<size_t>(count)).find('\n') != std::string::npos) {
      program.send(signal);
      interrupted = true;
    }
  }
  close(reader);
  CHECK(interrupted);
}

}  // namespace

TEST_CASE("Ctrl-C saves a checkpoint and says how to go on, which ends as if nothing had happened") {
  const TextFolder folder;
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
  send_after_first_line(first, pipe, SIGINT);
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
  // The following ones are trained too: the report is of all four.
  CHECK(json_lines(folder / "Ada's runs/standard-seed8.jsonl").size() == 200);
  CHECK(read_text(folder / "Ada's runs/report.html")
            .find("softcap=20, seed 7 · softcap=20, seed 8 · standard, seed 7") != std::string::npos);
  CHECK(second.printed().find("standard: mean validation loss ") != std::string::npos);
  CHECK(second.printed().find(" of 2 seeds; difference to softcap=20: ") != std::string::npos);
  const auto rest = json_lines(pipe);
  REQUIRE(!rest.empty());
  CHECK(rest.size() < 200);
  for (size_t i = 0; i < rest.size(); ++i)
    for (const char* key : {"step", "loss", "lr"})
      CHECK(rest[i][key] == expected[expected.size() - rest.size() + i][key]);
  Program wrong(folder, run("through", {"--resume", folder / "through/softcap-20.safetensors"}));
  CHECK(wrong.exit_code() == 1);
  CHECK(wrong.printed().find("is of the mixer \"softcap=20\" and the seed \"7\"") != std::string::npos);
}

TEST_CASE("SIGTERM, even sent twice, saves a checkpoint from which the run goes on") {
  const TextFolder folder;
  const Arguments words = tiny(folder, {"--steps", "200", "--out", folder / "out"});
  fs::create_directories(folder / "out");
  const std::string pipe = folder / "out/standard.jsonl", saved = folder / "out/standard.safetensors";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  Program first(folder, words);
  send_after_first_line(first, pipe, SIGTERM);
  CHECK(first.exit_code() == 128 + SIGTERM);
  CHECK_MESSAGE(first.printed().find("go on with the same options and --resume ") != std::string::npos,
                first.printed());
  fs::remove(pipe);
  Arguments more = words;
  more.insert(more.end(), {"--resume", saved});
  Program second(folder, more);
  CHECK_MESSAGE(second.exit_code() == 0, second.printed());
}

TEST_CASE("a second run in a folder is an error that names the first, and the first is not disturbed") {
  const TextFolder folder;
  const std::string pipe = folder / "out/standard.jsonl";
  fs::create_directories(folder / "out");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  Program first(folder, tiny(folder, {"--steps", "200", "--out", folder / "out"}));
  const int reader = open(pipe.c_str(), O_RDONLY);  // waits until the first run has begun
  REQUIRE(reader >= 0);
  const TextFolder other;
  Program second(other, tiny(other, {"--steps", "2", "--attention", "laser", "--out", folder / "out"}));
  CHECK(second.exit_code() == 1);
  CHECK_MESSAGE(second.printed().find("is in use by another run, process ") != std::string::npos,
                second.printed());
  char bytes[512];
  while (first.running()) CHECK(read(reader, bytes, sizeof bytes) >= 0);
  close(reader);
  CHECK_MESSAGE(first.exit_code() == 0, first.printed());
  CHECK(!fs::exists(folder / "out/laser.safetensors"));
}

TEST_CASE("a comparison writes metrics, checkpoints and a report") {
  const TextFolder folder;
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
  for (const std::string& part :
       {std::string("--- sample ---\n"), "report: " + (folder / "out/report.html\n")})
    CHECK_MESSAGE(program.printed().find(part) != std::string::npos, part);
  const std::string report = read_text(folder / "out/report.html");
  for (const char* part :
       {"<!DOCTYPE html>", "Training with Vitrine: standard · laser", "id=\"run-1\"", "</html>"})
    CHECK_MESSAGE(report.find(part) != std::string::npos, part);
}

TEST_CASE("optimizers and sizes are compared with each other, and the best of each run is kept") {
  const TextFolder folder;
  const Arguments compare = {"--compare", "optimizer=adamw,lion", "--compare", "hidden=16,32", "--steps",
                             "4",         "--evaluate-every",     "1",         "--best-by",    "perplexity",
                             "--out",     folder / "out"};
  Program program(folder, tiny(folder, compare));
  REQUIRE_MESSAGE(program.exit_code() == 0, program.printed());
  for (const char* name : {"optimizer-adamw-hidden-16", "optimizer-lion-hidden-32"}) {
    const std::string file = folder / "out/" + name;
    CHECK(json_lines(file + ".jsonl")[3]["validation_perplexity"].get<double>() > 1);
    CHECK(fs::exists(file + ".best.safetensors"));
  }
  const std::string page = read_text(folder / "out/report.html");
  CHECK(page.find("optimizer adamw, hidden 16 · optimizer adamw, hidden 32 · optimizer lion, hidden 16") !=
        std::string::npos);
  // A run of the comparison is the run that the options have alone.
  Program alone(folder, tiny(folder, {"--optimizer", "lion", "--hidden", "32", "--steps", "4",
                                      "--evaluate-every", "1", "--out", folder / "alone"}));
  REQUIRE_MESSAGE(alone.exit_code() == 0, alone.printed());
  CHECK(json_lines(folder / "alone/standard.jsonl")[3]["loss"] ==
        json_lines(folder / "out/optimizer-lion-hidden-32.jsonl")[3]["loss"]);
  const std::string best = folder / "out/optimizer-lion-hidden-32";
  Program repeated(folder, {"--config", best + ".ini", "--out", folder / "repeated"});
  CHECK_MESSAGE(repeated.exit_code() == 0, repeated.printed());
  CHECK((bytes_of_file(best + ".safetensors") == bytes_of_file(folder / "repeated/standard.safetensors")));
  Arguments more = compare;
  more.insert(more.end(), {"--resume", folder / "out/optimizer-lion-hidden-16.safetensors"});
  Program again(folder, tiny(folder, more));
  CHECK_MESSAGE(again.exit_code() == 0, again.printed());
}

TEST_CASE("a comparison has options that its runs have, and not the program's defaults") {
  const TextFolder folder;
  Program program(
      folder, tiny(folder, {"--compare", "optimizer=sgd,rmsprop", "--compare", "lr=0.1,0.01", "--momentum",
                            "0.5", "--final-lr", "5e-3", "--steps", "1", "--out", folder / "out"}));
  CHECK_MESSAGE(program.exit_code() == 0, program.printed());
  const std::string config = read_text(folder / "out/optimizer-rmsprop-lr-0.01.ini");
  for (const char* line : {"\noptimizer = rmsprop\n", "\nlr = 0.01\n", "\nmomentum = 0.5\n"})
    CHECK_MESSAGE(config.find(line) != std::string::npos, config);
}

TEST_CASE("a comparison that goes on takes what is finished from its folder") {
  const TextFolder folder;
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

TEST_CASE("a checkpoint of other settings ends a comparison, and what is finished stays") {
  const TextFolder folder;
  const Arguments compare = {"--compare", "standard, laser", "--steps", "3", "--out", folder / "out"};
  Program whole(folder, tiny(folder, compare));
  REQUIRE(whole.exit_code() == 0);
  const std::string laser = bytes_of_file(folder / "out/laser.safetensors"),
                    report = bytes_of_file(folder / "out/report.html");
  Arguments more = compare;
  more.insert(more.end(), {"--batch", "3", "--resume", folder / "out/standard.safetensors"});
  Program other(folder, tiny(folder, more));
  CHECK(other.exit_code() == 1);
  CHECK_MESSAGE(other.printed().find("resume: the batch of ") != std::string::npos, other.printed());
  CHECK((bytes_of_file(folder / "out/laser.safetensors") == laser));
  CHECK((bytes_of_file(folder / "out/report.html") == report));
}

TEST_CASE("the configuration beside the results of each run repeats it bit for bit") {
  const TextFolder folder;
  std::ofstream(folder / "text.txt", std::ios::app) << "\"quoted\"\n";
  const auto path = [&](const std::string& name) { return folder / name; };
  std::ofstream(path("runs.ini"))
      << "compare = [laser, \"softcap=20\"]\nseeds = 3, 4\nsteps = 8\ndropout = 0.1\n"
         "norm = rms\noptimizer = sgd\nnesterov\nschedule = linear\n"
         "prompt = \"a \\\"quick\\\"\\n\"\n";
  Program both(folder,
               tiny(folder, {"--config", path("runs.ini"), "--out", fs::relative(path("both")).string()}));
  REQUIRE_MESSAGE(both.exit_code() == 0, both.printed());
  for (const std::string& name : {std::string("laser"), std::string("softcap-20")}) {
    const std::string config = path("both/" + name + "-seed4.ini");
    CHECK(read_text(config).find("out = \"" + path("both") + "\"\n") != std::string::npos);
    Program one(folder, {"--config", config, "--out", path(name)});
    CHECK_MESSAGE(one.exit_code() == 0, one.printed());
    CHECK((bytes_of_file(path("both/" + name + "-seed4.safetensors")) ==
           bytes_of_file(path(name + "/" + name + ".safetensors"))));
    CHECK(one.printed().find("--- sample ---\na \"quick\"\n") != std::string::npos);
  }
}

TEST_CASE("a run with a new schedule is repeated by its configuration and the checkpoint kept beside it") {
  const TextFolder folder;
  const std::string saved = folder / "out/standard.safetensors", config = folder / "out/standard.ini";
  Program first(folder, tiny(folder, {"--steps", "6", "--dropout", "0.1", "--out", folder / "out"}));
  REQUIRE(first.exit_code() == 0);
  const Arguments longer = {"--config", config, "--resume", saved, "--steps", "10"};
  Program refused(folder, longer);
  CHECK(refused.exit_code() == 1);
  CHECK_MESSAGE(
      refused.printed().find("--new-schedule changes the schedule after step 6") != std::string::npos,
      refused.printed());
  Arguments changed = longer;
  changed.push_back("--new-schedule");
  Program second(folder, changed);
  REQUIRE_MESSAGE(second.exit_code() == 0, second.printed());
  CHECK(read_text(folder / "out/report.html").find("after step 6: learning rate ") != std::string::npos);
  CHECK(fs::exists(folder / "out/standard.step6.safetensors"));
  Program repeated(folder, {"--config", config, "--out", folder / "again"});
  CHECK_MESSAGE(repeated.exit_code() == 0, repeated.printed());
  CHECK((bytes_of_file(folder / "again/standard.safetensors") == bytes_of_file(saved)));
}

TEST_CASE("a run that fails leaves the others of its comparison their report") {
  const TextFolder folder;
  Program program(folder, tiny(folder, {"--compare", "standard,scale=1e300,laser", "--steps", "4", "--out",
                                        folder / "out"}));
  CHECK(program.exit_code() == 1);
  CHECK_MESSAGE(program.printed().find("train_gpt: scale=1e300, seed 1: ") != std::string::npos,
                program.printed());
  CHECK(read_text(folder / "out/report.html").find("standard · laser") != std::string::npos);
}

TEST_CASE("a single run that fails leaves a report of how it came to that") {
  const TextFolder folder;
  Program program(folder,
                  tiny(folder, {"--attention", "scale=1e300", "--steps", "4", "--out", folder / "out"}));
  CHECK(program.exit_code() == 1);
  CHECK_MESSAGE(program.printed().find("train_gpt: scale=1e300, seed 1: ") != std::string::npos,
                program.printed());
  CHECK(read_text(folder / "out/report.html").find(", then: ") != std::string::npos);
}

TEST_CASE("the runs of a comparison are those that each attention has alone: same text, same seed") {
  const TextFolder folder;
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
