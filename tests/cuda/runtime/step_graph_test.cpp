// Graphs: each replay of a captured training step gives the same bits as a call of the step.
#include "core/gpu/step_graph.h"

#include <doctest/doctest.h>

#include <optional>

#include "core/creation.h"
#include "core/gpu/stream.h"
#include "core/memory/allocator.h"
#include "core/random.h"
#include "core/tape.h"
#include "nn/models/gpt.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/multinomial.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "optim/by_name.h"
#include "optim/clip.h"
#include "tests/cuda/device.h"
#include "tests/optim/rules.h"

#if VITRINE_CUDA_EMULATED
#include "cuda/emulator/counts.h"
#endif

using namespace vitrine;
using test::has_gpu, test::kGpu;

namespace {

constexpr int64_t kBatch = 2, kSteps = 5;

nn::GptOptions tiny() {
  nn::GptOptions o;
  o.vocabulary = 11, o.context = 6, o.width = 8, o.layers = 1, o.heads = 2;
  o.dropout = 0.2, o.mixer = "rotary+alibi";
  return o;
}

/// A GPT with dropout, an optimizer, and the tensors of its batch.
struct Training {
  explicit Training(const std::string& rule, const nn::GptOptions& options = tiny(), Device device = kGpu,
                    DType dtype = DType::float32)
      : model((manual_seed(3), options)) {
    model.to(dtype);
    model.to(device);
    optimizer = optim::make_optimizer(rule, model.parameters(), {.weight_decay = 0.1, .momentum = 0.9});
    inputs = zeros({kBatch, options.context}, DType::int64, device);
    targets = zeros({kBatch, options.context}, DType::int64, device);
    step();
  }

  void step() {
    optimizer->zero_grad();
    Tape tape;
    loss = cross_entropy(model.forward(inputs), targets);
    tape.backward(loss);
    norm = optim::clip_gradients(model.parameters(), 0.5);
    optimizer->step();
  }

  /// What changes from step to step: the batch and the learning rate.
  void prepare(int64_t i) {
    Generator g(static_cast<uint64_t>(i));
    for (Tensor* x : {&inputs, &targets}) {
      Tensor on_cpu = empty_pinned(x->shape(), DType::int64);
      const Tensor drawn = randint(0, model.options().vocabulary, x->shape(), Device::cpu, g);
      std::copy_n(drawn.data<int64_t>(), drawn.numel(), on_cpu.data<int64_t>());
      copy_async(*x, on_cpu);
    }
    optimizer->set_lr(0.01 * static_cast<double>(i + 1));
  }

  std::vector<double> state() const {
    std::vector<double> all;
    for (const auto& [name, p] : const_cast<nn::Gpt&>(model).named_parameters())
      for (const double x : p.master().values()) all.push_back(x);
    for (const auto& [name, x] : optimizer->state_dict())
      for (const double value : x.values()) all.push_back(value);
    return all;
  }

  nn::Gpt model;
  std::unique_ptr<optim::Optimizer> optimizer;
  Tensor inputs, targets, loss, norm;
};

/// Losses and norms of some steps, and the state after them; `graph` says which steps are replays.
std::vector<double> train(Training& training, const std::function<bool(int64_t)>& graph) {
  std::vector<double> figures;
  std::optional<StepGraph> captured;
  manual_seed(21);
  for (int64_t i = 0; i < kSteps; ++i) {
    training.prepare(i);
    if (graph(i)) {
      if (!captured) captured.emplace(training.inputs.device(), [&] { training.step(); });
      captured->replay();
      figures.push_back(training.loss.item());
      figures.push_back(training.norm.item());
    } else {
      const Tensor loss = training.loss, norm = training.norm;  // a graph goes on writing its own
      training.step();
      figures.push_back(training.loss.item());
      figures.push_back(training.norm.item());
      if (captured) training.loss = loss, training.norm = norm;
    }
  }
  figures.push_back(static_cast<double>(default_generator().offset()));
  for (const double x : training.state()) figures.push_back(x);
  return figures;
}

}  // namespace

TEST_CASE("replayed steps give the bits of eager ones: losses, norms, parameters, states, random numbers") {
  if (!has_gpu()) return;
  Training eager("adamw"), replayed("adamw"), mixed("adamw");
  const auto want = train(eager, [](int64_t) { return false; });
  CHECK(train(replayed, [](int64_t) { return true; }) == want);
  CHECK(train(mixed, [](int64_t i) { return i != 2; }) == want);
  CHECK(eager.optimizer->steps() == kSteps + 1);
}

