// The examples of encoders. A few steps of training show that they run; the README has the commands
// of whole runs.
#include <filesystem>
#include <fstream>
#include <string>

#include "nn/pretrained/pretrained.h"
#include "tests/examples/printed.h"
#include "tests/folder.h"

using namespace vitrine::nn;
using vitrine::test::printed_by;

namespace {

/// What the program prints. Its page, in the folder, has these parts.
std::string run(const std::string& program, const vitrine::test::Folder& folder,
                std::initializer_list<const char*> parts) {
  const std::string out = " --out " + folder.path.string();
  const std::string printed = printed_by((program + out + " 2> /dev/null").c_str());
  const std::string page = vitrine::test::bytes_of_file(folder / "report.html");
  for (const char* part : parts) CHECK_MESSAGE(page.find(part) != std::string::npos, part);
  CHECK(std::system((program + out + " --steps 0 2> /dev/null").c_str()) != 0);
  CHECK(std::system((program + out + " --mixer nonsense 2> /dev/null").c_str()) != 0);
  vitrine::test::check_full_output(program + out + " --steps 1");
  return printed;
}

/// The number before a text.
double number_before(const std::string& printed, const std::string& text) {
  const size_t end = printed.find(text);
  REQUIRE_MESSAGE(end != std::string::npos, printed);
  return std::stod(printed.substr(printed.rfind(' ', end - 1)));
}

}  // namespace

TEST_CASE("sequences are reversed with any mixer, and counted") {
  const vitrine::test::Folder folder;
  const std::string printed =
      run(VITRINE_REVERSE_SEQUENCES " --mixer laser --steps 3", folder, {"map-thumbs", "without a mistake"});
  CHECK_MESSAGE(
      printed.find(" of 1000 held-out sequences are reversed without a mistake\n") != std::string::npos,
      printed);
}

TEST_CASE("the odd item of nearly every set is found within seconds") {
  const vitrine::test::Folder folder;
  const std::string printed = run(VITRINE_ODD_ONE_OUT " --steps 100", folder, {"map-thumbs", "(odd)"});
  CHECK(number_before(printed, " % of 1000 held-out sets is found\n") > 50);  // chance: 10
}

TEST_CASE("drawn digits are classified, and a folder without images is an error") {
  const vitrine::test::Folder folder;
  const std::string printed = run(VITRINE_CLASSIFY_IMAGES " --steps 40 --save '" + (folder / "vit") + "'",
                                  folder, {"Confusion matrix", "Where the class looks", "heat pixels"});
  CHECK(number_before(printed, " % of 2000 held-out images are right\n") > 20);  // chance: 10
  CHECK(load_pretrained<VisionTransformer>(folder / "vit").options().patch == 4);
  const std::string other = printed_by((VITRINE_CLASSIFY_IMAGES " --mixer laser --save '" + (folder / "no") +
                                        "' --out '" + (folder / "no_run") + "' 2>&1 || true")
                                           .c_str());
  CHECK_MESSAGE(other.find("the model is no vit: mixer is laser") != std::string::npos, other);
  CHECK(other.find("loss") == std::string::npos);  // before the training
  const std::string inspect =
      VITRINE_VITRINE_PROGRAM " inspect " + (folder / "mixer_standard/checkpoint.safetensors");
  CHECK(printed_by(inspect.c_str()).find("weights of a model\n") != std::string::npos);
  const std::string refused = printed_by(("(" + inspect + " --tape 2>&1 || true)").c_str());
  CHECK_MESSAGE(refused.find("a step can be shown of a gpt") != std::string::npos, refused);
  CHECK(std::system(VITRINE_CLASSIFY_IMAGES " --data /nowhere 2> /dev/null") != 0);
}

TEST_CASE("tones are heard by a Conformer, and the wrong digits are counted") {
  const vitrine::test::Folder folder;
  const std::string printed =
      run(VITRINE_RECOGNIZE_DIGITS " --steps 3", folder, {"<h3>Sound: ", "<h3>Heard: ", "heat pixels"});
  CHECK_MESSAGE(printed.find(" % of the digits in 300 held-out sounds are wrong\n") != std::string::npos,
                printed);
}

TEST_CASE("recorded digits are put together to strings, and other names are an error") {
  const vitrine::test::Folder folder;
  // 0.2 s of a tone, 16 bits, 8000 Hz
  std::string wav(
      "RIFF\xa4\x0c\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\x80\x0c\0\0", 44);
  for (int t = 0; t < 1600; ++t) wav += {static_cast<char>(t % 16 * 8), static_cast<char>(t % 16)};
  for (const char* name : {"7_ann_0.wav", "7_ann_5.wav", "3_ann_6.wav", "3_bob_4.wav"})
    vitrine::test::write_bytes(folder / name, wav);
  const std::string command =
      VITRINE_RECOGNIZE_DIGITS " --steps 1 --batch 2 --width 8 --out " + (folder / "run") + " --data ";
  const std::string printed = printed_by((command + folder.path.string() + " 2> /dev/null").c_str());
  CHECK_MESSAGE(printed.find(" % of the digits in 300 held-out sounds are wrong\n") != std::string::npos,
                printed);
  const std::string page = vitrine::test::bytes_of_file(folder / "run/report.html");
  CHECK(page.find("Sound: ") != std::string::npos);
  CHECK(std::system((command + "/nowhere 2> /dev/null").c_str()) != 0);
  vitrine::test::write_bytes(folder / "seven.wav", wav);
  CHECK(std::system((command + folder.path.string() + " 2> /dev/null").c_str()) != 0);
}

