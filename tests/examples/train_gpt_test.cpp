// The program that README shows: its flags and their effects.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/files/safetensors.h"
#include "core/version.h"
#include "examples/train_gpt_settings.h"
#include "nn/text/read_text.h"
#include "tests/data.h"
#include "tests/examples/train_gpt.h"
#include "tests/nn/mechanisms.h"

using namespace vitrine;
using namespace vitrine::test::train_gpt;
using nn::read_text, test::bytes_of_file;

namespace fs = std::filesystem;

TEST_CASE("--help names every flag and every part of attention") {
  const TextFolder folder;
  Program program(folder, {"--help"});
  CHECK(program.exit_code() == 0);
  const std::string help = program.printed();
  examples::Settings settings;
  std::vector<std::string> words = {"--config", "--version"};
  for (const nn::Option& option : nn::options_of(settings)) words.push_back("--" + option.name);
  for (const std::string& name : test::mechanisms())  // a part alone, without its number
    if (name.find('+') == std::string::npos) words.push_back(name.substr(0, name.find('=')));
  constexpr char kEnds[] = {' ', '=', ',', '\n'};
  for (const std::string& word : words) {
    const bool there = std::any_of(std::begin(kEnds), std::end(kEnds), [&](char end) {
      return help.find("  " + word + end) != std::string::npos;
    });
    CHECK_MESSAGE(there, word);
  }
  for (const char* allowed : {": layer, rms, scale, ada, power\n", ", in [0, 1)\n", " (at least 1)\n"})
    CHECK_MESSAGE(help.find(allowed) != std::string::npos, allowed);
  for (const char* part : {"\nModel:\n", "\nLearning rate:\n", "\nExamples:\n  train_gpt --compare"})
    CHECK_MESSAGE(help.find(part) != std::string::npos, part);
}

TEST_CASE("--version names the program and the library's version") {
  const TextFolder folder;
  Program program(folder, {"--version"});
  CHECK(program.exit_code() == 0);
  CHECK(program.printed() == fmt::format("train_gpt of Vitrine {}\n", version()));
}

TEST_CASE("the default text is the one whose hash is recorded") {
  const std::string text =
      read_text((test::source_directory() / "examples/data/vitrine_source.txt").string());
  // FNV-1a, because SHA-256, which the README of the text has, would take a library.
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3;
  CHECK(fmt::format("{:016x}", hash) == "642eec46ee215831");
}