TEST_CASE("a state that is loaded goes into the next replay") {
  if (!has_gpu()) return;
  Training training("adamw");
  StepGraph graph(kGpu, [&] { training.step(); });
  const auto on_cpu = [](std::map<std::string, Tensor> state) {
    for (auto& entry : state) entry.second = copy_to(entry.second, Device::cpu);
    return state;
  };
  const auto model = on_cpu(training.model.state_dict()),
             optimizer = on_cpu(training.optimizer->state_dict());
  const auto train = [&] {
    training.model.load_state_dict(model);
    training.optimizer->load_state_dict(optimizer);
    manual_seed(5);
    for (int64_t i = 0; i < 3; ++i) training.prepare(i), graph.replay();
    return training.state();
  };
  const auto first = train();
  CHECK(train() == first);
}

TEST_CASE("every rule follows its rate, its factor and its step") {
  if (!has_gpu()) return;
  for (const auto& rule : test::optimizer_rules()) {
    INFO(rule.first);
    const auto train = [&](bool in_graph) {
      Parameter p(to(tensor({1, -2, 3}), kGpu)), q(to(reshape(tensor({1, -2, 3, 4, 5, -6}), {2, 3}), kGpu));
      const auto optimizer = rule.second({p, q});
      optimizer->groups()[0].options.weight_decay = 0.1;
      const auto step = [&] {
        optimizer->zero_grad();
        Tape tape;
        tape.backward(sum(p * p * p) + sum(q * q));
        optimizer->step();
      };
      step();
      StepGraph graph(in_graph ? kGpu : Device::cpu, step);
      for (int i = 0; i < 8; ++i) {  // radam changes its form at step 6
        optimizer->set_lr(0.01 * (i + 1));
        optimizer->set_lr_factor(i == 4 ? 0.5 : 1);
        graph.replay();
      }
      CHECK(optimizer->steps() == 9);
      auto values = q.master().values();
      for (const auto& [name, x] : optimizer->state_dict())
        for (const double value : x.values()) values.push_back(value);
      for (const double x : p.master().values()) values.push_back(x);
      return values;
    };
    if (rule.first.starts_with("shampoo")) {
      CHECK_THROWS_WITH(train(true), doctest::Contains("this rule works out its rates on the CPU"));
      continue;
    }
    CHECK(train(true) == train(false));
  }
}

TEST_CASE("each parameter's count goes on in replays; a launch whose parameters have come apart is refused") {
  if (!has_gpu()) return;
  const auto set_gradient = [](const Parameter& p) { p.master().set_grad(full_like(p.master(), 0.25)); };
  const auto train = [&](bool in_graph) {
    Parameter p(to(tensor({1, -2, 3}), kGpu)), late(to(tensor({4, 5}), kGpu));
    optim::Adam adam({p, late});
    for (int i = 0; i < 2; ++i) set_gradient(p), adam.step();
    const auto step = [&] { set_gradient(p), set_gradient(late), adam.step(); };
    step();
    StepGraph graph(in_graph ? kGpu : Device::cpu, step);
    for (int i = 0; i < 3; ++i) graph.replay();
    CHECK(adam.steps(p) == 6);
    CHECK(adam.steps(late) == 4);
    auto values = p.master().values();
    for (const double x : late.master().values()) values.push_back(x);
    return values;
  };
  CHECK(train(true) == train(false));

  Parameter p(to(tensor({1, -2}), kGpu)), q(to(tensor({4}), kGpu));
  p.set_name("p"), q.set_name("q");
  optim::Adam adam({p, q});
  const auto step = [&] { set_gradient(p), set_gradient(q), adam.step(); };
  step();
  StepGraph graph(kGpu, step);
  graph.replay();
  q.zero_grad();
  adam.step();
  CHECK_THROWS_WITH_AS(graph.replay(), doctest::Contains("p has taken 3 steps and q has taken 2"), Error);
  CHECK(adam.steps() == 3);
}

