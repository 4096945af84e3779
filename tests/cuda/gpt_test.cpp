// A whole GPT on the device: training, generation and every attention give the same results as on
// the CPU.
#include "nn/models/gpt.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "core/creation.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/attention/statistics.h"
#include "nn/generation/generate.h"
#include "nn/training/loss_scale.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/view.h"
#include "optim/adam.h"
#include "tests/cuda/device.h"
#include "tests/environment.h"
#include "tests/spec/spec.h"

using namespace vitrine;
using test::has_gpu;

namespace {

/// The losses of the first steps of training on random windows of a text that can be learned: each
/// token follows from the last.
std::vector<double> first_losses(nn::Gpt& model, int64_t batch, int steps, Device device) {
  model.to(device);
  const int64_t time = model.options().context, vocabulary = model.options().vocabulary;
  optim::Adam optimizer(model.parameters(), {.weight_decay = 0.1, .decay = optim::Decay::decoupled});
  // float16's gradients would be 0 without
  nn::training::LossScale scale(model.tokens.weight.dtype());
  std::vector<double> losses;
  Generator g(5);
  for (int step = 0; step < steps; ++step) {
    std::vector<int64_t> inputs, targets;
    for (const double first : randint(0, vocabulary, {batch}, Device::cpu, g).values())
      for (int64_t t = 0, token = static_cast<int64_t>(first); t < time; ++t) {
        inputs.push_back(token);
        targets.push_back(token = (5 * token + 3) % vocabulary);
      }
    optimizer.zero_grad();
    Tape tape;
    const Tensor loss = cross_entropy(model.forward(index_tensor(inputs, {batch, time}, device)),
                                      index_tensor(targets, {batch, time}, device));
    losses.push_back(loss.item());
    tape.backward(loss * scale.value());
    if (scale.unscale(model.parameters())) optimizer.step();
  }
  return losses;
}

nn::GptOptions small_options(const std::string& attention = "standard") {
  nn::GptOptions o;
  o.vocabulary = 11, o.context = 10, o.width = 12, o.layers = 2, o.heads = 2;
  o.mixer = attention;
  return o;
}

}  // namespace

TEST_CASE("the first losses of a GPT's training are those of the CPU") {
  if (!has_gpu()) return;
  nn::GptOptions o;
  o.vocabulary = 65, o.context = 64, o.width = 128, o.layers = 4, o.heads = 4;
  int64_t batch = 12;
#if VITRINE_CUDA_EMULATED
  const int steps = 3;
  if (!test::all_samples()) batch = 3, o.layers = 2;
#else
  const int steps = 30;
#endif
#if defined(VITRINE_SANITIZED) || defined(VITRINE_KERNELS_TRACED)
  MESSAGE("a smaller GPT: each access to memory is checked, which takes a hundred times as long");
  o.context = 20, o.width = 24, o.layers = 1, o.heads = 2, batch = 2;
#endif
  manual_seed(3);
  nn::Gpt model(o), twin = model.clone();
  const auto want = first_losses(model, batch, steps, Device::cpu),
             got = first_losses(twin, batch, steps, Device::cuda);
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("step ", i, ": ", got[i], " against ", want[i]);
    CHECK(std::abs(got[i] - want[i]) <=
          (i < 3 ? 2e-6 : 1e-3) * want[i]);  // each step magnifies what the last ones lost
  }
  CHECK(want[2] < want[0]);
}

TEST_CASE("a GPT in 16 bits learns on the device as in float32 on the CPU, and the same bits twice") {
  if (!has_gpu()) return;
  for (const char* attention : {"standard", "laser"}) {
    nn::GptOptions o = small_options(attention);
    o.context = 24, o.width = 32;  // heads of 16 channels, for tensor cores
    manual_seed(3);
    nn::Gpt model(o);
    nn::Gpt wide = model.clone();
    const auto want = first_losses(wide, 3, 6, Device::cpu);
    for (const DType dtype : {DType::bfloat16, DType::float16}) {
      if (!test::all_samples() && (dtype == DType::float16) == (o.mixer == "laser")) continue;
      INFO(attention, " in ", name(dtype));
      const auto train = [&](Device device) {
        nn::Gpt low = model.clone();
        low.to(dtype);
        return first_losses(low, 3, 6, device);
      };
      const auto got = train(Device::cuda), on_cpu = train(Device::cpu);
      for (size_t i = 0; i < want.size(); ++i) {
        INFO("step ", i, ": ", got[i], ", on the CPU ", on_cpu[i], ", in float32 ", want[i]);
        CHECK(std::abs(got[i] - want[i]) <= 2 * epsilon(dtype) * want[i]);
        CHECK(std::abs(got[i] - on_cpu[i]) <= 2 * epsilon(dtype) * want[i]);
      }
      CHECK(want.back() < 0.97 * want[0]);
      CHECK(train(Device::cuda) == got);
    }
  }
}

TEST_CASE("generation on the device gives the CPU's tokens") {
  if (!has_gpu()) return;
  for (const char* attention : {"standard", "laser+alibi", "rotary+qk_norm"}) {
    INFO(attention);
    manual_seed(4);
    nn::Gpt model(small_options(attention));
    first_losses(model, 4, 5, Device::cpu);
    nn::Gpt twin = model.clone();
    twin.to(Device::cuda);
    const auto tokens = nn::generate(model, {1, 8}, 25, {});  // further than the context
    CHECK(nn::generate(twin, {1, 8}, 25, {}) == tokens);
    CHECK(nn::generate(twin, {1, 8}, 25, {.temperature = 0}) ==
          nn::generate(model, {1, 8}, 25, {.temperature = 0}));
  }
}

