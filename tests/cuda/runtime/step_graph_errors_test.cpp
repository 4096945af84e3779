// Graphs: wrong numbers that a replay reports, and operations that cannot be captured.
#include "core/gpu/step_graph.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>

#include "core/creation.h"
#include "core/gpu/stream.h"
#include "core/memory/allocator.h"
#include "core/print.h"
#include "core/random.h"
#include "core/tensor_kernels.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "optim/by_name.h"
#include "optim/clip.h"
#include "tests/cuda/device.h"

using namespace vitrine;
using test::has_gpu, test::kGpu;

TEST_CASE("an index out of range is told by what waits next, in a graph and without one") {
  if (!has_gpu()) return;
  const Tensor table = ones({4, 2}, DType::float32, kGpu), x = ones({2, 3}, DType::float32, kGpu);
  Tensor ids = to(tensor({1, 3}, DType::int64), kGpu), y;
  const auto set_ids = [&](std::initializer_list<double> values) {
    Tensor pinned = empty_pinned({2}, DType::int64);
    std::copy(values.begin(), values.end(), pinned.data<int64_t>());
    copy_async(ids, pinned);
    synchronize(kGpu);
  };
  struct Case {
    std::function<Tensor()> f;
    const char* error;
  };
  for (const Case& c :
       {Case{[&] { return embedding(table, ids); }, "embedding: ids has 9 at position 1, outside [0, 4)"},
        Case{[&] { return index_select(table, 0, ids); },
             "index_select: index has 9 at position 1, outside [-4, 4)"},
        Case{[&] {
               return gather(table, 0, reshape(ids, {2, 1}));
             },
             "gather: index has 9 at position 1, outside [-4, 4)"},
        Case{[&] { return cross_entropy(x, ids); },
             "cross_entropy: targets has 9 at position 1, outside [0, 3)"}}) {
    INFO(c.error);
    set_ids({1, 2});
    c.f().values();
    StepGraph graph(kGpu, [&] { y = c.f(); });
    graph.replay();
    const auto right = y.values();
    set_ids({1, 9});
    CHECK_NOTHROW(graph.replay());
    CHECK_THROWS_WITH(sum(y).item(), c.error);
    CHECK_NOTHROW(synchronize(kGpu));  // told once
    CHECK_NOTHROW(c.f());
    CHECK_THROWS_WITH(Stream::current(kGpu).synchronize(), c.error);
    set_ids({1, 2});
    graph.replay();
    CHECK(y.values() == right);
  }
  CHECK_THROWS_WITH(embedding(zeros({0, 2}, DType::float32, kGpu), ids),
                    "embedding: ids has 2 indices, but there are none in [0, 0)");
}

TEST_CASE("a target that is no share is reported after the replay") {
  if (!has_gpu()) return;
  const Tensor logits = zeros({3, 2}, DType::float32, kGpu);
  Tensor targets = full({2, 3}, 0.5, DType::float32, kGpu), loss;
  const auto f = [&] { loss = binary_cross_entropy(logits, transpose(targets)); };
  StepGraph graph(kGpu, f);
  graph.replay();
  CHECK(loss.item() == doctest::Approx(std::log(2)));
  for (const double wrong : {-0.25, 1.5, static_cast<double>(NAN)}) {
    Tensor one = slice(select(targets, 0, 1), 0, 2, 3);  // [1, 2], in the transposed [2, 1]
    VITRINE_RUN(fill, one, wrong);
    const std::string error =
        fmt::format("binary_cross_entropy: targets has {} at position 5, outside [0, 1]", wrong);
    CHECK_NOTHROW(graph.replay());
    CHECK_THROWS_WITH(loss.item(), error.c_str());
    CHECK_NOTHROW(f());
    CHECK_THROWS_WITH(synchronize(kGpu), error.c_str());
  }
}

TEST_CASE("gradients that are not finite are reported after the replay, and are 0 for the step in between") {
  if (!has_gpu()) return;
  const Parameter p(ones({2}, DType::float32, kGpu)), transposed(ones({2, 3}, DType::float32, kGpu));
  p.master().set_grad(to(tensor({1e18, 3}), kGpu));
  Tensor strided = transpose(ones({3, 2}, DType::float32, kGpu));
  transposed.master().set_grad(std::move(strided));  // the only handle: moved, with its strides
  const auto optimizer = optim::make_optimizer("sgd", {p}, {.lr = 0.25, .momentum = 0});
  optimizer->step();
  Tensor norm;
  StepGraph graph(kGpu, [&] {
    norm = optim::clip_gradients({p, transposed}, 1);
    optimizer->step();
  });
  graph.replay();
  CHECK(norm.item() == doctest::Approx(1e18));
  CHECK(p.grad().values()[0] == doctest::Approx(1));
  const auto before = p.value().values();
  for (const double wrong : {double{INFINITY}, double{NAN}}) {
    Tensor gradient = p.grad();
    VITRINE_RUN(fill, gradient, wrong);
    graph.replay();
    CHECK_THROWS_WITH(norm.item(),
                      fmt::format("clip_gradients: the norm of the gradients is {}", wrong).c_str());
    CHECK(p.grad().values() == std::vector<double>(2, 0));
    CHECK(transposed.grad().values() == std::vector<double>(6, 0));
    CHECK(p.value().values() == before);
    VITRINE_RUN(fill, gradient, wrong);
    CHECK_THROWS_AS(optim::clip_gradients({p}, 1), Error);
  }
}