TEST_CASE("so does a step whose blocks run again in the backward, in bfloat16, with LASER") {
  if (!has_gpu()) return;
  nn::GptOptions options = tiny();
  options.recompute_blocks = true, options.mixer = "laser+qk_norm";
  Training eager("adamw", options, kGpu, DType::bfloat16), replayed("adamw", options, kGpu, DType::bfloat16);
  CHECK(train(replayed, [](int64_t) { return true; }) == train(eager, [](int64_t) { return false; }));
}

TEST_CASE(
    "so does a step with Hopper's attention: more queries than one tile, heads that its copy engine reads") {
  if (!has_gpu()) return;
#if defined(VITRINE_SANITIZED) || defined(VITRINE_KERNELS_TRACED)
  MESSAGE("left out: the same kernels are checked alone, and whether replays equal steps is seen without");
  return;
#endif
  for (const char* attention : {"laser", "standard"}) {
    if (attention == std::string("standard") && !test::all_samples()) continue;
    INFO(attention);
    nn::GptOptions options = tiny();
    options.context = 140, options.width = 32, options.mixer = attention;
    Training eager("adamw", options, kGpu, DType::bfloat16),
        replayed("adamw", options, kGpu, DType::bfloat16);
#if VITRINE_CUDA_EMULATED
    emulator::count_kernels(true);
#endif
    CHECK(train(replayed, [](int64_t) { return true; }) == train(eager, [](int64_t) { return false; }));
#if VITRINE_CUDA_EMULATED
    for (const char* wanted : {"attention_hopper", "hopper_gradients"}) {
      INFO(wanted);
      const auto counts = emulator::kernel_counts();
      CHECK(std::any_of(counts.begin(), counts.end(),
                        [&](const auto& kernel) { return kernel.first.find(wanted) != std::string::npos; }));
    }
    emulator::count_kernels(false);
#endif
  }
}

TEST_CASE("on a stream of one's own, and on the CPU, replays do the same") {
  if (!has_gpu()) return;
  Training eager("adamw"), replayed("adamw");
  const auto want = train(eager, [](int64_t) { return false; });
  const Stream stream(kGpu);
  stream.wait_for(Stream::current(kGpu));
  {
    const StreamScope scope(stream);
    CHECK(train(replayed, [](int64_t) { return true; }) == want);
  }
  Training on_cpu("adamw", tiny(), Device::cpu), graph_of_cpu("adamw", tiny(), Device::cpu);
  CHECK(train(graph_of_cpu, [](int64_t) { return true; }) == train(on_cpu, [](int64_t) { return false; }));
}

#if VITRINE_CUDA_EMULATED
TEST_CASE("so do replays on another GPU than the first, which take no tensor of that one") {
  const Device second{DeviceKind::cuda, 1};
  Training eager("adamw", tiny(), second), replayed("adamw", tiny(), second);
  const auto want = train(eager, [](int64_t) { return false; });
  CHECK(train(replayed, [](int64_t) { return true; }) == want);
  Tensor elsewhere = zeros({2}, DType::float32, kGpu);
  CHECK_THROWS_WITH(
      StepGraph(second, [&] { scale_in_place(elsewhere, 2); }),
      doctest::Contains("a graph of cuda:1 is being captured, and a kernel wants float32[2] on cuda:0"));
}
#endif

TEST_CASE("a graph follows the thread's generator, also through manual_seed") {
  if (!has_gpu()) return;
  Tensor x, y;
  const auto draw = [&] { x = rand({5}, DType::float32, kGpu), y = randn({3}, DType::float32, kGpu); };
  const auto values = [&] {
    std::vector<double> both = x.values();
    for (const double v : y.values()) both.push_back(v);
    return both;
  };
  manual_seed(4);
  std::vector<std::vector<double>> want;
  for (int i = 0; i < 3; ++i) draw(), want.push_back(values());
  manual_seed(99);
  StepGraph graph(kGpu, draw);
  CHECK(default_generator().offset() == 0);  // a capture draws nothing
  manual_seed(4);
  for (const auto& numbers : want) {
    graph.replay();
    CHECK(values() == numbers);
  }
  CHECK(default_generator().offset() == 9);
}

