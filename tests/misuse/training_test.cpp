// Misuse of training: model, optimizer and step are unchanged, and mistakes that would show late
// are reported at once.
#include <optional>

#include "core/creation.h"
#include "core/files/safetensors.h"
#include "nn/data/windows.h"
#include "nn/models/gpt.h"
#include "nn/text/characters.h"
#include "nn/training/tasks/language_modeling.h"
#include "nn/training/trainer.h"
#include "tests/folder.h"
#include "tests/misuse/misuse.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::nn::training;
using namespace vitrine::test;

namespace {

TrainingOptions quiet(int64_t steps) {
  TrainingOptions o;
  o.steps = steps;
  o.progress = false;
  return o;
}

/// A run that has trained two of three steps, and its checkpoint.
struct Run : Scene {
  Folder folder;
  Gpt model = [] {
    manual_seed(3);
    return Gpt({.vocabulary = 7, .context = 4, .width = 4, .layers = 1, .heads = 2});
  }();
  std::vector<int64_t> tokens;
  double lr = 1e-2;
  mutable std::optional<Trainer> trainer;
  CharacterVocabulary vocabulary{"abc"};
  std::string saved = folder / "saved.safetensors", other = folder / "other.safetensors";

  Run() {
    for (int64_t i = 0; i < 40; ++i) tokens.push_back(i % 7);
    trainer.emplace(
        task(), [this](int64_t) { return lr; }, quiet(3));
    trainer->run([this] { return trainer->step() == 2; });
    trainer->save(saved);
  }
  Task task() { return language_modeling(model, tokens, tokens, 2, 1); }
  /// All that a checkpoint holds: model, optimizer, step and generator.
  std::string state() const override {
    const std::string path = folder / "state";
    trainer->save(path);
    const Safetensors now = read_safetensors(path);
    std::string text = fmt::format("{}\n{}\n", now.metadata.at("step"), model.training());
    for (const auto& [name, x] : now.tensors) text += name + " " + show(x);
    return text + bytes_of_file(saved);
  }
  std::string outcome(const Tensor& y) override { return show(y) + state(); }
  /// The third step.
  Tensor go_on() {
    lr = 1e-2;
    trainer->run();
    return Tensor(trainer->validation_loss());
  }
  void make(const TrainingOptions& o) { Trainer(task(), optim::constant(1), o); }
  /// Writes another checkpoint, in which something is changed.
  void change(const std::function<void(Safetensors&)>& f) {
    Safetensors file = read_safetensors(saved);
    f(file);
    write_safetensors(other, file);
  }
};

std::vector<Misuse> options(Run& s) {
  const auto right = [&] { return s.go_on(); };
  const auto making = [&s](auto change) {
    return [&s, change] {
      TrainingOptions o = quiet(3);
      change(o);
      s.make(o);
    };
  };
  return {
      {"a batch of 0",
       [&] { language_modeling(s.model, s.tokens, s.tokens, 0, 1); },
       {"training: batch is 0, wanted at least 1"},
       right},
      {"a batch beyond all memory",
       [&] { language_modeling(s.model, s.tokens, s.tokens, 1'000'000'000'000, 1); },
       {"training: a batch of 1000000000000 windows of 4 tokens: this takes at least", "and the machine has"},
       right},
      {"a batch that overflows with the context",
       [&] { language_modeling(s.model, s.tokens, s.tokens, INT64_MAX, 1); },
       {"training: a batch of 9223372036854775807 windows of 4 tokens: this takes at least"},
       right},
      {"more micro-batches than memory",
       [&] {
         TrainingOptions o = quiet(3);
         o.accumulate = 1'000'000'000'000;
         Trainer(s.task(), optim::constant(1), o).run();
       },
       {"training: accumulate 1000000000000, the micro-batches of a step: this takes at least"},
       right},
      {"a model beyond all memory",
       [] { Gpt({.vocabulary = 7, .context = 4, .width = 4, .layers = 1'000'000'000'000, .heads = 2}); },
       {"Gpt: vocabulary 7, context 4, width 4, hidden 0 and layers 1000000000000: this takes at least"},
       right},
      {"a model whose sizes overflow",
       [] { Gpt({.vocabulary = 7, .context = 4, .width = int64_t{1} << 40, .layers = 1, .heads = 2}); },
       {"Gpt: vocabulary 7, context 4, width 1099511627776, hidden 0 and layers 1: this takes at least"},
       right},
      {"no micro-batches",
       making([](TrainingOptions& o) { o.accumulate = 0; }),
       {"training: accumulate is 0, wanted at least 1"},
       right},
      {"an evaluation every 0 steps",
       making([](TrainingOptions& o) { o.evaluate_every = 0; }),
       {"training: evaluate-every is 0, wanted at least 1"},
       right},
      {"a negative number of steps",
       making([](TrainingOptions& o) { o.steps = -1; }),
       {"training: steps is -1, wanted at least 1"},
       right},
      {"a negative clip",
       making([](TrainingOptions& o) { o.clip = -1; }),
       {"clip is -1, wanted at least 0"},
       right},
      {"an optimizer by a wrong name",
       making([](TrainingOptions& o) { o.optimizer = "adm"; }),
       {"there is no optimizer adm", "wanted sgd"},
       right},
      {"a beta beyond 1",
       making([](TrainingOptions& o) { o.beta2 = 2; }),
       {"training: beta2 is 2, wanted [0, 1)"},
       right},
      {"a checkpoint in a folder that is not there",
       making([](TrainingOptions& o) { o.checkpoint = "/none/x"; }),
       {"training: there is no folder for checkpoint /none/x"},
       right},
      {"metrics in a folder that is not there",
       making([](TrainingOptions& o) { o.metrics = "/none/x"; }),
       {"training: there is no folder for metrics /none/x"},
       right},
      {"a checkpoint in place of a folder",
       making([](TrainingOptions& o) { o.checkpoint = "/tmp"; }),
       {"training: /tmp is not a file"},
       right},
      {"no schedule",
       [&] { Trainer(s.task(), nullptr, quiet(1)); },
       {"training: there is no schedule"},
       right},
      {"a schedule that falls below 0",
       [&] { s.trainer->run(); },
       {"the learning rate is -1, wanted"},
       right,
       [&] { s.lr = -1; }},
      {"a loss that is not finite",
       [&] { s.trainer->run(); },
       {"training: the loss is nan at step 3"},
       [&] { return Tensor(1.0); },
       [&] { s.model.tokens.weight.master().data<float>()[0] = NAN; }},
  };
}

std::vector<Misuse> texts(Run& s) {
  const auto right = [&] { return s.go_on(); };
  return {
      {"an empty text", [] { CharacterVocabulary(""); }, {"CharacterVocabulary: the text is empty"}, right},
      {"a character that the text lacks",
       [&] { s.vocabulary.encode("aéb"); },
       {"encode: the character \"é\" at position 1 does not occur"},
       right},
      {"a token that the vocabulary lacks",
       [&] {
         s.vocabulary.decode({0, 3});
       },
       {"decode: ids has 3 at position 1, outside [0, 3)"},
       right},
      {"characters that are not distinct",
       [] {
         CharacterVocabulary(std::vector<std::string>{"a", "a"});
       },
       {"CharacterVocabulary: a character is given twice"},
       right},
      {"windows of no tokens",
       [] { WindowLoader({}, 1, 4, 0); },
       {"WindowLoader: 0 tokens do not hold one window of 4"},
       right},
      {"windows of no length",
       [&] { WindowLoader(s.tokens, 1, 0, 0); },
       {"WindowLoader: wanted a batch and a length above 0, got 1 and 0"},
       right},
      {"a text shorter than the context",
       [&] {
         language_modeling(s.model, s.tokens, {1, 2}, 2, 1);
       },
       {"training: the validation text has 2 tokens, wanted more than the context of 4"},
       right},
      {"a token that the model lacks",
       [&] {
         std::vector<int64_t> wrong = s.tokens;
         wrong[9] = 7;
         language_modeling(s.model, wrong, s.tokens, 2, 1);
       },
       {"training: the training text has the token 7 at position 9, outside [0, 7)"},
       right},
  };
}

std::vector<Misuse> checkpoints(Run& s) {
  const auto right = [&] {
    s.trainer->resume(s.saved);
    return s.go_on();
  };
  const auto resume = [&] { s.trainer->resume(s.other); };
  const auto changed = [&s](auto change) { return [&s, change] { s.change(change); }; };
  return {
      {"a checkpoint that is not there", resume, {"cannot open", "other.safetensors", "No such file"}, right},
      {"a checkpoint of something else",
       resume,
       {"resume:", "other.safetensors is no checkpoint of such a run"},
       right,
       changed([](Safetensors& file) { file.metadata.clear(); })},
      {"a checkpoint whose step is no number",
       resume,
       {"resume:", "its step is \"7x\", wanted a whole number"},
       right,
       changed([](Safetensors& file) { file.metadata["step"] = "7x"; })},
      {"a checkpoint of a negative step",
       resume,
       {"its step is \"-3\""},
       right,
       changed([](Safetensors& file) { file.metadata["step"] = "-3"; })},
      {"a checkpoint whose step is beyond counting",
       resume,
       {"its step is \"99999999999999999999\""},
       right,
       changed([](Safetensors& file) { file.metadata["step"] = "99999999999999999999"; })},
      {"a checkpoint whose step is larger than half of what an int64 counts",
       resume,
       {"other.safetensors is at step 4611686018427387904, and this run has 3 steps"},
       right,
       changed([](Safetensors& file) { file.metadata["step"] = "4611686018427387904"; })},
      {"a checkpoint of a longer run",
       resume,
       {"other.safetensors is at step 4, and this run has 3 steps"},
       right,
       changed([](Safetensors& file) { file.metadata["step"] = "4"; })},
      {"a checkpoint whose loss is not finite",
       resume,
       {"other.safetensors is broken: its loss is \"nan\", wanted a finite number"},
       right,
       changed([](Safetensors& file) { file.metadata["loss"] = "nan"; })},
      {"a checkpoint whose random state is negative",
       resume,
       {"its random is \"3 -1\", wanted a seed and an offset"},
       right,
       changed([](Safetensors& file) { file.metadata["random"] = "3 -1"; })},
      {"a checkpoint whose random state has a third number",
       resume,
       {"its random is \"3 4 5\""},
       right,
       changed([](Safetensors& file) { file.metadata["random"] = "3 4 5"; })},
      {"a checkpoint of float32 with a loss scale",
       resume,
       {"its loss_scale is \"65536 0\", wanted 1 0, as only float16 scales its losses"},
       right,
       changed([](Safetensors& file) { file.metadata["loss_scale"] = "65536 0"; })},
      {"a checkpoint of float32 with steps of a loss scale",
       resume,
       {"its loss_scale is \"1 7\""},
       right,
       changed([](Safetensors& file) { file.metadata["loss_scale"] = "1 7"; })},
      {"a checkpoint whose loss scale is infinite",
       resume,
       {"its loss_scale is \"inf 0\""},
       right,
       changed([](Safetensors& file) { file.metadata["loss_scale"] = "inf 0"; })},
      {"a checkpoint whose optimizer has made more steps than the run",
       resume,
       {"other.safetensors is broken: optimizer/step is 3, wanted 0 to 2"},
       right,
       changed([](Safetensors& file) { file.tensors["optimizer/step"] = tensor({3}, DType::int64); })},
      {"a checkpoint whose optimizer has made a negative number of steps",
       resume,
       {"load_state_dict: step is int64[1] on cpu, wanted one int64 of at least 0"},
       right,
       changed([](Safetensors& file) { file.tensors["optimizer/step"] = tensor({-1}, DType::int64); })},
      {"a checkpoint with a NaN in the model",
       resume,
       {"other.safetensors is broken: model/positions has elements that are not finite"},
       right,
       changed([](Safetensors& file) { file.tensors["model/positions"].data<float>()[3] = NAN; })},
      {"a checkpoint with an infinity in the model",
       resume,
       {"other.safetensors is broken: model/positions has elements that are not finite"},
       right,
       changed([](Safetensors& file) { file.tensors["model/positions"].data<float>()[3] = INFINITY; })},
      {"a checkpoint with a NaN in the optimizer's state",
       resume,
       {"other.safetensors is broken: optimizer/positions/moment2 has elements that are not finite"},
       right,
       changed(
           [](Safetensors& file) { file.tensors["optimizer/positions/moment2"].data<float>()[3] = NAN; })},
      {"a checkpoint whose loss is no number",
       resume,
       {"its loss is \"low\", wanted a number"},
       right,
       changed([](Safetensors& file) { file.metadata["loss"] = "low"; })},
      {"a checkpoint without a random state",
       resume,
       {"its random is \"\", wanted a seed and an offset"},
       right,
       changed([](Safetensors& file) { file.metadata["random"] = ""; })},
      {"a checkpoint of a wider model",
       resume,
       {"load_state_dict: positions is [4, 8], wanted [4, 4]"},
       right,
       changed([](Safetensors& file) {
         file.tensors["model/positions"] = zeros({4, 8});
       })},
      {"a checkpoint of another optimizer",
       resume,
       {"Optimizer: load_state_dict: missing positions/moment1"},
       right,
       changed([](Safetensors& file) {
         file.tensors["model/positions"] = ones({4, 4});  // must not come in
         file.tensors.erase("optimizer/positions/moment1");
       })},
      {"a checkpoint cut in half",
       resume,
       {"read_safetensors", "the data has"},
       right,
       [&] {
         const std::string bytes = bytes_of_file(s.saved);
         write_bytes(s.other, bytes.substr(0, bytes.size() - 8));
       }},
      {"a checkpoint on a full disk",
       [&] { in_poor_child([&] { s.trainer->save(s.saved); }, 1024); },
       {"write_safetensors: cannot write", "saved.safetensors", "File too large"},
       right},
  };
}

}  // namespace

TEST_CASE("misuse of training options") { check_all<Run>(options); }
TEST_CASE("misuse of texts and tokens") { check_all<Run>(texts); }
TEST_CASE("a checkpoint that does not fit changes nothing") { check_all<Run>(checkpoints); }
