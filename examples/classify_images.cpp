// Trains a vision Transformer on images of digits, with NAdam with decoupled weight decay.
//
//   classify_images [STEPS]              drawn digits of 16 x 16 pixels
//   classify_images STEPS FOLDER         the files of MNIST in a folder, 28 x 28 pixels
//
// FOLDER holds train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and the same of t10k, as they
// are published, or without .gz.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "nn/data/idx.h"
#include "nn/data/loader.h"
#include "nn/data/synthetic/digits.h"
#include "nn/metrics/accuracy.h"
#include "nn/models/vision_transformer.h"
#include "nn/training/trainer.h"
#include "ops/loss.h"
#include "optim/schedule.h"

using namespace vitrine;
using namespace vitrine::nn;
using synthetic::Part;

namespace {

constexpr int64_t kBatch = 64;

Dataset<LabelledImage> read(const std::string& folder, const std::string& part) {
  const auto file = [&](const std::string& name) {
    const std::string path = folder + "/" + part + name;
    return std::filesystem::exists(path) ? path : path + ".gz";
  };
  return read_idx_images(file("-images-idx3-ubyte"), file("-labels-idx1-ubyte"));
}

}  // namespace

int main(int argc, char** argv) try {
  check(argc <= 3, "usage: classify_images [STEPS [FOLDER]]");
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 800;
  const Dataset<LabelledImage> train =
      argc == 3 ? read(argv[2], "train") : synthetic::digits(Part::training, 20000);
  const Dataset<LabelledImage> test =
      argc == 3 ? read(argv[2], "t10k") : synthetic::digits(Part::held_out, 2000, {}, /*seed=*/1);
  const int64_t side = argc == 3 ? 28 : 16;
  VisionTransformer model({.height = side,
                           .width = side,
                           .patch = 4,
                           .stack = {.block = {.mixer = {.width = 64}, .dropout = 0.1}, .layers = 4}});
  Loader loader(train, shuffled_batches(train.size(), kBatch, /*seed=*/0), image_batch);
  const std::vector<Batch> whole_test = Loader(test, ordered_batches(test.size(), 500), image_batch).whole();
  const training::Task task{.model = model,
                            .batch = [&](int64_t index) { return loader.batch(index); },
                            .validation = [&] { return whole_test; },
                            .loss = [&](const auto& x) { return cross_entropy(model.forward(x[0]), x[1]); },
                            .metrics = {accuracy_metric([&](const Tensor& x) { return model.forward(x); })}};
  training::Trainer trainer(task, optim::warmup_cosine(2e-3, steps / 10, steps),
                            {.steps = steps, .optimizer = "nadamw"});
  trainer.run();
  fmt::print("{} parameters; {:.2f} % of {} held-out images are right\n", model.parameter_count(),
             100 * trainer.record().metrics[0].last(), test.size());
  check(std::fflush(stdout) == 0, "classify_images: cannot write to standard output");
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