TEST_CASE("a graph copies from and to page-locked memory of the CPU alone") {
  if (!has_gpu()) return;
  Tensor there = zeros({2}, DType::float32, kGpu), here = zeros({2});
  const char* const error =
      "copy_async: float32[2] on cpu is not page-locked, as memory has to be that a graph copies (empty_pinned)";
  CHECK_THROWS_WITH(StepGraph(kGpu, [&] { copy_async(there, here); }), error);
  CHECK_THROWS_WITH(StepGraph(kGpu, [&] { copy_async(here, there); }), error);
}

namespace {

/// A rule that works out its rate on the CPU.
class InOps : public optim::Optimizer {
 public:
  explicit InOps(std::vector<Parameter> parameters) : Optimizer(std::move(parameters), {}) {}

 private:
  void update(ParameterBatch& batch, const optim::GroupOptions& group, int64_t) override {
    for (size_t i = 0; i < batch.x.size(); ++i)
      VITRINE_RUN(copy, batch.x[i], batch.x[i] - group.lr * batch.g[i]);
  }
  std::vector<StateSlot> slots(const Parameter&) const override { return {}; }
};

}  // namespace

TEST_CASE("what cannot be captured is an error that names it, and leaves everything as it was") {
  if (!has_gpu()) return;
  const Tensor x = ones({3}, DType::float32, kGpu), on_cpu = ones({3});
  Generator own(5);
  Parameter p(ones({3}, DType::float32, kGpu));
  p.master().set_grad(ones({3}, DType::float32, kGpu));
  const auto rule = [&](const char* name) { return optim::make_optimizer(name, {p}, {}); };
  const auto adam = rule("adam"), adafactor = rule("adafactor");
  InOps in_ops({p});
  StepGraph other(kGpu, [&] { x + 1; });
  Event event(kGpu);
  struct Case {
    const char* error;
    std::function<void()> f;
  };
  const std::vector<Case> cases = {
      {"item: a graph is being captured", [&] { sum(x).item(); }},
      {"values: a graph is being captured", [&] { x.values(); }},
      {"print: a graph is being captured", [&] { to_string(x); }},
      {"to: a graph is being captured", [&] { to(x, Device::cpu); }},
      {"tensor: a graph is being captured",
       [&] {
         tensor({1, 2}, DType::float32, kGpu);
       }},
      {"linspace: a graph is being captured", [&] { linspace(0, 1, 3, DType::float32, kGpu); }},
      {"add: a graph is being captured, and a kernel on the CPU would run now and in no replay",
       [&] { on_cpu + on_cpu; }},
      {"fill: a graph is being captured, and a kernel on the CPU", [] { ones({3}); }},
      {"synchronize: a graph is being captured", [&] { Stream::current(kGpu).synchronize(); }},
      {"synchronize: a graph is being captured", [&] { synchronize(kGpu); }},
      {"record: a graph is being captured", [&] { event.record(); }},
      {"StreamScope: a graph is being captured", [&] { const StreamScope scope{Stream(kGpu)}; }},
      {"manual_seed: a graph is being captured", [&] { manual_seed(1); }},
      {"random: a graph is being captured", [&] { rand({3}, DType::float32, kGpu, 0, 1, own); }},
      {"StepGraph: a graph is being captured", [&] { const StepGraph inner(kGpu, [] {}); }},
      {"replay: a graph is being captured", [&] { other.replay(); }},
      {"step (the first one", [&] { adam->step(); }},
      {"step (the first one", [&] { adafactor->step(); }},
      {"step: a graph is being captured, and this rule works out its rates on the CPU",
       [&] { in_ops.step(); }},
      {"matmul", [&] { fail("matmul: an error of the function's own"); }},
  };
  manual_seed(8);
  const auto before = memory::statistics(kGpu);
  for (const Case& c : cases) {
    INFO(c.error);
    CHECK_THROWS_WITH(StepGraph(kGpu,
                                [&] {
                                  rand({10}, DType::float32, kGpu);
                                  c.f();
                                }),
                      doctest::Contains(c.error));
    CHECK(Stream::current(kGpu).handle() == nullptr);
    CHECK(default_generator().offset() == 0);
    CHECK((x + 1).values() == std::vector<double>(3, 2));
    CHECK(memory::statistics(kGpu).now == before.now);
  }
  CHECK(adam->steps() == 0);
  Tensor y = zeros({3}, DType::float32, kGpu);
  StepGraph graph(kGpu, [&] { add_in_place(y, x); });
  graph.replay();
  CHECK(y.values() == std::vector<double>(3, 1));
}