TEST_CASE("without --data it reads the snapshot of the project's own source and documentation") {
  const TextFolder folder;
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
  const TextFolder folder;
  const std::string out = folder / "out";
  std::ofstream(folder / "empty.txt");
  std::ofstream(folder / "misspelt.ini") << "layrs = 2\n";
  const std::pair<Arguments, std::string> mistakes[] = {
      {{"--attention", "lazer"}, "there is no part lazer in lazer; did you mean laser?"},
      {{"--compare", "standard,rotray"}, "there is no part rotray in rotray; did you mean rotary?"},
      {{"--compare", "standard,laser,standard"}, "mixer names standard twice"},
      {{"--seeds", "1,2,1"}, "seed names 1 twice"},
      {{"--compare", "optimizer=adamw,lino"}, "there is no optimizer lino: wanted sgd, "},
      {{"--compare", "optimzer=adamw"}, "there is no option or part optimzer; did you mean optimizer?"},
      {{"--compare", "hidden=16,x"}, "--compare hidden is x, wanted a whole number"},
      {{"--compare", "context=16,5000"}, "--compare context=… is in place of --context, and both are given"},
      {{"--compare", "optimizer=sgd,lion", "--momentum", "0.5"}, "--momentum: the optimizer lion has none"},
      {{"--compare", "lr=0.1,0.01", "--final-lr", "0.05"}, "final-lr is 0.05, above the lr of 0.01"},
      {{"--compare", "width=16,32", "--width", "16"}, "--compare width=… is in place of --width"},
      {{"--compare", "seed=1,2", "--seeds", "1,2"}, "--compare seed=… is in place of --seeds"},
      {{"--compare", "out=a,b"}, "--out is the same for all runs"},
      {{"--best-by", "accuracy"}, "best-by is accuracy, wanted loss, perplexity or bits per byte"},
      {{"--checkpoint", folder / "one", "--seeds", "1,2"}, "--checkpoint names the file of one run"},
      {{"--save-every=-1"}, "--save-every is -1, wanted at least 0"},
      {{"--evaluate-every", "0"}, "--evaluate-every is 0, wanted at least 1"},
      {{"--hidden=-1"}, "--hidden is -1, wanted at least 0"},
      {{"--activation", "tanh"}, "--activation is tanh, wanted relu, gelu, "},
      {{"--norm", "batch"}, "--norm is batch, wanted layer, rms, scale, ada or power"},
      {{"--beta2", "1"}, "--beta2 is 1, wanted [0, 1)"},
      {{"--beta1", "1"}, "--beta1 is 1, wanted [0, 1)"},
      {{"--momentum", "0.5"}, "--momentum: the optimizer adamw has none"},
      {{"--beta1", "0.5", "--optimizer", "rmsprop"}, "--beta1: the optimizer rmsprop has none"},
      {{"--beta2", "0.5", "--optimizer", "sgd"}, "--beta2: the optimizer sgd has none"},
      {{"--moments", "float16"}, "--moments is float16, wanted float32 or bfloat16"},
      {{"--moments", "bfloat16", "--optimizer", "lamb"}, "--moments: the optimizer lamb has none"},
      {{"--nesterov"}, "--nesterov: the optimizer adamw has none"},
      {{"--final-lr", "0.1", "--schedule", "noam"}, "--final-lr: the schedule noam has none"},
      {{"--attention", "qk_norm+cosine"}, "both change the norm of queries and keys"},
      {{"--steps", "-3"}, "--steps is -3, wanted at least 1"},
      {{"--steps", "many"}, "--steps is many, wanted a whole number below 2^63, at least 1"},
      {{"--steps", "99999999999999999999"}, "--steps is 99999999999999999999, wanted a whole number"},
      {{"--seed=-1"}, "--seed is -1, wanted a whole number from 0 to 2^64 - 1"},
      {{"--seeds", "1,-2"}, "--seeds is 1,-2, wanted a whole number from 0"},
      {{"--seeds", "1,2", "--seed", "3"}, "--seeds is in place of --seed, and both are given"},
      {{"--compare", "standard,laser", "--attention", "laser"}, "--compare mixer=… is in place of --mixer"},
      {{"--warmup=-5"}, "--warmup is -5, wanted at least 0"},
      {{"--warmup", "5", "--schedule", "constant"}, "--warmup: the schedule constant has none"},
      {{"--device", "gpu"}, "the device is \"gpu\", wanted cpu, cuda, or the number of a GPU, as in cuda:1"},
      {{"--graph"}, "--graph: there are CUDA graphs with --device cuda alone"},
      {{"--final-lr", "0.5"}, "final-lr is 0.5, above the lr of 0.001"},
      {{"--checkpoint", folder.path.string()}, "is not a file"},
      {{"--heads", "3"}, "the width 16 is no multiple of the 3 heads"},
      {{"--key-heads", "3"}, "4 query heads cannot share 3 key heads"},
      {{"--accumulate", "0"}, "--accumulate is 0, wanted at least 1"},
      {{"--sample=-1"}, "--sample is -1, wanted at least 0"},
      {{"--tokenizer", "pieces"}, "--tokenizer is pieces, wanted characters, bpe, words or word_piece"},
      {{"--vocabulary", "500"}, "--vocabulary: the tokenizer characters has none"},
      {{"--tokenizer", "bpe", "--vocabulary", "255"}, "--vocabulary is 255, wanted at least 256"},
      {{"--compare", "tokenizer=bpe,words"}, "--tokenizer is the same for all runs"},
      {{"--clip=-1"}, "--clip is -1, wanted at least 0"},
      {{"--lr=-1"}, "--lr is -1, wanted at least 0"},
      {{"--final-lr=nan"}, "--final-lr is nan, wanted a finite number, at least 0"},
      {{"--dropout", "1"}, "--dropout is 1, wanted [0, 1)"},
      {{"--dtype", "int64"}, "--dtype is int64, wanted float32, float64, bfloat16 or float16"},
      {{"--optimizer", "adamx"}, "there is no optimizer adamx: wanted sgd, "},
      {{"--schedule", "cosinus"}, "there is no schedule cosinus: wanted constant, "},
      {{"--positions", "where"},
       "--positions is where, wanted automatic, learned, sinusoidal or none (rotary"},
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
      {{"--batch", "1000000000000"}, "a batch of 1000000000000 windows of 16 tokens: this takes at least"},
      {{"--accumulate", "1000000000000"},
       "accumulate 1000000000000, the micro-batches of a step: this takes"},
      {{"--layers", "1000000000000"}, "layers 1000000000000: this takes at least"},
      {{"--width", "1000000000000"}, "width 1000000000000, hidden 0 and layers 1: this takes at least"},
      {{"--hidden", "1000000000000"}, "hidden 1000000000000 and layers 1: this takes at least"},
      {{"--context", "1000000000000"}, "context 1000000000000, width 16"},
      {{"--sample", "1000000000000"}, "--sample 1000000000000: this takes at least"},
      {{"--sample", "9223372036854775807"}, "--sample 9223372036854775807: this takes at least"},
      {{"--config", folder / "none.ini"}, "cannot open the configuration file "},
      {{"--config", folder.path.string()}, "is a folder, wanted a configuration file"},
      {{"--config", folder / "misspelt.ini"},
       "misspelt.ini, line 1: there is no option layrs; did you mean layers?"},
      {{"--layrs", "2"}, "there is no option --layrs; did you mean --layers?"},
      {{"--grap=true"}, "there is no option --grap; did you mean --graph?"},
      {{"--graph=maybe"}, "--graph is maybe, wanted true or false"},
      {{"--new-schedule"}, "--new-schedule: there is no --resume"},
      {{"surplus"}, "there is no option surplus"},
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
  const TextFolder folder;
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

TEST_CASE("a line of a config file that is no option and its value is an error that names the line") {
  const TextFolder folder;
  const std::pair<const char*, const char*> mistakes[] = {
      {"lr = []", "line 2: wanted a value without brackets (or in quotes), before \"[]\""},
      {"lr = [0.5", "a value without brackets (or in quotes), before \"[0.5\""},
      {"lr = 0.5]", "a value without brackets"},
      {"lr = [0.1, 0.2]", "a value without brackets"},
      {"lr = 0.1, 0.2", "line 2: lr is 0.1, 0.2, wanted a finite number"},
      {"lr = 0.1 0.2", "line 2: lr is 0.1 0.2, wanted a finite number"},
      {"lr =", "line 2: wanted a value"},
      {"lr = # none", "line 2: wanted a value"},
      {"lr = \"0.5", "the end of a text in quotes"},
      {"lr = \"0.5\" 3", "the end of the line, before \"3\""},
      {"lr 0.5", "the end of the line, before \"0.5\""},
      {"[section]", "the name of an option (there are no sections)"},
      {"= 0.5", "the name of an option"},
      {"steps = 3", "line 2: wanted steps once"},
      {"seeds = [", "line 2: wanted a value"},
      {"seeds = []", "line 2: wanted a value"},
      {"seeds = [1, 2", "the ']' of a list"},
      {"seeds = 1, 2]", "the end of the line"},
      {"seeds = [1,, 2]", "line 2: wanted a value"},
      {"config = \"other.ini\"", "line 2: there is no option config"},
  };
  for (const auto& mistake : mistakes) {
    std::ofstream(folder / "run.ini") << "steps = 2\n" << mistake.first << "\n";
    Program program(folder, tiny(folder, {"--config", folder / "run.ini", "--out", folder / "out"}));
    CAPTURE(mistake.first);
    CHECK(program.exit_code() > 0);
    CHECK(program.exit_code() < 126);
    const std::string printed = program.printed();
    CHECK_MESSAGE(printed.find(mistake.second) != std::string::npos, printed);
    CHECK(!fs::exists(folder / "out"));
  }
}

TEST_CASE("a config file has comments, quotes, flags and lists") {
  const TextFolder folder;
  std::ofstream(folder / "text.txt", std::ios::app) << "a # in the text; and [these], too\n";
  std::ofstream(folder / "run.ini") << "; a comment\r\n\n  steps=2 # two\r\nprompt = \"[a # in\"\nno-bias\n"
                                       "seeds = [ 5, '6' ]  # both\nresidual = pre\n";
  Program program(folder, tiny(folder, {"--config", folder / "run.ini", "--out", folder / "out"}));
  CHECK_MESSAGE(program.exit_code() == 0, program.printed());
  CHECK(program.printed().find("--- sample ---\n[a # in") != std::string::npos);
  const auto saved = read_safetensors(folder / "out/standard-seed6.safetensors");
  CHECK(saved.metadata.at("no-bias") == "true");
  CHECK(saved.metadata.at("residual") == "pre");
}

TEST_CASE("standard output that is full is an error at the end, and what was trained is saved") {
  const TextFolder folder;
  for (const Arguments& more : {Arguments{"--steps", "2", "--sample", "5000"}, Arguments{"--help"}}) {
    Arguments all = tiny(folder, {"--out", folder / "out"});
    all.insert(all.end(), more.begin(), more.end());
    Program program(folder, all, "/dev/full");
    CHECK(program.exit_code() == 1);
    CHECK_MESSAGE(program.printed().find("cannot write to standard output") != std::string::npos,
                  program.printed());
  }
  CHECK(fs::exists(folder / "out/standard.safetensors"));
  CHECK(fs::exists(folder / "out/report.html"));
}

TEST_CASE("every schedule trains a single step, and momentum and betas reach the optimizer") {
  const TextFolder folder;
  const auto weights = [&](Arguments more) {
    more.insert(more.end(), {"--out", folder / "out"});
    Program program(folder, tiny(folder, more));
    CHECK_MESSAGE(program.exit_code() == 0, program.printed());
    return read_safetensors(folder / "out/standard.safetensors").tensors.at("model/tokens.weight").values();
  };
  for (const char* schedule : {"constant", "cosine", "linear", "inverse_sqrt", "noam", "cosine_times_warmup"})
    weights({"--steps", "1", "--schedule", schedule});
  CHECK(read_text(folder / "out/report.html").find("cosine_times_warmup</td>") != std::string::npos);
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

TEST_CASE("flags of the block reach the model, and those of saving and evaluating the run") {
  const TextFolder folder;
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

  const auto bare = trained(
      {"--hidden", "24", "--activation", "swiglu", "--norm", "rms", "--residual", "post", "--no-bias"});
  CHECK(bare.at("model/blocks.0.feed_forward.up.weight").shape() == Shape{48, 16});
  for (const auto& entry : bare) {
    const std::string& name = entry.first;
    CHECK_MESSAGE((name.find("bias") == name.npos && name.find("final_norm") == name.npos), name);
  }

  const auto routed =
      trained({"--experts", "2", "--residual", "admin", "--norm", "power", "--drop-path", "0.2"});
  CHECK(routed.at("model/blocks.0.experts.up").shape() == Shape{2, 64, 16});
  CHECK(routed.count("model/blocks.0.attention_norm.psi2") == 1);
  const std::vector<double> omega = routed.at("model/blocks.0.feed_forward_shortcut.omega").values();
  CHECK(*std::min_element(omega.begin(), omega.end()) > 0.9);

  const auto slower = trained({"--beta2", "0.9"});
  const char* weight = "model/tokens.weight";
  CHECK(slower.at(weight).values() != plain.at(weight).values());
}

#if VITRINE_CUDA_EMULATED
TEST_CASE("on a GPU, in graphs and in bfloat16, it trains the same model") {
  const TextFolder folder;
  const auto losses = [&](const Arguments& more) {
    Arguments all = tiny(folder, {"--steps", "5", "--out", folder / "out"});
    all.insert(all.end(), more.begin(), more.end());
    Program program(folder, all);
    CHECK_MESSAGE(program.exit_code() == 0, program.printed());
    std::vector<double> y;
    for (const auto& line : json_lines(folder / "out/standard.jsonl"))
      if (line.contains("loss")) y.push_back(line.at("loss"));
    return y;
  };
  const auto on_cpu = losses({}), on_gpu = losses({"--device", "cuda", "--graph"}),
             low = losses({"--device", "cuda:1", "--dtype", "bfloat16"});
  REQUIRE(on_cpu.size() == 5);
  for (size_t i = 0; i < 5; ++i) {
    CHECK(on_gpu[i] == doctest::Approx(on_cpu[i]).epsilon(1e-4));
    CHECK(low[i] == doctest::Approx(on_cpu[i]).epsilon(0.02));
  }
}
#endif
