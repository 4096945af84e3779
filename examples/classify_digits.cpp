// Trains an encoder on digits of 8 x 8 pixels: each image is a sequence of its 8 rows.
//
//   classify_digits                                  drawn digits
//   classify_digits --data FOLDER --mixer gru        handwritten digits, and another mixer
//
// FOLDER holds optdigits.tra and optdigits.tes (UCI, Alpaydin and Kaynak 1998). A line of these
// files has 64 numbers from 0 to 16, row by row, and the digit. The report is
// reports/classify_digits/report.html.
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "examples/command_line.h"
#include "nn/data/image.h"
#include "nn/data/loader.h"
#include "nn/data/synthetic/digits.h"
#include "nn/init.h"
#include "nn/metrics/accuracy.h"
#include "nn/options.h"
#include "nn/report/report.h"
#include "nn/training/trainer.h"
#include "nn/transformer/stack.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "optim/schedule.h"

using namespace vitrine;
using namespace vitrine::nn;

namespace {

constexpr int64_t kSide = 8, kClasses = 10, kWidth = 48, kBatch = 64, kSteps = 1500;

/// Rows of pixels → width C; learned positions; an encoder; the mean over the rows; a logit for
/// each digit.
class Classifier : public Module {
 public:
  explicit Classifier(const std::string& mixer)
      : rows(kSide, kWidth),
        positions(normal({kSide, kWidth}, 0.02)),
        encoder({.block = {.mixer = {.width = kWidth, .context = kSide, .name = mixer}, .dropout = 0.2},
                 .layers = 2}),
        out(kWidth, kClasses) {}
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
  std::string data, mixer = "standard";

  void list(OptionList& o) {
    o.group("Training");
    o("data", data, "folder of optdigits.tra and optdigits.tes; by default digits are drawn");
    o("mixer", mixer, "attention or recurrence, such as laser or gru");
  }
};

void run(const std::string& folder, const std::string& mixer) {
  using synthetic::digits, synthetic::Part;
  const bool drawn = folder.empty();
  const Dataset<LabelledImage> train =
      drawn ? digits(Part::training, 20000, {.side = kSide}) : read_optdigits(folder + "/optdigits.tra");
  const Dataset<LabelledImage> test = drawn ? digits(Part::held_out, 1000, {.side = kSide}, /*seed=*/1)
                                            : read_optdigits(folder + "/optdigits.tes");
  Classifier model(mixer);
  Loader loader(train, shuffled_batches(train.size(), kBatch, /*seed=*/0), image_batch);
  const std::vector<Batch> whole_test =
      Loader(test, ordered_batches(test.size(), test.size()), image_batch).whole();
  const training::Task task{.model = model,
                            .batch = [&](int64_t index) { return loader.batch(index); },
                            .validation = [&] { return whole_test; },
                            .loss = [&](const auto& x) { return cross_entropy(model.forward(x[0]), x[1]); },
                            .metrics = {accuracy_metric([&](const Tensor& x) { return model.forward(x); })},
                            .words = {.item = "image", .loss_unit = "nats per image", .classes = kClasses}};
  training::Trainer trainer(task, optim::warmup_cosine(2e-3, 50, kSteps), {.steps = kSteps});
  trainer.run();
  fmt::print("{} parameters; {:.1f} % of {} test digits are right\n", model.parameter_count(),
             100 * trainer.record().metrics[0].last(), test.size());
  trainer.record().name = trainer.record().method = mixer;
  std::filesystem::create_directories("reports/classify_digits");
  report::write_report("reports/classify_digits/report.html", "Digits, row by row", {trainer.record()});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("classify_digits", [&] {
    Settings s;
    OptionList options = options_of(s);
    examples::CommandLine line("classify_digits", "Trains an encoder on digits of 8 x 8 pixels.",
                               "  classify_digits --mixer gru\n");
    if (const auto code = line.parse(options, argc, argv)) return *code;
    run(s.data, s.mixer);
    return 0;
  });
}
