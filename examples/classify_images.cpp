// Trains a vision Transformer on images of digits, with NAdam with decoupled weight decay.
//
//   classify_images                      drawn digits of 16 x 16 pixels
//   classify_images --data FOLDER        the files of MNIST in a folder, 28 x 28 pixels
//
// The report has the confusion matrix, and where the model looks: the weights of the class on the
// patches of an image. FOLDER holds train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and the
// same of t10k, as they are published, or without .gz.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "examples/model_task.h"
#include "nn/data/idx.h"
#include "nn/data/synthetic/digits.h"
#include "nn/metrics/accuracy.h"
#include "nn/models/stack_settings.h"
#include "nn/models/vision_transformer.h"
#include "nn/pretrained/pretrained.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/view.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::digits, synthetic::Part;

namespace {

struct Settings {
  StackOptions model = {.block = {.mixer = {.width = 64}, .dropout = 0.1}, .layers = 4};
  int64_t patch = 4;
  std::string data, save;
  examples::RunSettings run = {
      .training = {.steps = 800, .optimizer = "nadamw"}, .schedule = {.lr = 2e-3}, .batch = 64};

  void list(OptionList& o) {
    list_stack(model, o);
    o("patch", patch, "side of a patch in pixels").at_least(1);
    o.group("Data");
    o("data", data, "folder with the files of MNIST; by default digits are drawn").decides(Role::files);
    run.list(o);
    o("save", save, "folder for the trained model, as a published ViT").decides(Role::files);
  }
};

Split<LabelledImage> read(const std::string& folder) {
  if (folder.empty()) return {digits(Part::training, 20000), digits(Part::held_out, 2000, {}, /*seed=*/1)};
  const auto part = [&](const std::string& name) {
    const auto file = [&](const std::string& ending) {
      const std::string path = folder + "/" + name + ending;
      return std::filesystem::exists(path) ? path : path + ".gz";
    };
    return read_idx_images(file("-images-idx3-ubyte"), file("-labels-idx1-ubyte"));
  };
  return {part("train"), part("t10k")};
}

/// An image, and the weights of its patches for the class in the last block, the mean of the heads.
/// The first image also adds the maps of all heads to the record.
void show_image(const VisionTransformer& model, const LabelledImage& item, report::RunRecord& record) {
  std::vector<MixerTrace> traces;
  Tape tape;
  const Batch one = image_batch({&item, 1});
  const Tensor logits = model.head.forward(select(model.features(one.tensors[0], {.traces = &traces}), 1, 0));
  const Tensor weights = slice(select(mean(select(traces.back().weights, 0, 0), {0}), 0, 0), 0, 1);
  const int64_t columns = item.image.size(1) / model.options().patch;
  std::vector<std::string> places = {"class"};
  for (int64_t i = 0; i < weights.numel(); ++i)
    places.push_back(fmt::format("{},{}", i / columns + 1, i % columns + 1));
  if (record.maps.empty())
    training::inspect_attention(tape, cross_entropy(logits, one.tensors[1]), traces, places, places, record);
  record.tables.push_back(
      examples::picture(fmt::format("A {}, taken for a {:.0f}", item.label, argmax(logits, -1).item()),
                        item.image, "A held-out image."));
  record.tables.push_back(examples::picture(
      "Where the class looks", reshape(weights, {-1, columns}),
      "The attention of the class to the patches in the last block, the mean of its heads."));
}

void run(const Settings& s, const std::string& title) {
  const Split<LabelledImage> images = read(s.data);
  const LabelledImage first = images.held_out[0];
  manual_seed(s.run.seed);
  VisionTransformer model(
      {.height = first.image.size(0), .width = first.image.size(1), .patch = s.patch, .stack = s.model});
  if (!s.save.empty()) check_can_save_pretrained(model);
  const auto logits = [&](const Tensor& x) { return model.forward(x); };
  training::Task task = examples::make_task<LabelledImage>(model, images, image_batch, s.run);
  task.loss = [&](const auto& x) { return cross_entropy(logits(x[0]), x[1]); };
  task.metrics = {accuracy_metric(logits)};
  task.words = {.item = "image", .loss_unit = "nats per image", .classes = 10};
  report::RunRecord record = examples::train(task, s, "mixer " + s.model.block.mixer.name);
  const ModeScope evaluation(model, false);
  examples::add_confusion(
      examples::numbers(10), task, [&](const auto& x) { return logits(x[0]); }, record);
  for (int64_t i = 0; i < 3; ++i) show_image(model, images.held_out[i], record);
  examples::say(stdout, "{} parameters; {:.2f} % of {} held-out images are right\n", model.parameter_count(),
                100 * record.metrics[0].last(), images.held_out.size());
  examples::write_comparison(s.run, title, {record});
  if (!s.save.empty() && !training::interrupted()) save_pretrained(model, s.save);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_model_program("classify_images", "Trains a vision Transformer on images of digits.",
                                     "  classify_images\n  classify_images --data FOLDER --steps 5000",
                                     Settings(), argc, argv, run);
}