TEST_CASE("a BERT is pretrained and fine-tuned in each way, on the grammar and on files") {
  const vitrine::test::Folder folder;
  const std::string tiny =
      " --pretraining 2 --steps 2 --seeds 2 --width 8 --layers 1 --heads 2 --examples 40 --out '" +
      (folder / "run") + "' 2> /dev/null";
  const std::string printed = printed_by((VITRINE_FINE_TUNE + tiny).c_str());
  CHECK(printed.find(" % of the masked tokens are recovered") != std::string::npos);
  for (const char* word : {"scratch", "whole", "last", "lora", "prompt", "acceptability", "mean"})
    CHECK_MESSAGE(printed.find(word) != std::string::npos, printed);
  CHECK(std::filesystem::file_size(folder / "run/report.html") > 10000);
  for (const std::string name : {"pretraining", "acceptability_lora_1"})
    CHECK(std::filesystem::exists(folder / ("run/" + name + "/record.json")));
  // Runs that have ended are read again.
  const auto summary = [](const std::string& text) {
    return text.substr(text.find("held-out texts that are right"));
  };
  CHECK(summary(printed_by((VITRINE_FINE_TUNE " --resume" + tiny).c_str())) == summary(printed));
  CHECK(std::system((VITRINE_FINE_TUNE " --resume --batch 5" + tiny).c_str()) != 0);
  std::ofstream(folder / "empty");
  for (const char* name : {"good", "bad"}) {
    std::ofstream file(folder / name);
    for (int i = 0; i < 60; ++i) file << "a " << name << " film of number " << i << "\n";
  }
  const std::string files = (folder / "good") + "," + (folder / "bad");
  const std::string of_files = printed_by((VITRINE_FINE_TUNE " --data " + files + " --classes " + files +
                                           " --ways whole,scratch --mixer rotary --residual pre" + tiny)
                                              .c_str());
  CHECK_MESSAGE(of_files.find("whole") != std::string::npos, of_files);
  CHECK(of_files.find("entailment") == std::string::npos);
  CHECK(of_files.find("lora") == std::string::npos);
  CHECK(std::system((VITRINE_FINE_TUNE " --classes /nowhere" + tiny).c_str()) != 0);
  CHECK(std::system((VITRINE_FINE_TUNE " --data " + files + " --classes " + (folder / "good") + "," +
                     (folder / "empty") + tiny)
                        .c_str()) != 0);
  CHECK(std::system(VITRINE_FINE_TUNE " --rank 0 2> /dev/null") != 0);
  CHECK(std::system(VITRINE_FINE_TUNE " --ways half 2> /dev/null") != 0);
}

TEST_CASE("fine-tuned models are saved as BERTs, if they are BERTs") {
  const vitrine::test::Folder folder;
  const std::string tiny =
      VITRINE_FINE_TUNE
      " --pretraining 2 --steps 2 --seeds 1 --width 8 --layers 1 --heads 2 --examples 40 "
      "--checkpoint-blocks --out '" +
      (folder / "run") + "' --save '" + (folder / "bert") + "'";
  CHECK(std::system((tiny + " > /dev/null 2>&1").c_str()) == 0);
  CHECK(load_pretrained<TextEncoder>(folder / "bert/pretraining").options().classes == 0);
  CHECK(load_pretrained<TextEncoder>(folder / "bert/similarity_lora_0").options().classes == 6);
  CHECK(load_tokenizer(folder / "bert/similarity_whole_0/tokenizer.json")->find("[CLS]").has_value());
  CHECK_FALSE(std::filesystem::exists(folder / "bert/similarity_prompt_0"));
  const auto refused = [&](const std::string& more, const std::string& why) {
    const std::string printed = printed_by((tiny + more + " 2>&1 || true").c_str());
    CHECK_MESSAGE(printed.find(why) != std::string::npos, printed);
  };
  // A call that fails leaves what is there.
  const std::string saved = vitrine::test::bytes_of_file(folder / "bert/pretraining/model.safetensors");
  refused(" --resume --batch 5", "resume: the --batch of ");
  CHECK((vitrine::test::bytes_of_file(folder / "bert/pretraining/model.safetensors") == saved));
  refused(" --resume --dropout 0.5", "resume: the --dropout of ");
  refused(" --pooling mean", "--save: a BERT reads the classes from the first position");
  refused(" --residual pre", "the model is no bert: residual is pre");
}

TEST_CASE("vectors of sentences are trained for each kind of views and each temperature") {
  const vitrine::test::Folder folder;
  const std::string printed =
      printed_by((VITRINE_SENTENCE_VECTORS " --steps 2 --width 8 --layers 1 --batch 8 --out '" +
                  (folder / "run") + "' 2> /dev/null")
                     .c_str());
  for (const char* row :
       {"dropout, temperature 1 ", "pairs, temperature 1 ", "pairs, temperature 0.0333", "uniformity"})
    CHECK_MESSAGE(printed.find(row) != std::string::npos, printed);
  CHECK(std::filesystem::file_size(folder / "run/report.html") > 10000);
  CHECK(std::system(VITRINE_SENTENCE_VECTORS " --temperatures 0 2> /dev/null") != 0);
  CHECK(std::system(VITRINE_SENTENCE_VECTORS " --views none 2> /dev/null") != 0);
}
