#include "core/dtype.h"
#include "examples/vitrine/command.h"
#include "nn/pretrained/pretrained.h"
#include "nn/training/checkpoint.h"

namespace vitrine::examples {

using namespace nn;

namespace {

struct ConvertSettings {
  std::string dtype = "float32";
  int64_t shard = 5'000'000'000;

  void list(OptionList& o) {
    o.group("Files");
    o("dtype", dtype, "dtype of the weights in the folder").one_of({"float32", "float16", "bfloat16"});
    o("shard", shard, "a model of more bytes is saved in several files").at_least(1);
  }
};

int run(ConvertSettings& s, const Call& call) {
  call.options.check_given();
  training::TextModel loaded = training::load_text_model(checkpoint_in(call.words[0]));
  save_pretrained(loaded.model, call.words[1],
                  {.tokenizer = loaded.tokenizer.get(), .dtype = dtype_of(s.dtype), .shard_bytes = s.shard});
  say(stdout, "{}: {} parameters as {}\n", call.words[1], loaded.model.parameter_count(), s.dtype);
  return 0;
}

}  // namespace

Command convert_command() {
  return make_command<ConvertSettings>(
      "convert", "Saves a language model as the folder of a pretrained one, which other programs read.",
      "  vitrine convert runs/standard mine\n"
      "  vitrine convert gpt2 smaller --dtype bfloat16\n",
      {"from and to",
       "a run folder, a checkpoint or the folder of a pretrained model; then the folder to write", 2, 2},
      run);
}

}  // namespace vitrine::examples
