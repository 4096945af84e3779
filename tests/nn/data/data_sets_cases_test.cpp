// Published data sets, where VITRINE_DATA names a folder of them: their sizes, their first items
// and sums over all.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nn/data/folders.h"
#include "nn/data/idx.h"
#include "nn/data/image.h"
#include "nn/data/lines.h"
#include "nn/data/log_mel.h"
#include "nn/data/wav.h"
#include "tests/data.h"

using namespace vitrine;
using namespace vitrine::nn;
using namespace vitrine::test;

namespace {

/// The sum over all pixels, as whole numbers from 0 to `largest`.
int64_t sum_of_pixels(const Dataset<LabelledImage>& images, double largest) {
  int64_t sum = 0;
  for (const LabelledImage& item : images)
    for (const double pixel : item.image.values()) sum += std::llround(pixel * largest);
  return sum;
}

std::vector<int64_t> first_labels(const Dataset<LabelledImage>& images) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 10; ++i) labels.push_back(images[i].label);
  return labels;
}

}  // namespace

TEST_CASE("MNIST: 60,000 and 10,000 images, their first labels and the sum of the pixels") {
  const auto folder = data_file("mnist");
  if (!folder) return;
  const auto part = [&](const std::string& name) {
    return read_idx_images(*folder / (name + "-images-idx3-ubyte.gz"),
                           *folder / (name + "-labels-idx1-ubyte.gz"));
  };
  const auto train = part("train"), test = part("t10k");
  CHECK(train.size() == 60000);
  CHECK(test.size() == 10000);
  CHECK(train[0].image.shape() == Shape{28, 28});
  CHECK(first_labels(train) == std::vector<int64_t>{5, 0, 4, 1, 9, 2, 1, 3, 1, 4});
  CHECK(first_labels(test) == std::vector<int64_t>{7, 2, 1, 0, 4, 1, 4, 9, 5, 9});
  CHECK(sum_of_pixels(test, 255) == 264923200);
  const Tensor images = read_idx(*folder / "train-images-idx3-ubyte.gz");
  CHECK(std::accumulate(images.data<uint8_t>(), images.data<uint8_t>() + images.numel(), int64_t{0}) ==
        1567298545);
}

TEST_CASE("Multi30k: sentences in pairs, and how many words they have") {
  const auto folder = data_file("multi30k");
  if (!folder) return;
  const auto words = [](const std::string& text) { return std::count(text.begin(), text.end(), ' ') + 1; };
  const auto pairs = [&](const std::string& name) {
    return read_parallel_text(*folder / (name + ".en.gz"), *folder / (name + ".de.gz"));
  };
  CHECK(pairs("val").size() == 1014);
  CHECK(pairs("test_2016_flickr").size() == 1000);
  const auto train = pairs("train");
  CHECK(train.size() == 29000);
  CHECK(train[0].source == "Two young, White males are outside near many bushes.");
  int64_t english = 0, german = 0;
  for (const SentencePair& pair : train) english += words(pair.source), german += words(pair.target);
  CHECK(english == 345022);
  CHECK(german == 322420);
}

TEST_CASE("free spoken digits: 1,000 sounds at 8 kHz, 352 seconds together") {
  const auto folder = data_file("fsdd/recordings");
  if (!folder) return;
  const auto paths = sorted_files(*folder, ".wav");
  CHECK(paths.size() == 1000);
  const LogMel features({});
  int64_t samples = 0, frames = 0;
  for (const std::string& path : paths) {
    const Tensor x = read_wav(path, 8000), y = features(x);
    samples += x.numel();
    frames += y.size(0);
    for (const double value : y.values()) CHECK(std::isfinite(value));
  }
  CHECK(samples == 2813421);
  CHECK(std::llround(static_cast<double>(samples) / 8000) == 352);
  CHECK(frames > samples / 80 - 3 * 1000);
}

TEST_CASE("optdigits: 3,823 and 1,797 images of 8 x 8") {
  const auto folder = data_file("digits");
  if (!folder) return;
  const auto train = read_optdigits(*folder / "optdigits.tra"),
             test = read_optdigits(*folder / "optdigits.tes");
  CHECK(train.size() == 3823);
  CHECK(test.size() == 1797);
  CHECK(first_labels(test) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(sum_of_pixels(test, 16) == 561718);
  CHECK(sum_of_pixels(train, 16) == 1204758);
}