TEST_CASE("capturing runs nothing; a graph keeps what it reads and counts what it writes") {
  if (!has_gpu()) return;
  Tensor y = zeros({4}, DType::float32, kGpu);
  StepGraph graph = [&] {
    const Tensor x = ones({4}, DType::float32, kGpu);
    return StepGraph(kGpu, [&] { add_in_place(y, x * 2); });
  }();
  const Tensor other = full({4}, 7, DType::float32, kGpu);  // in the place of x, were x not kept
  CHECK(y.values() == std::vector<double>(4, 0));
  const uint32_t version = y.storage().version();
  graph.replay();
  graph.replay();
  CHECK(y.values() == std::vector<double>(4, 4));
  CHECK(y.storage().version() == version + 2);
  CHECK(std::string(y.storage().last_writer()) == "replay");
  Tensor pinned = empty_pinned({4});
  std::fill_n(pinned.data<float>(), 4, 3.0f);
  StepGraph copies(kGpu, [&] { copy_async(y, pinned); });
  const auto copied = y.storage().version();
  copies.replay();
  CHECK(y.storage().version() == copied + 1);
  CHECK(y.values() == std::vector<double>(4, 3));
}

TEST_CASE("a tensor that another stream has released is not the graph's own") {
  if (!has_gpu()) return;
  const test::Caching caching;
  Tensor y;
  {
    const Stream stream(kGpu);  // the next one may have its place
    const StreamScope scope(stream);
    y = zeros({4}, DType::float32, kGpu);
  }
  StepGraph graph(kGpu, [&] { add_in_place(y, ones({4}, DType::float32, kGpu)); });
  const uint32_t version = y.storage().version();
  graph.replay();
  CHECK(y.values() == std::vector<double>(4, 1));
  CHECK(y.storage().version() == version + 1);
}

TEST_CASE("a captured multinomial draws in each replay what calling it draws") {
  if (!has_gpu()) return;
  const Tensor weights = to(arange(1, 101), kGpu);
  Tensor with, without;
  const auto draw = [&] { with = multinomial(weights, 5, true), without = multinomial(weights, 5, false); };
  const auto drawn = [&] {
    auto all = with.values();
    for (const double i : without.values()) all.push_back(i);
    return all;
  };
  manual_seed(4);
  std::vector<std::vector<double>> eager, replayed;
  for (int i = 0; i < 3; ++i) draw(), eager.push_back(drawn());
  manual_seed(4);
  StepGraph graph(kGpu, draw);
  for (int i = 0; i < 3; ++i) graph.replay(), replayed.push_back(drawn());
  CHECK(replayed == eager);
  CHECK_FALSE(eager[0] == eager[1]);
}

TEST_CASE("scales by the number of visible keys, masks and one-hot vectors are made within the graph") {
  if (!has_gpu()) return;
  for (const char* attention : {"optimal=visible", "entropy=visible", "cosine=visible"}) {
    INFO(attention);
    nn::GptOptions options = tiny();
    options.mixer = attention;
    Training eager("adamw", options), replayed("adamw", options);
    CHECK(train(replayed, [](int64_t) { return true; }) == train(eager, [](int64_t) { return false; }));
  }
  const Tensor ids = to(tensor({1, 0, 2}, DType::int64), kGpu), x = ones({3, 3}, DType::float32, kGpu);
  Tensor y;
  StepGraph graph(kGpu, [&] { y = tril(x) + triu(x, 1) * 2.0 + one_hot(ids, 3, DType::float32) * 10.0; });
  graph.replay();
  CHECK(y.values() == std::vector<double>{1, 12, 2, 11, 1, 2, 1, 1, 11});
}

TEST_CASE("the memory of a graph is its own, kept while it lives and then given back") {
  if (!has_gpu()) return;
  synchronize(kGpu);
  memory::release_cached(kGpu);
  const auto before = memory::statistics(kGpu);
  Tensor y = zeros({1 << 20}, DType::float32, kGpu);
  {
    StepGraph graph(kGpu, [&] {
      const Tensor x = ones({1 << 20}, DType::float32, kGpu) + 1;  // temporary
      add_in_place(y, x);
    });
    memory::release_cached(kGpu);  // what x has left is not given away
    const Tensor other = full({4 << 20}, 9, DType::float32, kGpu);
    graph.replay();
    CHECK(y.values()[77] == 2);
    CHECK(other.values()[77] == 9);
    CHECK(memory::statistics(kGpu).reserved > before.reserved + (4 << 20));
  }
  y = Tensor();
  memory::release_cached(kGpu);
  CHECK(memory::statistics(kGpu).now == before.now);
  CHECK(memory::statistics(kGpu).reserved == before.reserved);
}
