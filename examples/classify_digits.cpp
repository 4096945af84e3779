// Trains an encoder on digits of 8 x 8 pixels: each image is a sequence of its 8 rows.
//
//   classify_digits                                        drawn digits
//   classify_digits --data FOLDER --shifts --steps 8000    handwritten digits
//
// FOLDER holds optdigits.tra and optdigits.tes (UCI, Alpaydin and Kaynak 1998). A line of these
// files has 64 numbers from 0 to 16, row by row, and the digit. The report has the confusion
// matrix.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "examples/model_task.h"
#include "nn/data/image.h"
#include "nn/data/synthetic/digits.h"
#include "nn/init.h"
#include "nn/metrics/accuracy.h"
#include "nn/models/stack_settings.h"
#include "nn/transformer/stack.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/reduce.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::digits, synthetic::Part;

namespace {

constexpr int64_t kSide = 8, kClasses = 10;

/// Rows of pixels → width C; learned positions; an encoder; the mean over the rows; a logit for
/// each digit.
class RowClassifier : public Module {
 public:
  explicit RowClassifier(const StackOptions& stack)
      : rows(kSide, stack.block.mixer.width),
        positions(normal({kSide, stack.block.mixer.width}, 0.02)),
        encoder(stack),
        out(stack.block.mixer.width, kClasses) {}
  Tensor forward(const Tensor& images) const {
    return out.forward(mean(encoder.forward(rows.forward(images) + positions), {1}));
  }
  void fields(Fields& f) override {
    f("rows", rows), f("positions", positions), f("encoder", encoder), f("out", out);
  }

  Linear rows;
  Parameter positions;
  Encoder encoder;
  Linear out;
};

struct Settings {
  StackOptions model = {.block = {.mixer = {.width = 48, .context = kSide}, .dropout = 0.2}, .layers = 2};
  std::string data;
  bool shifts = false;
  examples::RunSettings run = {
      .training = {.steps = 1500}, .schedule = {.lr = 2e-3, .warmup = 50}, .batch = 64};

  void list(OptionList& o) {
    list_stack(model, o);
    o.group("Data");
    o("data", data, "folder of optdigits.tra and optdigits.tes; by default digits are drawn")
        .decides(Role::files);
    o("shifts", shifts, "train on copies of the images as well, which are shifted by a pixel");
    run.list(o);
  }
};

Split<LabelledImage> read(const Settings& s) {
  Split<LabelledImage> images;
  if (s.data.empty()) {
    images = {digits(Part::training, 20000, {.side = kSide}),
              digits(Part::held_out, 1000, {.side = kSide}, /*seed=*/1)};
  } else {
    images = {read_optdigits(s.data + "/optdigits.tra"), read_optdigits(s.data + "/optdigits.tes")};
  }
  if (s.shifts) images.training = with_shifts(images.training);
  return images;
}

void run(const Settings& s, const std::string& title) {
  const Split<LabelledImage> images = read(s);
  manual_seed(s.run.seed);
  RowClassifier model(s.model);
  const auto logits = [&](const Tensor& x) { return model.forward(x); };
  training::Task task = examples::make_task<LabelledImage>(model, images, image_batch, s.run);
  task.loss = [&](const auto& x) { return cross_entropy(logits(x[0]), x[1]); };
  task.metrics = {accuracy_metric(logits)};
  task.words = {.item = "image", .loss_unit = "nats per image", .classes = kClasses};
  report::RunRecord record = examples::train(task, s, "mixer " + s.model.block.mixer.name);
  const ModeScope evaluation(model, false);
  examples::add_confusion(
      examples::numbers(kClasses), task, [&](const auto& x) { return logits(x[0]); }, record);
  examples::say(stdout, "{} parameters; {:.1f} % of {} test digits are right\n", model.parameter_count(),
                100 * record.metrics[0].last(), images.held_out.size());
  examples::write_comparison(s.run, title, {record});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_model_program(
      "classify_digits", "Trains an encoder on digits, row by row.",
      "  classify_digits --mixer gru\n  classify_digits --data FOLDER --shifts --steps 8000", Settings(),
      argc, argv, run);
}