TEST_CASE("every attention on the device, fused and with its weights kept, gives the CPU's logits") {
  if (!has_gpu()) return;
  for (const char* attention : {"standard", "laser", "cosine", "qk_norm_rms", "temperature", "rotary",
                                "alibi", "softcap=2", "laser+entropy+alibi", "optimal=visible"}) {
    INFO(attention);
    nn::GptOptions o = small_options(attention);
    o.heads = 2, o.key_heads = 1;
    if (std::string(attention) == "cosine") o.positions = nn::Positions::sinusoidal;
    nn::Gpt model(o);
    nn::Gpt twin = model.clone();
    twin.to(Device::cuda);
    const Tensor ids = index_tensor(std::array<int64_t, 8>{1, 5, 10, 0, 3, 3, 7, 2}, {2, 4});
    const auto want = model.forward(ids).values();
    std::vector<nn::MixerTrace> traces;
    for (const Tensor& got :
         {twin.forward(to(ids, Device::cuda)), twin.forward(to(ids, Device::cuda), {.traces = &traces})})
      CHECK(spec::distance(got.values(), want, 0.1) <= 1e-5);
    CHECK(traces[0].weights.device() == Device::cuda);
  }
}

TEST_CASE("every kind of block on the device gives the CPU's losses, logits and traces") {
  if (!has_gpu()) return;
  struct Kind {
    const char* what;
    void (*set)(nn::GptOptions&);
  };
  const Kind kinds[] = {{"rms norms after the sums, swiglu, no bias, rotary",
                         [](nn::GptOptions& o) {
                           o.norm = nn::NormKind::rms, o.residual = nn::Residual::post,
                           o.activation = nn::Activation::swiglu;
                           o.bias = nn::Bias::no, o.mixer = "rotary";
                         }},
                        {"layer norms after the sums, silu, sinusoidal positions",
                         [](nn::GptOptions& o) {
                           o.residual = nn::Residual::post, o.activation = nn::Activation::silu,
                           o.positions = nn::Positions::sinusoidal;
                         }},
                        {"rms norms, relu, grouped queries, LASER",
                         [](nn::GptOptions& o) {
                           o.norm = nn::NormKind::rms, o.activation = nn::Activation::relu, o.key_heads = 1;
                           o.mixer = "laser";
                         }},
                        {"gelu, blocks computed again, dropout", [](nn::GptOptions& o) {
                           o.activation = nn::Activation::gelu, o.recompute_blocks = true, o.dropout = 0.2;
                         }}};
  for (const Kind& kind : kinds) {
    INFO(kind.what);
    nn::GptOptions o = small_options();
    kind.set(o);
    manual_seed(6);
    nn::Gpt model(o), twin = model.clone();
    manual_seed(7);  // of dropout
    const auto want = first_losses(model, 3, 4, Device::cpu);
    manual_seed(7);
    const auto got = first_losses(twin, 3, 4, Device::cuda);
    for (size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= 1e-5 * want[i]);
    model.eval(), twin.eval();
    const Tensor ids = index_tensor(std::array<int64_t, 8>{1, 5, 10, 0, 3, 3, 7, 2}, {2, 4});
    std::vector<nn::MixerTrace> on_cpu, on_device;
    const auto logits = model.forward(ids, {.traces = &on_cpu}).values();
    CHECK(spec::distance(twin.forward(to(ids, Device::cuda), {.traces = &on_device}).values(), logits, 0.1) <=
          1e-4);
    for (size_t layer = 0; layer < on_cpu.size(); ++layer) {
      CHECK(spec::distance(on_device[layer].weights.values(), on_cpu[layer].weights.values(), 0.1) <= 1e-4);
      const auto heads = nn::inspect(on_device[layer]), same_heads = nn::inspect(on_cpu[layer]);
      for (size_t h = 0; h < heads.size(); ++h) {
        CHECK(std::abs(heads[h].entropy - same_heads[h].entropy) <= 1e-4);
        CHECK(std::abs(heads[h].jacobian - same_heads[h].jacobian) <= 1e-4);
      }
    }
  }
}

TEST_CASE("masks made on the device are those of the CPU") {
  if (!has_gpu()) return;
  const int64_t lengths[] = {3, 0, 5};
  CHECK(nn::padding_mask(lengths, 5, Device::cuda).values() == nn::padding_mask(lengths, 5).values());
  CHECK(nn::prefix_mask(2, 5, Device::cuda).values() == nn::prefix_mask(2, 5).values());
  const nn::AttentionMask window{.causal = true, .left = 1};
  CHECK(window.visible(3, 5, Device::cuda).values() == window.visible(3, 5, Device::cpu).values());
  CHECK(window.visible_keys(3, 5, Device::cuda).values() == std::vector<double>{2, 2, 2});
  const nn::AttentionMask padded{.causal = true, .allowed = nn::padding_mask(lengths, 5, Device::cuda)};
  CHECK(padded.visible_keys(2, 5, Device::cuda).values() == std::vector<double>{3, 3, 0, 0, 4, 5});
}
