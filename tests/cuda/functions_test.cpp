// Functions without a spec row, on a GPU: they give the same results as on the CPU.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/creation.h"
#include "core/files/npy.h"
#include "core/gradcheck/check_gradients.h"
#include "core/print.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/attention/mask.h"
#include "nn/attention/multi_head.h"
#include "nn/attention/part.h"
#include "nn/attention/patterns.h"
#include "nn/attention/positions.h"
#include "nn/models/gpt.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/view.h"
#include "tests/cuda/device.h"
#include "tests/folder.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using test::has_gpu;

namespace {

Tensor normal(const Shape& shape, Device device, uint64_t seed = 3) {
  Generator g(seed);
  return randn(shape, DType::float32, device, 0, 1, g);
}

Tensor is_positive(const Tensor& x) { return greater(x, zeros_like(x)); }

/// Scores to the power of two, in place of e^score: a part from outside.
class Squares : public nn::AttentionPart {
 public:
  Traits traits() const override { return {.distribution = false}; }
  Tensor normalize(const Tensor& scores) const override { return square(relu(scores)); }
};

}  // namespace

TEST_CASE("tensors that are made or asked on a GPU are those of the CPU") {
  if (!has_gpu()) return;
  using Make = std::function<Tensor(Device)>;
  const std::pair<const char*, Make> functions[] = {
      {"eye", [](Device d) { return eye(4, 6, DType::float32, d); }},
      {"linspace", [](Device d) { return linspace(-1, 2, 7, DType::float32, d); }},
      {"logical_not", [](Device d) { return logical_not(is_positive(normal({5}, d))); }},
      {"is_finite", [](Device d) { return is_finite(log(normal({9}, d))); }},
      {"one_hot",
       [](Device d) {
         return one_hot(index_tensor(std::vector<int64_t>{2, 0, 4}, {3}, d), 5);
       }},
      {"block_pattern",
       [](Device d) {
         return nn::block_pattern({6, 6, d}, is_positive(normal({3, 3}, d)), 2);
       }},
      {"rotate by positions",
       [](Device d) {
         return nn::rotate(normal({2, 3, 8}, d), index_tensor(std::vector<int64_t>{5, 0, 700}, {3}, d));
       }},
      {"pad by reflection",
       [](Device d) {
         return pad(normal({3, 5}, d), {2, 1}, {1, 4}, PadMode::reflect);
       }},
      {"pad by the edge",
       [](Device d) {
         return pad(normal({3, 5}, d), {2, 0}, {1, 9}, PadMode::edge);
       }},
      {"pad by wrapping",
       [](Device d) {
         return pad(normal({3, 5}, d), {3, 1}, {0, 5}, PadMode::wrap);
       }},
  };
  for (const auto& function : functions) {
    INFO(std::string(function.first));
    const Tensor want = function.second(Device::cpu), got = function.second(Device::cuda);
    CHECK(got.device() == Device::cuda);
    CHECK(got.dtype() == want.dtype());
    CHECK(got.shape() == want.shape());
    CHECK(spec::distance(got.values(), want.values(), 1e-3) <= 2e-6);
  }
}

TEST_CASE("cross-attention, and attention with a part from outside, on the device") {
  if (!has_gpu()) return;
  static const bool known = [] {
    nn::register_attention_part({.name = "squares_of_scores",
                                 .stage = nn::Stage::normalize,
                                 .help = "squared scores",
                                 .make = [](auto&, auto&) { return std::make_unique<Squares>(); }});
    return true;
  }();
  CHECK(known);
  for (const char* name : {"standard", "laser", "squares_of_scores+qk_norm"}) {
    INFO(std::string(name));
    const auto run = [&](Device device) {
      manual_seed(4);
      nn::MultiHeadAttention attention({.width = 12, .heads = 3, .name = name});
      attention.to(device);
      const int64_t lengths[] = {7, 4};
      const Tensor x = normal({2, 5, 12}, device, 1), source = normal({2, 7, 12}, device, 2);
      Tape tape;
      tape.watch(x), tape.watch(source);
      const Tensor y =
          attention.forward(x, {.mask = {.allowed = nn::padding_mask(lengths, 7, device)}, .source = source});
      std::vector<Tensor> results = tape.gradient({y}, {x, source}, {normal(y.shape(), device, 5)});
      results.push_back(y);
      return results;
    };
    const auto want = run(Device::cpu), got = run(Device::cuda);
    for (size_t i = 0; i < want.size(); ++i)
      CHECK(spec::distance(got[i].values(), want[i].values(), 0.01) <= 2e-5);
  }
}

TEST_CASE("a model on the GPU is copied there") {
  if (!has_gpu()) return;
  nn::GptOptions o;
  o.vocabulary = 11, o.context = 4, o.layers = 1, o.heads = 2, o.width = 8;
  manual_seed(6);
  nn::Gpt model(o);
  model.to(Device::cuda);
  nn::Gpt copy = model.clone();
  const auto mine = model.parameters(), its = copy.parameters();
  REQUIRE(its.size() == mine.size());
  for (size_t i = 0; i < mine.size(); ++i) {
    CHECK(its[i].master().device() == Device::cuda);
    CHECK(its[i].master().raw() != mine[i].master().raw());
    CHECK(its[i].master().values() == mine[i].master().values());
  }
}

TEST_CASE("what is not finite on the GPU is found where it arises") {
  if (!has_gpu()) return;
  Tape tape({.anomaly = true});
  const Tensor x = tape.watch(tensor({1, 0}, DType::float32, Device::cuda));
  CHECK_THROWS_WITH(log(x) * 2, doctest::Contains("log"));
}

TEST_CASE("a tensor of the GPU is printed and written to files as the CPU's is") {
  if (!has_gpu()) return;
  const Tensor x = normal({3, 4}, Device::cpu), there = to(x, Device::cuda);
  std::ostringstream here, far;
  here << x, far << there;
  const std::string text = far.str();
  CHECK(text.substr(0, text.find("float32")) == here.str().substr(0, here.str().find("float32")));
  CHECK(text.find("cuda:0") != std::string::npos);
  const test::Folder folder;
  write_npy(folder / "x.npy", there);
  CHECK(read_npy(folder / "x.npy").values() == x.values());
}

TEST_CASE("gradients on the GPU are checked by differences there, and it is said why not by dual numbers") {
  if (!has_gpu()) return;
  Generator g(2);
  const Tensor x = randn({3, 4}, DType::float64, Device::cuda, 0, 1, g);
  const GradientReport right =
      check_gradients([](const std::vector<Tensor>& v) { return tanh(v[0]) * v[0]; }, {x});
  CHECK_MESSAGE(right.passed, to_string(right));
  CHECK_MESSAGE(to_string(right).find("input 0 is on cuda:0, and only the CPU's kernels know dual numbers") !=
                    std::string::npos,
                to_string(right));
  const GradientReport wrong =
      check_gradients([](const std::vector<Tensor>& v) { return v[0] * detach(v[0]); }, {x});
  CHECK_FALSE(wrong.passed);
}
